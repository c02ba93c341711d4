"""Cacheable units: selectors are split into their elements, and each element is evaluated once per message.

Equal units are one unit, whichever selectors they belong to (the paper's consolidated selectors). While a message is
tested against all selectors, a cache maps each unit to its result.

Cost: all selectors per message, but each distinct unit at most once: if subscribers ask for the same things, the
number of selectors hardly matters. Adding costs the units of the selector.
Cannot: skip a selector. It walks all of them for every message, so it is not an index. With cheap units and nothing in
common it is slower than brute force, as the paper measures (631 messages per second against 662). The paper's cache
holds Boolean results; here unknown is a third.

Source: the PNNL paper, section 3.3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tamis.query import Query
from tamis.reference.queries.query_matcher import Message, QueryMatcher, predicates, truth

if TYPE_CHECKING:
    from tamis._core import _Tree as Tree


class CacheableUnits(QueryMatcher):
    """PNNL's selectors that share their units.

    The paper's selector and its two units, with another that shares one of them (figure 4):

    >>> from tamis import selector
    >>> matcher = CacheableUnits()
    >>> matcher.add("james", selector('Author = "James" and source = "CNN"', dialect="cbm"))
    >>> matcher.add("cnn", selector('source = "CNN" and Subject LIKE %war%', dialect="cbm"))
    >>> len(matcher.units)
    3
    >>> matcher.match({"author": "James", "source": "CNN", "subject": "peace"}), len(matcher.evaluated)
    (['james'], 3)
    """

    def __init__(self) -> None:
        super().__init__()
        self._selectors: dict[int, Tree] = {}
        self._users: dict[Query, int] = {}

    @property
    def units(self) -> list[Query]:
        """The distinct units of all selectors, the oldest first."""
        return list(self._users)

    def _insert(self, number: int, tree: Tree) -> None:
        self._selectors[number] = tree
        for unit in predicates(tree):
            self._users[unit] = self._users.get(unit, 0) + 1

    def _delete(self, number: int) -> None:
        for unit in predicates(self._selectors.pop(number)):
            self._users[unit] -= 1
            if not self._users[unit]:
                del self._users[unit]

    def _find(self, message: Message) -> Iterator[int]:
        cache: dict[Query, bool | None] = {}

        def cached(unit: Query) -> bool | None:
            if unit not in cache:
                cache[unit] = message.truth(unit)
            return cache[unit]

        return (number for number, selector in self._selectors.items() if truth(selector, cached))
