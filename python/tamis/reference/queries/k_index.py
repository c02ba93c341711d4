"""The k-index, which counts for each conjunction how many of its literals a message makes true.

The inverted index maps a literal to the conjunctions that have it. A message collects its true literals and adds up
their lists; a conjunction whose count equals its size is true. Conjunctions are kept by their size k, so that a
message with fewer true literals skips those of size k. Equalities are found by the hash of the message's values.

Cost: the lists of all true literals, and the evaluation of every distinct literal that is not an equality.
Cannot: stop early. The smart condition of "deleted = false && smart condition" is evaluated in vain for a deleted
instrument (the ITMO paper, "Analysis of the load"). Nor take anything but conjunctions: a query becomes its
disjunctive normal form; one with more than ``conjunctions_max`` is kept aside and evaluated by definition.

Source: the ITMO paper (in Russian; quotations are translated), section "BE-tree, k-index, BDD", whose key is the whole
predicate; Whang et al., "Indexing Boolean expressions", VLDB 2009, whose key is an attribute and a value, and which
has the sizes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tamis.reference.queries.conjunction_matcher import ConjunctionMatcher
from tamis.reference.queries.normal_form import Conjunction, Literal
from tamis.reference.queries.query_matcher import Message
from tamis.reference.values import Point

if TYPE_CHECKING:
    pass


class KIndex(ConjunctionMatcher):
    """Counts the true literals of conjunctions.

    The paper's first filter and message, and its complaint:

    >>> from tamis import boolean
    >>> index = KIndex()
    >>> index.add("ibm", boolean("stock == IBM && MIC == XEUR"))
    >>> index.match({"stock": "IBM", "MIC": "XEUR", "bid": 239}), index.evaluated
    (['ibm'], [])
    >>> index.add("smart", boolean("deleted = false && smart != no"))
    >>> index.match({"deleted": True, "smart": "yes"}), [str(predicate) for predicate in index.evaluated]
    ([], ["smart <> 'no'"])
    """

    def __init__(self, conjunctions_max: int = 64) -> None:
        super().__init__(conjunctions_max)
        self._lists: defaultdict[int, dict[Literal, set[Conjunction]]] = defaultdict(dict)  # by size, then literal
        self._uses: Counter[Literal] = Counter()
        self._equalities: defaultdict[str, defaultdict[Point, set[Literal]]] = defaultdict(lambda: defaultdict(set))

    def _insert_conjunction(self, conjunction: Conjunction) -> None:
        for literal in conjunction.literals:
            self._lists[len(conjunction.literals)].setdefault(literal, set()).add(conjunction)
            self._uses[literal] += 1
            for value in literal.points:
                self._equalities[literal.name][value].add(literal)

    def _delete_conjunction(self, conjunction: Conjunction) -> None:
        size = len(conjunction.literals)
        for literal in conjunction.literals:
            self._lists[size][literal].remove(conjunction)
            if not self._lists[size][literal]:
                del self._lists[size][literal]
            self._uses[literal] -= 1
            if not self._uses[literal]:
                self._forget(literal)
        if not self._lists[size]:
            del self._lists[size]

    def _forget(self, literal: Literal) -> None:
        del self._uses[literal]
        for value in literal.points:
            by_value = self._equalities[literal.name]
            by_value[value].remove(literal)
            if not by_value[value]:
                del by_value[value]
            if not by_value:
                del self._equalities[literal.name]

    def _true_conjunctions(self, message: Message) -> Iterator[Conjunction]:
        true = self._true_literals(message)
        counts = Counter(
            conjunction
            for size, lists in self._lists.items()
            if size <= len(true)
            for literal in true
            for conjunction in lists.get(literal, ())
        )
        return (conjunction for conjunction, count in counts.items() if count == len(conjunction.literals))

    def _true_literals(self, message: Message) -> set[Literal]:
        true = {
            literal
            for name, by_value in self._equalities.items()
            for value in message.points(name)
            for literal in by_value.get(value, ())
        }
        tested = [literal for literal in self._uses if not literal.points]
        results = {predicate: message.truth(predicate) for predicate in dict.fromkeys(one.predicate for one in tested)}
        return true.union(literal for literal in tested if results[literal.predicate] is literal.wanted)
