"""Inverted bitmaps for fields: one bitmap for each criterion, with a bit for every subscription that asks for it.

A criterion is a field's value (``currency=USD``) or its presence (``urgent``). A message looks up the criteria that
it meets and adds up their bitmaps: the sum of a subscription is its hits. One hit or more is an OR match; as many hits
as criteria are an AND match.

Cost: per message, one look-up for each name that subscriptions ask for, and the hits; the criteria to add or remove.
Cannot: express anything but "equal to" and "is present", or mix AND with OR, or negate: the other algorithms can.
The paper splits the message into its criteria; here the known names are looked up in the message instead, because a
dotted name reaches into mappings and lists.

Source: the OpenAMQ paper, "Field matching"."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping
from typing import Literal, TypeAlias

from tamis.message import ANY, Properties
from tamis.query import FieldValue, fields
from tamis.reference.numbering import Numbering, bits
from tamis.reference.values import Point, point, reached

Criterion: TypeAlias = tuple[str, Point | None]
"""A name, and the value that it must have; None for presence."""


class InvertedFields:
    """OpenAMQ's table of criteria.

    The paper's example:

    >>> from tamis import ANY, PRESENT
    >>> table = InvertedFields()
    >>> table.add(0, {"currency": "USD", "urgent": ANY})
    >>> table.add(1, {"currency": "EUR"})
    >>> table.add(2, {"market": "forex", "currency": "EUR"})
    >>> table.add(3, {"urgent": ANY})
    >>> table.hits({"currency": "JPY", "market": "forex", "slow": PRESENT})
    [(2, 1, 2)]
    >>> table.hits({"currency": "JPY", "urgent": PRESENT})
    [(0, 1, 2), (3, 1, 1)]
    >>> table.hits({"market": "forex", "currency": "EUR"})
    [(1, 1, 1), (2, 2, 2)]
    >>> table.match({"market": "forex", "currency": "EUR"})
    [1, 2]
    """

    def __init__(self) -> None:
        self._numbering = Numbering()
        self._criteria: dict[int, list[Criterion]] = {}
        self._least_hits: dict[int, int] = {}
        self._rows: defaultdict[str, dict[Point | None, int]] = defaultdict(dict)

    def add(self, key: Hashable, criteria: Mapping[str, FieldValue], *, require: Literal["all", "any"] = "all") -> None:
        """Add a subscription; a key that exists gets the new criteria and keeps its position.

        Raises:
            ValueError, TypeError: `tamis.fields` refuses the criteria.
        """
        fields(criteria, require=require)
        number = self._numbering.give(key)
        if number in self._criteria:
            self._clear(number)
        wanted = [(name, None if value is ANY else point(value)) for name, value in criteria.items()]
        self._criteria[number] = wanted
        self._least_hits[number] = len(wanted) if require == "all" else 1
        for name, value in wanted:
            rows = self._rows[name]
            rows[value] = rows.get(value, 0) | 1 << number

    def remove(self, key: Hashable) -> None:
        """Remove a subscription; KeyError if there is none."""
        self._clear(self._numbering.take(key))

    def row(self, name: str, value: FieldValue = ANY) -> list[int]:
        """Return the line of the table for a criterion: a bit for every subscription, in the order of adding."""
        asking = self._rows.get(name, {}).get(None if value is ANY else point(value), 0)
        return [asking >> number & 1 for number in sorted(self._criteria)]

    def hits(self, properties: Properties | None = None) -> list[tuple[Hashable, int, int]]:
        """(key, hits, criteria) of all subscriptions with a hit, in the order in which they were added."""
        counts = self._count(properties)
        keys = self._numbering.keys(counts)
        return [(key, counts[n], len(self._criteria[n])) for key, n in zip(keys, sorted(counts), strict=True)]

    def match(self, properties: Properties | None = None) -> list[Hashable]:
        """Return the keys of all subscriptions that have the hits they require, in the order of adding."""
        counts = self._count(properties)
        return self._numbering.keys(number for number, hits in counts.items() if hits >= self._least_hits[number])

    def _count(self, properties: Properties | None) -> Counter[int]:
        return Counter(number for bitmap in self._bitmaps(properties) for number in bits(bitmap))

    def _bitmaps(self, properties: Properties | None) -> Iterator[int]:
        """For each field of the message, the subscriptions with a criterion that it meets."""
        for name, rows in self._rows.items():
            values = reached(properties, name)
            if values is None:
                continue
            met = rows.get(None, 0)  # it is there
            for key in {point(value) for value in values} - {None}:
                met |= rows.get(key, 0)
            yield met

    def _clear(self, number: int) -> None:
        """Remove a subscription from the table, and rows without bits."""
        del self._least_hits[number]
        for name, value in self._criteria.pop(number):
            rows = self._rows[name]
            rows[value] &= ~(1 << number)
            if not rows[value]:
                del rows[value]
            if not rows:
                del self._rows[name]
