"""Counts what a pipeline does, for its progress and its summary, as plain values."""

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
"""Maximum number of batches whose match times are kept: a service runs for months."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run. Counts begin at 0 with each run.

    Attributes:
        read: messages read, including dead letters.
        matched: messages with at least one match.
        notifications: notifications that are new in the outbox.
        dead: messages that could not be read.
        delivered: notifications delivered.
        seconds: time since the run began.
        rate: messages read per second, over the last seconds.
        lag_s: time from reading the newest finished batch to its commit in the outbox.
        states: adapter -> its status: ``running``, ``finished``, ``paused``, ``stopped`` or ``failed``.
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
    """The results of a run. Counts are of this run alone; ``to_dict`` returns plain values for JSON.

    Attributes:
        read: messages read: `matched`, not matched, and `dead` together.
        matched: messages with at least one match.
        notifications: notifications that are new in the outbox.
        dead: messages that could not be read.
        delivered: notifications delivered.
        given_up: deliveries that are dead after several tries.
        pending: deliveries that wait in the store at the end, including those of earlier runs.
        batches: batches committed.
        seconds: the time from the start of reading to the end, without the start of Spark.
        match_us_p50: the median time to match one message, in µs; None if none was matched.
        match_us_p99: the 99th percentile of that time.
        by_query: key of a query -> number of its notifications in this run, the largest first.
        failed: adapter -> why it failed.
        troubles: delivery -> why its channel could not be used at the end; its notifications wait.
        stopped_by: the signal that ended the run early, such as ``SIGINT``; None if it ended by itself.
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
        """Messages read per second, over the whole run."""
        return self.read / self.seconds if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        return asdict(self) | {"messages_per_s": self.messages_per_s}


class MatchTimes:
    """Percentiles over many batches, computed from the percentiles of each, which keeps the data per batch small.

    The n values of a batch count as n/k copies of each of its k percentiles, so the error is at most the distance to a
    neighbouring percentile. Not thread-safe.
    """

    def __init__(self) -> None:
        self._batches: deque[list[tuple[float, float]]] = deque(maxlen=BATCHES_TIMED_MAX)

    def add(self, percentiles: Sequence[float], count: int) -> None:
        """Add a batch: the percentiles of `count` values, evenly spread from the lowest."""
        if percentiles:
            self._batches.append([(value, count / len(percentiles)) for value in percentiles])

    def percentile(self, share: float) -> float | None:
        """Return the smallest value that a `share` (0 to 1) of all values do not exceed; None without values."""
        points = sorted(itertools.chain.from_iterable(self._batches))
        if not points:
            return None
        reached = list(itertools.accumulate(weight for _, weight in points))
        return points[min(bisect.bisect_left(reached, share * reached[-1]), len(points) - 1)][0]


@dataclass(frozen=True, slots=True)
class BatchReport:
    """A committed batch, for the tally.

    Attributes:
        read, matched, notifications, dead: as in `Progress`.
        seconds: the time from its start to its commit.
        by_query: key of a query -> number of its notifications.
        match_us: percentiles of the time to match a message, in µs, ascending.
        timed: number of messages that were timed.
        unpublished: a sentence about messages that could not be published; None if all could.
    """

    read: int
    matched: int
    notifications: int
    dead: int
    seconds: float
    by_query: Mapping[str, int]
    match_us: Sequence[float]
    timed: int
    unpublished: str | None = None


class RunTally:
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
        """Count deliveries: those that succeeded and those given up."""
        with self._lock:
            self._delivered += delivered
            self._given_up += given_up

    def progress(self, states: Mapping[str, str]) -> Progress:
        """Return the progress of the run, with the adapters' `states`."""
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
        """Return the summary of the run."""
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
