"""Compares two texts of a query on messages: those that a change would gain, and those that it would lose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tamis._core import Query
from tamis.query.hierarchy import Parents

Difference = Literal["gained", "lost"]


@dataclass
class Comparison:
    """The number of messages that two queries match.

    Attributes:
        gained: those that only the new query matches.
        lost: those that only the old query matches.
        kept: those that both match.
        neither: those that neither matches.
    """

    gained: int = 0
    lost: int = 0
    kept: int = 0
    neither: int = 0

    def add(self, before: bool, after: bool) -> Difference | None:
        """Count a message that the old query matches or not, and the new one; return what is different."""
        if after and before:
            self.kept += 1
        elif after:
            self.gained += 1
            return "gained"
        elif before:
            self.lost += 1
            return "lost"
        else:
            self.neither += 1
        return None


def compare(
    before: Query,
    after: Query,
    records: Iterable[Mapping[str, Any]],
    hierarchies: Mapping[str, Parents] | None = None,
) -> Comparison:
    """Compare two queries over records, such as those of the last week, before one replaces the other.

    Args:
        before: the old query.
        after: the new one.
        records: mappings of name -> value, as for `Engine.match`.
        hierarchies: attribute -> value -> its parent, for UNDER.

    Raises:
        TypeError, ValueError: a record cannot be read.

    Cost: two evaluations per record.
    """
    comparison, trees = Comparison(), hierarchies or {}
    for record in records:
        old, new = (query.evaluate(record, hierarchies=trees) is True for query in (before, after))
        comparison.add(old, new)
    return comparison
