"""Binary decision diagrams: each query is a reduced, ordered diagram, and all diagrams share their nodes.

A node asks one predicate and has an edge for each answer. All queries ask their predicates in one order, the edges of
a node do not all lead to the same node, and no two nodes are equal. A message walks from the root of each query to
"it is true" or "it is not"; the result of a node that the walk of another query has passed is known already.

The third edge is for unknown. The diagram of a query says whether the query is true: an AND is true if all its parts
are, a NOT if its child is false. So two ends suffice, and AND and OR join diagrams as in two-valued logic.

Cost: a walk for each distinct part of the diagrams; each predicate is evaluated at most once per message; no
disjunctive normal form. The nodes of removed queries are dropped when they may be half of all.
Cannot: skip a query, or skip predicates by a hash: "the diagram's node has a large number of children, and the
algorithm becomes exhaustive search". Nor bound its size: a diagram may be exponential in the predicates. A query with
more than ``terms_max`` predicates, or ``steps_max`` steps to compile, is kept aside and evaluated by definition.

Source: the ITMO paper (in Russian; quotations are translated), section "BE-tree, k-index, BDD"; Campailla et al.,
"Efficient filtering in publish-subscribe systems using binary decision diagrams", ICSE 2001, which has no unknown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tamis.query import Query
from tamis.reference.queries.query_matcher import Message, QueryMatcher, predicate_of, predicates

if TYPE_CHECKING:
    from tamis._core import _Tree as Tree


@dataclass(frozen=True, eq=False)
class BddNode:
    """Asks `predicate`, whose position in the order is `variable`, and has an edge for each answer."""

    variable: int
    predicate: Query
    if_true: Diagram
    if_false: Diagram
    if_unknown: Diagram


Diagram: TypeAlias = BddNode | bool


class _TooManySteps(Exception):  # noqa: N818 - a way out of a recursion, never an error that anybody sees
    pass


class Bdd(QueryMatcher):
    """Decision diagrams that share their nodes.

    >>> from tamis import boolean
    >>> diagrams = Bdd()
    >>> diagrams.add("ibm", boolean("stock == IBM && MIC == XEUR"))
    >>> diagrams.add("either", boolean("(stock == IBM || stock == SAP) && MIC == XEUR"))
    >>> diagrams.node_count  # 2 and 4, of which they share one: MIC == XEUR
    5
    >>> diagrams.match({"stock": "IBM", "MIC": "XEUR", "bid": 239}), [str(asked) for asked in diagrams.evaluated]
    (['ibm', 'either'], ["stock = 'IBM'", "MIC = 'XEUR'"])
    """

    def __init__(self, terms_max: int = 64, steps_max: int = 10_000) -> None:
        super().__init__()
        self._terms_max = terms_max
        self._steps_max = steps_max
        self._steps_left = 0
        self._roots: dict[int, Diagram] = {}
        self._variables: dict[Query, int] = {}
        self._next_variable = 0
        self._live_count = 0  # nodes, when they were last swept
        self._removed_count = 0  # queries, since then
        self._nodes: dict[tuple[int, Diagram, Diagram, Diagram], BddNode] = {}
        self._aside: set[int] = set()

    @property
    def node_count(self) -> int:
        """The number of nodes of all diagrams together. Cost: linear in the nodes."""
        self._sweep()
        return len(self._nodes)

    def _insert(self, number: int, tree: Tree) -> None:
        self._steps_left = self._steps_max
        try:
            if len(predicates(tree)) > self._terms_max:
                raise _TooManySteps
            self._roots[number] = self._compile(tree, wanted=True)
        except _TooManySteps:
            self._aside.add(number)
        if len(self._nodes) > 2 * self._live_count + 64:
            self._sweep()  # what was made on the way

    def _delete(self, number: int) -> None:
        if number in self._aside:
            self._aside.remove(number)
        else:
            del self._roots[number]
            self._removed_count += 1
            if self._removed_count > len(self._roots):
                self._sweep()

    def _compile(self, tree: Tree, *, wanted: bool) -> Diagram:
        """Return the diagram of "`tree` is `wanted`"."""
        match tree:
            case ("not", child):
                return self._compile(child, wanted=not wanted)
            case (("and" | "or") as word, children):
                deciding = (word == "or") is wanted  # any of them, or all of them
                joined: Diagram = not deciding
                for child in children:
                    joined = self._join(joined, self._compile(child, wanted=wanted), deciding, {})
                return joined
            case _:
                predicate = predicate_of(tree)
                if predicate not in self._variables:
                    self._variables[predicate] = self._next_variable
                    self._next_variable += 1
                return self._node(predicate, wanted, not wanted, False)

    def _node(self, predicate: Query, if_true: Diagram, if_false: Diagram, if_unknown: Diagram) -> Diagram:
        if if_true is if_false is if_unknown:
            return if_true
        variable = self._variables[predicate]
        return self._nodes.setdefault(
            (variable, if_true, if_false, if_unknown), BddNode(variable, predicate, if_true, if_false, if_unknown)
        )

    def _join(self, a: Diagram, b: Diagram, deciding: bool, done: dict[tuple[Diagram, Diagram], Diagram]) -> Diagram:
        """Return the OR of two diagrams if `deciding` is True, else their AND."""
        if isinstance(a, bool):
            return deciding if a is deciding else b
        if isinstance(b, bool):
            return deciding if b is deciding else a
        if (a, b) not in done:
            self._steps_left -= 1
            if self._steps_left < 0:
                raise _TooManySteps
            first = a if a.variable <= b.variable else b
            edges = zip(_edges(a, first.variable), _edges(b, first.variable), strict=True)
            done[a, b] = self._node(first.predicate, *[self._join(x, y, deciding, done) for x, y in edges])
        return done[a, b]

    def _sweep(self) -> None:
        """Drop the nodes and variables that no query needs."""
        live: set[BddNode] = set()
        pending = list(self._roots.values())
        while pending:
            node = pending.pop()
            if isinstance(node, BddNode) and node not in live:
                live.add(node)
                pending += [node.if_true, node.if_false, node.if_unknown]
        asked = {node.variable for node in live}
        self._nodes = {key: node for key, node in self._nodes.items() if node in live}
        self._variables = {predicate: variable for predicate, variable in self._variables.items() if variable in asked}
        self._live_count, self._removed_count = len(live), 0

    def _find(self, message: Message) -> Iterator[int]:
        answers: dict[int, bool | None] = {}
        known: dict[BddNode, bool] = {}
        for number, root in self._roots.items():
            if _walk(root, message, answers, known):
                yield number
        yield from (number for number in self._aside if message.truth(self._queries[number]))


def _edges(node: BddNode, variable: int) -> tuple[Diagram, Diagram, Diagram]:
    """Return the edges of `node` for each answer to `variable`; the node itself if it asks a later variable."""
    return (node.if_true, node.if_false, node.if_unknown) if node.variable == variable else (node, node, node)


def _walk(node: Diagram, message: Message, answers: dict[int, bool | None], known: dict[BddNode, bool]) -> bool:
    """Follow the answers from `node` to an end. `known` has the end of each node that was passed."""
    passed: list[BddNode] = []
    while isinstance(node, BddNode):
        if node in known:
            node = known[node]
            break
        passed.append(node)
        if node.variable not in answers:
            answers[node.variable] = message.truth(node.predicate)
        answer = answers[node.variable]
        node = node.if_unknown if answer is None else node.if_true if answer else node.if_false
    known.update(dict.fromkeys(passed, node))
    return node
