"""The common part of algorithms over conjunctions: queries in normal form, and those that are too large for it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tamis.reference.queries.normal_form import Conjunction, conjunctions
from tamis.reference.queries.query_matcher import Message, QueryMatcher

if TYPE_CHECKING:
    from tamis._core import _Tree as Tree


class ConjunctionMatcher(QueryMatcher):
    """Queries as conjunctions. Each algorithm defines where a conjunction is put and how a message finds it.

    Args:
        conjunctions_max: a query with more conjunctions is kept aside and evaluated by definition.
    """

    def __init__(self, conjunctions_max: int = 64) -> None:
        super().__init__()
        self._conjunctions_max = conjunctions_max
        self._conjunctions: dict[int, list[Conjunction]] = {}
        self._aside: set[int] = set()

    def _insert(self, number: int, tree: Tree) -> None:
        expanded = conjunctions(tree, self._conjunctions_max)
        if expanded is None:
            self._aside.add(number)
            return
        self._conjunctions[number] = [Conjunction(number, literals) for literals in expanded]
        for conjunction in self._conjunctions[number]:
            self._insert_conjunction(conjunction)

    def _delete(self, number: int) -> None:
        if number in self._aside:
            self._aside.remove(number)
            return
        for conjunction in self._conjunctions.pop(number):
            self._delete_conjunction(conjunction)

    def _find(self, message: Message) -> Iterator[int]:
        yield from {conjunction.number for conjunction in self._true_conjunctions(message)}
        yield from (number for number in self._aside if message.truth(self._queries[number]))

    @abstractmethod
    def _insert_conjunction(self, conjunction: Conjunction) -> None:
        """Put a conjunction where messages will find it."""

    @abstractmethod
    def _delete_conjunction(self, conjunction: Conjunction) -> None:
        """Undo `_insert_conjunction`."""

    @abstractmethod
    def _true_conjunctions(self, message: Message) -> Iterable[Conjunction]:
        """Return the conjunctions that are true of `message`."""
