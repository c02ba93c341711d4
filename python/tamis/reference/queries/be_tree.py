"""The BE-tree: a tree that grows where there are many conjunctions, by attributes and then by their values.

It begins as one **leaf node**. When a leaf overflows, the attribute that most of its conjunctions test gets a
**p-node**, which takes them (space partitioning). A p-node is a tree of intervals of the attribute's values. Each
interval has a **c-node**: a leaf, and p-nodes for further attributes. An interval that overflows is cut in two; what
lies across the cut stays (space clustering). A message walks the p-nodes of the attributes that it has, and in them
the intervals with its values.

Cost: the conjunctions on that walk, each evaluated until one of its literals is not as wanted; one path to add or
remove.
Cannot: index anything but equalities and ranges: other conjunctions stay in leaves that every message walks
("BE-tree relies on predicates that can be indexed"). Nor take anything but conjunctions: "bringing a filter to DNF
increases the number of filters that must be checked"; a query with more than ``conjunctions_max`` is kept aside and
evaluated by definition.

Source: the ITMO paper (in Russian; quotations are translated), section "BE-tree, k-index, BDD"; Sadoghi and Jacobsen,
"BE-Tree", SIGMOD 2011. That one halves known ranges of discrete values and scores attributes; here the cut is the
median of the existing values, and the score is the count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tamis.reference.queries.conjunction_matcher import ConjunctionMatcher
from tamis.reference.queries.normal_form import Conjunction
from tamis.reference.queries.query_matcher import Message
from tamis.reference.values import Point

if TYPE_CHECKING:
    pass

LEAF_MAX = 4
"""The maximum number of conjunctions of a leaf before it is divided: few, so that small examples show a tree."""


@dataclass(eq=False)
class CNode:
    """A leaf and, by attribute, p-nodes. `path` has the attributes above; `interval` is the one that it belongs to."""

    path: frozenset[str] = frozenset()
    interval: Interval | None = None
    leaf: list[Conjunction] = field(default_factory=list)
    p_nodes: dict[str, Interval] = field(default_factory=dict)

    def insert(self, conjunction: Conjunction) -> None:
        """Put a conjunction below the first p-node of an attribute that it tests, else into the leaf."""
        name = next((name for name in conjunction.bounds if name in self.p_nodes), None)
        if name is not None:
            self.p_nodes[name].insert(conjunction)
            return
        self.leaf.append(conjunction)
        if len(self.leaf) > LEAF_MAX:
            if self.interval is not None:
                self.interval.cluster()
            while len(self.leaf) > LEAF_MAX and self._partition():
                pass

    def remove(self, conjunction: Conjunction) -> bool:
        """Undo `insert`, and drop p-nodes that became empty; return False if the conjunction is not here."""
        if conjunction in self.leaf:
            self.leaf.remove(conjunction)
            return True
        for name in conjunction.bounds:
            p_node = self.p_nodes.get(name)
            if p_node is not None and p_node.remove(conjunction):
                if p_node.is_empty():
                    del self.p_nodes[name]
                return True
        return False

    def candidates(self, message: Message) -> Iterator[Conjunction]:
        """Yield every conjunction that the message's attributes and values do not rule out."""
        yield from self.leaf
        for name, p_node in self.p_nodes.items():
            yield from p_node.candidates(message.points(name), message)

    def _partition(self) -> bool:
        """Give the most common attribute of the leaf a p-node; return False if no two conjunctions share a new one."""
        counts = Counter(name for one in self.leaf for name in one.bounds if name not in self.path)
        name, count = next(iter(counts.most_common(1)), ("", 0))
        if count < 2:
            return False
        moved = [one for one in self.leaf if name in one.bounds]
        self.leaf = [one for one in self.leaf if name not in one.bounds]
        self.p_nodes[name] = Interval(name, self.path | {name})
        for one in moved:
            self.p_nodes[name].insert(one)
        return True


