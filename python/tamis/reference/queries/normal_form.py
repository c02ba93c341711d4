"""Disjunctive normal form, for the algorithms that take only conjunctions.

A query is true exactly if all literals of one of its conjunctions are. This holds in three-valued logic too: a literal
wants its predicate to be true, or to be false, and unknown is neither. The form may be exponentially larger than the
query, which the ITMO paper criticises, so it is made only up to a bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tamis.query import Query
from tamis.reference.queries.query_matcher import predicate_of
from tamis.reference.values import Point, interval, point

if TYPE_CHECKING:
    from tamis._core import _Tree as Tree


@dataclass(frozen=True)
class Literal:
    """A predicate and the result that it must have. The other attributes follow from these two.

    Attributes:
        predicate: one predicate.
        wanted: True, or False for one below a NOT.
        name: the property that it looks at, of an equality or a range.
        points: the values, one of which the property must have, of an equality; else empty.
        bounds: the interval of such a value, including both ends.
    """

    predicate: Query
    wanted: bool
    name: str = field(default="", compare=False)
    points: frozenset[Point] = field(default=frozenset(), compare=False)
    bounds: tuple[Point, Point] | None = field(default=None, compare=False)


@dataclass(frozen=True, eq=False)
class Conjunction:
    """One conjunction of the query with this number."""

    number: int
    literals: tuple[Literal, ...]

    @cached_property
    def bounds(self) -> dict[str, tuple[Point, Point]]:
        """The value that each property must have. Of two tests of one property the first counts: in a list, another
        element may be what makes the second true."""
        by_name: dict[str, tuple[Point, Point]] = {}
        for literal in self.literals:
            if literal.bounds is not None:
                by_name.setdefault(literal.name, literal.bounds)
        return by_name


def conjunctions(tree: Tree, at_most: int, *, wanted: bool = True) -> list[tuple[Literal, ...]] | None:
    """Return conjunctions; one is true exactly if `tree` is `wanted`. None if there are more than `at_most`.

    >>> from tamis import selector
    >>> for conjunction in conjunctions(selector("NOT (a = 1 AND b = 2) AND c = 3").tree(), 10):
    ...     print(*(f"{literal.predicate} is {literal.wanted}" for literal in conjunction), sep=", ")
    a = 1 is False, c = 3 is True
    b = 2 is False, c = 3 is True
    """
    match tree:
        case ("not", child):
            return conjunctions(child, at_most, wanted=not wanted)
        case (("and" | "or") as word, children):
            parts = []
            for child in children:
                part = conjunctions(child, at_most, wanted=wanted)
                if part is None:
                    return None
                parts.append(part)
            return _all_of(parts, at_most) if (word == "and") is wanted else _any_of(parts, at_most)
        case _:
            return [(_literal(tree, wanted),)]


def _any_of(parts: list[list[tuple[Literal, ...]]], at_most: int) -> list[tuple[Literal, ...]] | None:
    together = [conjunction for part in parts for conjunction in part]
    return together if len(together) <= at_most else None


def _all_of(parts: list[list[tuple[Literal, ...]]], at_most: int) -> list[tuple[Literal, ...]] | None:
    """Return one conjunction of each part, in all combinations; each has a literal only once."""
    product: list[tuple[Literal, ...]] = [()]
    for part in parts:
        if len(product) * len(part) > at_most:
            return None
        product = [tuple(dict.fromkeys(left + right)) for left in product for right in part]
    return product


def _literal(leaf: Tree, wanted: bool) -> Literal:
    predicate = predicate_of(leaf)
    if wanted:
        match leaf:
            case ("=", name, values, _):
                points = frozenset(known for value in values if (known := point(value)) is not None)
                return Literal(predicate, True, name, points, (min(points), max(points)))
            case ("range", name, low, high, _):
                return Literal(predicate, True, name, bounds=interval(low, high))
    return Literal(predicate, wanted)
