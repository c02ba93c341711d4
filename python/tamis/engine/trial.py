"""Tries a query on messages: which it matches, which it nearly matches, and which predicates keep those from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from tamis._core import Query
from tamis.engine.build import build_engine
from tamis.engine.explanation import Explanation
from tamis.message import Body, Properties
from tamis.query.hierarchy import Parents

_KEY = "it"


class Failed(NamedTuple):
    """A predicate that kept a message from matching.

    Attributes:
        text: the predicate, with NOT before it where the query wants it to be false.
        value: what it looked at; None if the message does not have it.
    """

    text: str
    value: Any


class Tried(NamedTuple):
    """A message that was tried: where it is, and the predicates that kept it from matching, none if it matched."""

    place: Any
    properties: Properties
    failed: tuple[Failed, ...]
    explanation: Explanation


def failed_predicates(query: Query, explanation: Explanation) -> tuple[Failed, ...]:
    """Return the fewest predicates that would have to come out differently for the query to match; none if it matches.

    A predicate that is false or unknown counts where the query wants it to be true. AND adds its parts, and OR takes
    the part with the fewest, the first of several. Their number is what `Engine.near_misses` calls `off_by`.
    """
    return tuple(_failed(query.tree(), iter(explanation.predicates), wanted=True))


def _failed(tree: Any, predicates: Iterator[tuple[str, Any, bool | None]], *, wanted: bool) -> list[Failed]:
    kind, *parts = tree
    if kind == "not":
        return _failed(parts[0], predicates, wanted=not wanted)
    if kind in ("and", "or"):
        found = [_failed(part, predicates, wanted=wanted) for part in parts[0]]
        return list(chain(*found)) if (kind == "and") == wanted else min(found, key=len)
    text, value, result = next(predicates)
    return [] if result is wanted else [Failed(text if wanted else f"NOT {text}", value)]


@dataclass
class Trial:
    """The matches and near misses of a query among the messages that are added.

    Attributes:
        query: the query.
        hierarchies: attribute -> value -> its parent, for UNDER.
        near: maximum number of predicates by which a message may miss.
        samples: maximum number of messages that are kept of each kind, the last ones.
        read: number of messages.
        matched: number of those that the query matched.
        missed: number of predicates -> number of messages that missed by so many.
        failed: predicate -> number of near misses that it was to blame for.
        matches: samples of the messages that it matched.
        misses: samples of near misses: of those by the fewest predicates.
    """

    query: Query
    hierarchies: Mapping[str, Parents] = field(default_factory=dict)
    near: int = 1
    samples: int = 5
    read: int = 0
    matched: int = 0
    missed: Counter[int] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    matches: list[Tried] = field(default_factory=list)
    misses: list[Tried] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the engine that explains."""
        self._engine = build_engine([(_KEY, self.query)], self.hierarchies)

    def add(self, place: Any, properties: Properties, topic: str, body: Body) -> None:
        """Try a message.

        Args:
            place: where it is, for the samples.
            properties: its properties.
            topic: its topic.
            body: its body.

        Raises:
            TypeError, ValueError: it is not a message; nothing was counted.
        """
        explanation = self._engine.explain(_KEY, properties, topic, body)
        failed = failed_predicates(self.query, explanation)
        self.read += 1
        tried = Tried(place, properties, failed, explanation)
        if explanation.result is True:
            self.matched += 1
            self.matches = _last([*self.matches, tried], self.samples)
        elif len(failed) <= self.near:
            self.missed[len(failed)] += 1
            self.failed.update({one.text for one in failed})
            nearest = sorted([*self.misses, tried], key=lambda it: -len(it.failed))
            self.misses = _last(nearest, self.samples)


def _last(tried: list[Tried], count: int) -> list[Tried]:
    return tried[-count:] if count else []