class Interval:
    """A p-node, or a part of one: conjunctions whose values of one attribute lie within an interval."""

    def __init__(self, name: str, path: frozenset[str]) -> None:
        self._name = name
        self._path = path
        self._node = CNode(path, self)
        self._extent: tuple[Point, Point] | None = None  # of all that ever came
        self._cut: Point | None = None
        self._halves: tuple[Interval, Interval] | None = None

    def insert(self, conjunction: Conjunction) -> None:
        """Put a conjunction into the smallest interval that has all of its values."""
        low, high = conjunction.bounds[self._name]
        self._extent = (min(low, self._extent[0]), max(high, self._extent[1])) if self._extent else (low, high)
        half = self._half_of(conjunction)
        (self._node if half is None else half).insert(conjunction)

    def remove(self, conjunction: Conjunction) -> bool:
        """Undo `insert`; a conjunction that came before the cut may be in the whole interval."""
        half = self._half_of(conjunction)
        removed = (half is not None and half.remove(conjunction)) or self._node.remove(conjunction)
        if removed and self._halves is not None and all(half.is_empty() for half in self._halves):
            self._cut = self._halves = None
        return removed

    def is_empty(self) -> bool:
        """Return whether there is nothing here or below."""
        return not (self._node.leaf or self._node.p_nodes or self._halves)

    def candidates(self, points: Iterable[Point], message: Message) -> Iterator[Conjunction]:
        """Yield every conjunction of the intervals with one of `points`."""
        points = [point for point in points if self._extent and self._extent[0] <= point <= self._extent[1]]
        if not points:
            return
        yield from self._node.candidates(message)
        if self._cut is not None and self._halves is not None:
            lower, upper = self._halves
            yield from lower.candidates([point for point in points if point < self._cut], message)
            yield from upper.candidates([point for point in points if point >= self._cut], message)

    def cluster(self) -> None:
        """Cut the interval in two, if that separates any conjunctions."""
        if self._halves is not None:
            return
        lows = sorted(one.bounds[self._name][0] for one in self._node.leaf)
        self._cut = next((low for low in lows[len(lows) // 2 :] if low > lows[0]), None)
        if self._cut is None:
            return  # all begin at the same value
        self._halves = Interval(self._name, self._path), Interval(self._name, self._path)
        moved = [(one, half) for one in self._node.leaf if (half := self._half_of(one)) is not None]
        self._node.leaf = [one for one in self._node.leaf if self._half_of(one) is None]
        for one, half in moved:
            half.insert(one)

    def _half_of(self, conjunction: Conjunction) -> Interval | None:
        if self._cut is None or self._halves is None:
            return None
        low, high = conjunction.bounds[self._name]
        return self._halves[0] if high < self._cut else self._halves[1] if low >= self._cut else None


class BeTree(ConjunctionMatcher):
    """A BE-tree of conjunctions.

    >>> from tamis import boolean
    >>> tree = BeTree()
    >>> for price in range(10):
    ...     tree.add(price, boolean(f"stock == IBM && bid >= {price * 100} && bid < {price * 100 + 100}"))
    >>> tree.match({"stock": "IBM", "MIC": "XEUR", "bid": 239}), len(tree.evaluated) < 3 * 10
    ([2], True)
    >>> tree.match({"stock": "SAP", "bid": 239}), tree.evaluated
    ([], [])
    """

    def __init__(self, conjunctions_max: int = 64) -> None:
        super().__init__(conjunctions_max)
        self._root = CNode()

    def _insert_conjunction(self, conjunction: Conjunction) -> None:
        self._root.insert(conjunction)

    def _delete_conjunction(self, conjunction: Conjunction) -> None:
        self._root.remove(conjunction)

    def _true_conjunctions(self, message: Message) -> Iterator[Conjunction]:
        return (conjunction for conjunction in self._root.candidates(message) if _is_true(conjunction, message))


def _is_true(conjunction: Conjunction, message: Message) -> bool:
    return all(message.truth(literal.predicate) is literal.wanted for literal in conjunction.literals)
