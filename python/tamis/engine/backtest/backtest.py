"""Counts how often a query would have matched past messages, and what it would change if it replaced another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tamis._core import Query
from tamis.engine.backtest.samples import Samples
from tamis.engine.backtest.timeline import Timeline
from tamis.engine.build import build_engine
from tamis.engine.comparison import Comparison
from tamis.engine.engine import Engine
from tamis.message import Properties
from tamis.query.hierarchy import Parents

TIMED_MAX, TIMED_BYTES_MAX = 1_000, 16 * 1024 * 1024
"""Maximum number and size of the messages that are kept to measure the cost of a match."""
TIMED_ROUNDS = 5
_DAY_S = 24 * 3_600


class PastMessage(NamedTuple):
    """A message that was received earlier.

    Attributes:
        properties: name -> value, as for `Engine.match`.
        topic: its topic.
        body: its body.
        at: its time in seconds since 1970, if it is known.
        place: its place, which samples show.
        size_bytes: its approximate size in memory.
    """

    properties: Properties
    topic: str = ""
    body: str | None = None
    at: float | None = None
    place: Mapping[str, Any] = {}
    size_bytes: int = 1_024


@dataclass
class Replaced:
    """The query that the new one would replace, and what would be different.

    Attributes:
        key: the key of the query.
        text: the text of the query.
        gained: samples of the messages that only the new one matches.
        lost: samples of those that only the old one matches.
        counts: the numbers of both, and of those that both match.
    """

    key: Any
    text: str
    gained: Samples
    lost: Samples
    counts: Comparison = field(default_factory=Comparison)

    def add(self, before: bool, after: bool, sample: dict[str, Any]) -> None:
        """Count a message."""
        difference = self.counts.add(before, after)
        if difference is not None:
            (self.gained if difference == "gained" else self.lost).add(sample)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        counts = {"gained": self.counts.gained, "lost": self.counts.lost, "kept": self.counts.kept}
        samples = {"gained_samples": self.gained.all(), "lost_samples": self.lost.all()}
        return {"key": self.key, "query": self.text, **counts, **samples}


@dataclass
class Backtest:
    """The matches of a query among the messages that are added, in bounded memory.

    Attributes:
        engine: the engine with the query, and perhaps with the one that it would replace.
        key: the key of the query.
        replaces: the key of the other one.
        sample_count: maximum number of samples of matches, and of what is gained and lost.
        read: number of messages.
        matched: number of those that matched.
        times: the counts over time, of the messages that have one.
        positions: the counts over the numbers of messages.
        samples: messages that matched.
        replaced: what would change; None without `replaces`.
    """

    engine: Engine
    key: Any
    replaces: Any = None
    sample_count: int = 5
    read: int = 0
    matched: int = 0
    times: Timeline = field(default_factory=Timeline.of_times)
    positions: Timeline = field(default_factory=Timeline.of_positions)

    def __post_init__(self) -> None:
        """Make what keeps samples."""
        self.samples, self.replaced = Samples(self.sample_count), self._replaced()
        self._timed: list[tuple[Properties, str, str | None]] = []
        self._timed_bytes = 0

    def _replaced(self) -> Replaced | None:
        if self.replaces is None:
            return None
        text = str(self.engine.query(self.replaces))
        return Replaced(self.replaces, text, Samples(self.sample_count), Samples(self.sample_count))

    def add(self, message: PastMessage) -> None:
        """Count a message.

        Raises:
            TypeError, ValueError: it is not a message; nothing was counted.
        """
        found = self.engine.match(message.properties, message.topic, message.body)
        is_match = self.key in found
        self.positions.add(self.read, is_match)
        self.read += 1
        self.matched += is_match
        if message.at is not None:
            self.times.add(message.at, is_match)
        self._keep_for_timing(message)
        sample = {**message.place, "message": message.properties}
        if is_match:
            self.samples.add(sample)
        if self.replaced is not None:
            self.replaced.add(self.replaces in found, is_match, sample)

    def timeline(self) -> Timeline:
        """Return the timeline over time if messages have one, else over positions."""
        return self.times if self.times.bins else self.positions

    def per_day(self) -> float | None:
        """Return the matches per day, if the messages cover some time."""
        first, last = self.times.first, self.times.last
        if first is None or last is None or last <= first:
            return None
        return self.matched / ((last - first) / _DAY_S)

    def cost_us(self) -> dict[str, float] | None:
        """Return median and 99th percentile of the CPU time of a match in the core; None without messages.

        Cost: matches up to 1,000 of the messages five times.
        """
        if not self._timed:
            return None
        times = sorted(cpu for _, cpu, _ in self.engine.time_matches(self._timed, rounds=TIMED_ROUNDS))
        at = (times[len(times) // 2], times[len(times) * 99 // 100])
        return dict(zip(("p50_us", "p99_us"), (round(time / 1_000, 3) for time in at), strict=True))

    def _keep_for_timing(self, message: PastMessage) -> None:
        if len(self._timed) < TIMED_MAX and self._timed_bytes + message.size_bytes <= TIMED_BYTES_MAX:
            self._timed.append((message.properties, message.topic, message.body))
            self._timed_bytes += message.size_bytes


def backtest(
    query: Query,
    messages: Iterable[PastMessage],
    *,
    replaces: Query | None = None,
    hierarchies: Mapping[str, Parents] | None = None,
    samples: int = 5,
) -> Backtest:
    """Count how often a query would have matched, and what it would gain and lose instead of another one.

    Args:
        query: the query.
        messages: the past messages, which are read once.
        replaces: the query that it would replace.
        hierarchies: attribute -> value -> its parent, for UNDER.
        samples: see `Backtest`.

    Raises:
        TypeError, ValueError: a message cannot be read.

    Cost: one match per message.
    """
    queries = [("new", query), *([("old", replaces)] if replaces is not None else [])]
    result = Backtest(build_engine(queries, hierarchies or {}), "new", "old" if replaces is not None else None, samples)
    for message in messages:
        result.add(message)
    return result
