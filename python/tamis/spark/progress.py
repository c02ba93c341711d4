"""What a pipeline tells while it runs and at its end. Plain values; no Spark here."""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

BATCHES_TIMED_MAX = 1_000
"""Match times are those of the last batches, this many: a service runs for months."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. Counts begin at 0 with each run.

    Attributes:
        read: messages read, dead letters among them.
        matched: messages with at least one match.
        notifications: notifications that are new in the outbox.
        dead: messages that could not be read.
        delivered: notifications delivered.
        seconds: since the run began.
        rate: messages read a second, over the last seconds.
        lag_s: how long the newest finished batch took, from reading it to its place in the outbox.
        states: adapter -> how it is: ``running``, ``finished``, ``paused``, ``stopped`` or ``failed``.
    """

    read: int
    matched: int
    notifications: int
    dead: int
    delivered: int
    seconds: float
    rate: float
    lag_s: float
    states: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run did. Counts are of this run alone; ``to_dict`` gives plain values for JSON.

    Attributes:
        read: messages read: `matched`, not matched, and `dead` together.
        matched: messages with at least one match.
        notifications: notifications that are new in the outbox.
        dead: messages that could not be read.
        delivered: notifications delivered.
        given_up: deliveries given up after several tries: dead.
        pending: deliveries that wait in the store at the end, of this run and of earlier ones.
        batches: batches committed.
        seconds: from the start of reading to the end, without the start of Spark.
        match_us_p50: the median time to match one message, in µs; None when none was matched.
        match_us_p99: the 99th percentile of the same.
        by_query: key of a query -> its notifications in this run, most first.
        failed: adapter -> why it failed.
        troubles: delivery -> why all of it could not be used at the end; its notifications wait.
        stopped_by: the signal that ended the run early, such as ``SIGINT``; None when it ended by itself.
    """

    read: int
    matched: int
    notifications: int
    dead: int
    delivered: int
    given_up: int
    pending: int
    batches: int
    seconds: float
    match_us_p50: float | None
    match_us_p99: float | None
    by_query: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    stopped_by: str | None = None

    @property
    def messages_per_s(self) -> float:
        """Messages read a second, over the whole run."""
        return self.read / self.seconds if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self) | {"messages_per_s": self.messages_per_s}


class MatchTimes:
    """Percentiles over many batches, from the percentiles of each: what a batch sends home is small, and bounded.

    A batch's n values are taken as n/k copies of each of its k percentiles, so the error is that of a percentile's
    neighbours. Not thread-safe.
    """

    def __init__(self) -> None:
        self._batches: deque[list[tuple[float, float]]] = deque(maxlen=BATCHES_TIMED_MAX)

    def add(self, percentiles: Sequence[float], count: int) -> None:
        """Add a batch: its percentiles, evenly spread from the lowest, of `count` values."""
        if percentiles:
            self._batches.append([(value, count / len(percentiles)) for value in percentiles])

    def percentile(self, share: float) -> float | None:
        """The value that `share` (0 to 1) of all values are not above; None when there is none."""
        points = sorted(itertools.chain.from_iterable(self._batches))
        if not points:
            return None
        reached = list(itertools.accumulate(weight for _, weight in points))
        return points[min(bisect.bisect_left(reached, share * reached[-1]), len(points) - 1)][0]


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch that was committed, for the tally.

    Attributes:
        read, matched, notifications, dead: as in `Progress`.
        seconds: from its start to its commit.
        by_query: key of a query -> its notifications.
        match_us: percentiles of the time to match a message, µs, ascending.
        timed: how many messages were timed.
    """

    read: int
    matched: int
    notifications: int
    dead: int
    seconds: float
    by_query: Mapping[str, int]
    match_us: Sequence[float]
    timed: int


class Tally:
    """The counts of a run. Batches of several adapters add to it from several threads."""

    _RATE_WINDOW_S = 5.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._read = self._matched = self._notifications = self._dead = 0
        self._delivered = self._given_up = self._batches = 0
        self._lag_s = 0.0
        self._by_query: Counter[str] = Counter()
        self._times = MatchTimes()
        self._recent: deque[tuple[float, int]] = deque(maxlen=1_000)

    def add_batch(self, report: BatchReport) -> None:
        """Count a committed batch."""
        with self._lock:
            self._read += report.read
            self._matched += report.matched
            self._notifications += report.notifications
            self._dead += report.dead
            self._batches += 1
            self._lag_s = report.seconds
            self._by_query.update(report.by_query)
            self._times.add(report.match_us, report.timed)
            self._recent.append((time.monotonic(), report.read))

    def add_deliveries(self, delivered: int, given_up: int) -> None:
        """Count tries of deliveries: those that went well, and those given up."""
        with self._lock:
            self._delivered += delivered
            self._given_up += given_up

    def progress(self, states: Mapping[str, str]) -> Progress:
        """How far the run is, with the adapters' `states`."""
        with self._lock:
            return Progress(
                self._read,
                self._matched,
                self._notifications,
                self._dead,
                self._delivered,
                time.monotonic() - self._started,
                self._rate(),
                self._lag_s,
                dict(states),
            )

    def summary(
        self, failed: Mapping[str, str], troubles: Mapping[str, str], pending: int, stopped_by: str | None
    ) -> RunSummary:
        """All of the run."""
        with self._lock:
            return RunSummary(
                self._read,
                self._matched,
                self._notifications,
                self._dead,
                self._delivered,
                self._given_up,
                pending,
                self._batches,
                time.monotonic() - self._started,
                self._times.percentile(0.50),
                self._times.percentile(0.99),
                dict(self._by_query.most_common()),
                dict(failed),
                dict(troubles),
                stopped_by,
            )

    def _rate(self) -> float:
        now = time.monotonic()
        window_s = min(self._RATE_WINDOW_S, now - self._started)
        read = sum(count for at, count in self._recent if at >= now - window_s)
        return read / window_s if window_s > 0 else 0.0
