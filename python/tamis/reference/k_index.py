"""The k-index: counting, for each conjunction, how many of its literals a message makes true.

The inverted index maps a literal to the conjunctions that have it. A message collects its true literals, adds up
their lists, and a conjunction whose count is its size is true. Conjunctions are kept by their size k, so that a
message with fewer true literals does not look at those of size k. Equalities are found by the hash of the message's
values.

Cost: the lists of all true literals, and every distinct literal that is no equality, evaluated for every message.
Cannot: stop early. "deleted = false && smart condition" has its smart condition evaluated for a deleted instrument
too, for nothing (the ITMO paper, "Analysis of the load"). Nor look at anything but conjunctions: a query becomes its
disjunctive normal form; one with more than ``conjunctions_max`` is kept aside and evaluated by definition.

Source: the ITMO paper (in Russian; quotations are translated), section "BE-tree, k-index, BDD", whose key is the whole
predicate; Whang et al., "Indexing Boolean expressions", VLDB 2009, whose key is an attribute and a value, and which
has the sizes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tamis.reference.conjunction_matcher import ConjunctionMatcher
from tamis.reference.normal_form import Conjunction, Literal
from tamis.reference.query_matcher import Message
from tamis.reference.values import Point

if TYPE_CHECKING:
    pass


class KIndex(ConjunctionMatcher):
    """Counting over conjunctions.

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
            for place in literal.points:
                self._equalities[literal.name][place].add(literal)

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
        for place in literal.points:
            places = self._equalities[literal.name]
            places[place].remove(literal)
            if not places[place]:
                del places[place]
            if not places:
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
            for name, places in self._equalities.items()
            for place in message.points(name)
            for literal in places.get(place, ())
        }
        tested = [literal for literal in self._uses if not literal.points]
        results = {predicate: message.truth(predicate) for predicate in dict.fromkeys(one.predicate for one in tested)}
        return true.union(literal for literal in tested if results[literal.predicate] is literal.wanted)
