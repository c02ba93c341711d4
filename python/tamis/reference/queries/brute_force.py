"""The naive algorithm, which evaluates every subscription and is the oracle of the others.

Source: the OpenAMQ paper, which gives its cost as C x R."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from tamis.message import Body, Properties
from tamis.query import Query


class BruteForce:
    """Evaluates every subscription, one after another.

    >>> from tamis import selector
    >>> matcher = BruteForce()
    >>> matcher.add("big", selector("price > 100"))
    >>> matcher.match({"price": 120})
    ['big']
    """

    def __init__(self) -> None:
        self._queries: dict[Hashable, Query] = {}
        self._hierarchies: dict[str, Mapping[str, str | None]] = {}

    def add(self, key: Hashable, query: Query) -> None:
        """Add a subscription; a key that exists gets the new query and keeps its position."""
        self._queries[key] = query

    def remove(self, key: Hashable) -> None:
        """Remove a subscription; KeyError if there is none."""
        del self._queries[key]

    def hierarchy(self, attribute: str, parents: Mapping[str, str | None]) -> None:
        """Replace the tree of an attribute's values."""
        self._hierarchies[attribute] = parents

    def match(
        self, properties: Properties | None = None, topic: str | None = None, body: Body = None
    ) -> list[Hashable]:
        """Return the keys of all queries that are true, in the order of adding. Cost: evaluates every query."""
        return [
            key
            for key, query in self._queries.items()
            if query.evaluate(properties, topic, body, hierarchies=self._hierarchies)
        ]
