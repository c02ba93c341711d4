"""Reads from a store what the report shows, as plain values."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from tamis.query import compile_query, selector
from tamis.store import place_text

if TYPE_CHECKING:
    from tamis.query import Query
    from tamis.store import NotificationRecord, QueryMatches, Store

SAMPLE_MESSAGES = 60
"""Number of messages on which each query is measured alone."""

TRIES = 3
"""Number of measurements of each query on each message."""

EXAMPLES = 12
"""Number of notifications shown in full."""

COLUMNS = 120
"""Maximum number of steps of time on the page."""

STEPS_DAYS = (1, 7, 28, 91, 364, 3640)
"""Lengths of a step of the timeline; the shortest that fits is taken."""

EXCERPT_CHARACTERS = 420
DEAD_LETTERS = 20


@dataclass(frozen=True)
class RunFigures:
    """The speed of a run.

    Attributes:
        seconds: the time from the first batch to the last.
        messages_per_second: messages read per second.
        match_us_p50: median time to match one message against all queries, in microseconds.
        match_us_p99: the 99th percentile of that time.
    """

    seconds: float
    messages_per_second: float
    match_us_p50: float | None = None
    match_us_p99: float | None = None


@dataclass(frozen=True)
class QueryRow:
    """A query, its matches, and its cost alone, in microseconds per message."""

    key: str
    text: str
    language: str
    matches: int
    first_subject: str | None
    cost_us: float | None = None


@dataclass(frozen=True)
class Excerpt:
    """A piece of text; `marked` if it is what matched."""

    text: str
    marked: bool = False


@dataclass(frozen=True)
class Example:
    """A notification: its query, its message, and why it matched."""

    query_key: str
    query_text: str
    language: str
    topic: str
    author: str
    subject: str
    date: str
    excerpt: tuple[Excerpt, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class DeadLetterRow:
    """A message that could not be read: its position, the reason, and its first bytes."""

    position: str
    reason: str
    beginning: str


@dataclass(frozen=True)
class ReportTimeline:
    """Notifications by the date of their message, with one series per topic.

    Attributes:
        starts: the first day of every step of time, including empty ones.
        series: topic -> a count for each step.
        step_days: the length of a step.
        outside: number of notifications whose message has no date, or one far from the others.
    """

    starts: tuple[date, ...]
    series: dict[str, tuple[int, ...]]
    step_days: int
    outside: int


@dataclass(frozen=True)
class ReportData:
    """Everything on the page."""

    made_at: datetime
    read: int
    matched: int
    dead: int
    notifications: int
    queries: tuple[QueryRow, ...]
    timeline: ReportTimeline
    examples: tuple[Example, ...]
    dead_letters: tuple[DeadLetterRow, ...]
    figures: RunFigures | None = None
    deliveries: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def unmatched(self) -> int:
        """The number of messages that were read and satisfy no query."""
        return self.read - self.matched - self.dead


def collect(store: Store, figures: RunFigures | None = None) -> ReportData:
    """Read the store once and measure its queries."""
    counts, matches = store.counts(), store.query_matches()
    notifications = store.notifications(limit=None, newest_first=False)
    messages = [_Stored(record) for record in _one_a_message(notifications)]
    compiled = {query.key: compile_query(query.text, query.language) for query in matches}
    costs = measure(compiled, messages[:: max(1, len(messages) // SAMPLE_MESSAGES)])
    return ReportData(
        made_at=datetime.now(UTC),
        read=counts.read,
        matched=counts.matched,
        dead=counts.dead_letters,
        notifications=counts.notifications,
        queries=tuple(_query_row(query, costs) for query in matches),
        timeline=_timeline(notifications),
        examples=tuple(_examples(notifications, compiled)),
        dead_letters=tuple(_dead_letters(store)),
        figures=figures,
        deliveries=store.delivery_counts(),
    )


class _Stored:
    """A message of the store in the form that queries are evaluated on."""

    def __init__(self, record: NotificationRecord) -> None:
        self.properties = record.message_properties()
        self.topic = record.topic
        self.body = record.body


def _one_a_message(notifications: Iterable[NotificationRecord]) -> list[NotificationRecord]:
    """Return the first notification of each message."""
    first: dict[tuple[str, str, int, str], NotificationRecord] = {}
    for record in notifications:
        first.setdefault(record.message_key, record)
    return list(first.values())


def measure(queries: dict[str, Query], messages: Sequence[_Stored]) -> dict[str, float]:
    """Return the median time in microseconds that each query takes alone per message.

    The time for handing the message over, which is that of a query that looks at nothing, is subtracted.
    """
    if not messages:
        return {}
    nothing = selector("TRUE")
    return {
        key: max(0.0, statistics.median(_best_us(query, it) - _best_us(nothing, it) for it in messages))
        for key, query in queries.items()
    }


def _best_us(query: Query, message: _Stored) -> float:
    """Return the best of a few tries, since disturbances only add to a measurement."""
    best = float("inf")
    for _ in range(TRIES):
        began = perf_counter_ns()
        query.evaluate(message.properties, message.topic, message.body)
        best = min(best, perf_counter_ns() - began)
    return best / 1000


def _query_row(query: QueryMatches, costs: dict[str, float]) -> QueryRow:
    return QueryRow(query.key, query.text, query.language, query.matches, query.first_subject, costs.get(query.key))


def _timeline(notifications: Sequence[NotificationRecord]) -> ReportTimeline:
    """Return the period with most of the dates (a few in mail are a century off), in steps that fit on the page."""
    dated = [(_day(record), record.topic) for record in notifications]
    days = sorted(day for day, _ in dated if day is not None)
    if not days:
        return ReportTimeline((), {}, 1, len(dated))
    first, last = _window(days)
    step = next((step for step in STEPS_DAYS if (last - first).days < step * COLUMNS), STEPS_DAYS[-1])
    columns = min((last - first).days // step + 1, COLUMNS)
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * columns)
    outside = 0
    for day, topic in dated:
        column = (day - first).days // step if day is not None else -1
        if 0 <= column < columns:
            counts[topic][column] += 1
        else:
            outside += 1
    starts = tuple(first + timedelta(days=step * column) for column in range(columns))
    return ReportTimeline(starts, {topic: tuple(counts[topic]) for topic in sorted(counts)}, step, outside)


def _window(days: Sequence[date]) -> tuple[date, date]:
    """Return the first and last date within a quarter of the span of the middle 80 % from that span."""
    low, high = days[len(days) // 10], days[-1 - len(days) // 10]
    slack = (high - low) / 4 + timedelta(days=1)
    inside = [day for day in days if low - min(slack, low - date.min) <= day <= high + min(slack, date.max - high)]
    return inside[0], inside[-1]


def _day(record: NotificationRecord) -> date | None:
    when = record.message_properties().get("date")
    return when.date() if isinstance(when, datetime) else None


def _examples(notifications: Sequence[NotificationRecord], compiled: dict[str, Query]) -> Iterable[Example]:
    """Return one notification of each of `EXAMPLES` queries: those with marked text first, then by rarity."""
    of_query: dict[str, list[NotificationRecord]] = defaultdict(list)
    for record in notifications:
        if record.query_key in compiled:
            of_query[record.query_key].append(record)
    rarest_first = sorted(of_query.values(), key=len)
    examples: list[Example] = []
    shown: set[tuple[str, str, int, str]] = set()  # a message is shown once, whatever matched it
    for records in rarest_first:
        fresh = [record for record in records if record.message_key not in shown]
        if fresh:
            record, example = _example(fresh, compiled[records[0].query_key])
            shown.add(record.message_key)
            examples.append(example)
    examples.sort(key=lambda example: not any(piece.marked for piece in example.excerpt))  # stable
    return examples[:EXAMPLES]


def _example(records: list[NotificationRecord], query: Query) -> tuple[NotificationRecord, Example]:
    """Return the first notification with text to mark, else the first one."""
    for record in records[:20]:
        message = _Stored(record)
        if ranges := query.highlight(message.properties, message.topic, message.body):
            break
    else:
        record, ranges = records[0], []
        message = _Stored(record)
    when = message.properties.get("date")
    return record, Example(
        query_key=record.query_key,
        query_text=record.query_text,
        language=record.query_language,
        topic=record.topic,
        author=str(message.properties.get("author") or ""),
        subject=str(message.properties.get("subject") or ""),
        date=when.strftime("%d %B %Y, %H:%M") if isinstance(when, datetime) else str(when or ""),
        excerpt=tuple(_excerpt(record.body or "", ranges)),
        reasons=tuple(_reasons(query, message)),
    )


def _excerpt(body: str, ranges: Sequence[tuple[int, int]]) -> Iterable[Excerpt]:
    """Yield a window of the body around the first range, cut into marked and unmarked pieces."""
    first = ranges[0][0] if ranges else 0
    start = _word_start(body, max(0, first - EXCERPT_CHARACTERS // 3))
    end = min(len(body), start + EXCERPT_CHARACTERS)
    if start:
        yield Excerpt("… ")
    at = start
    for begin, stop in ranges:
        begin, stop = max(begin, at), min(stop, end)
        if begin < stop:
            yield Excerpt(_close(body[at:begin]))
            yield Excerpt(body[begin:stop], marked=True)
            at = stop
    yield Excerpt(_close(body[at:end]) + (" …" if end < len(body) else ""))


def _word_start(text: str, at: int) -> int:
    """Return the start of the word at `at`; `at` itself if the start is not near."""
    near = max(0, at - 20)
    space = max(text.rfind(" ", near, at), text.rfind("\n", near, at))
    return space + 1 if space >= 0 else at


def _close(text: str) -> str:
    """`text` with at most one blank line at a time, and without quotation marks of e-mail on empty lines."""
    return re.sub(r"\n(?:[ \t>|]*\n){2,}", "\n\n", text)


def _reasons(query: Query, message: _Stored) -> Iterable[str]:
    """Yield the predicates that are true, each with the value that it looked at."""
    from tamis import Engine

    engine = Engine()
    engine.add("it", query)
    explanation = engine.explain("it", message.properties, message.topic, message.body)
    for text, value, result in explanation.predicates:
        if result is True:
            shown = "" if value is None or value == message.body else f"  ({_short(value)})"
            yield text + shown


def _short(value: Any) -> str:
    text = value.isoformat() if isinstance(value, datetime) else value if isinstance(value, str) else repr(value)
    return text if len(text) <= 90 else text[:89] + "…"


def _dead_letters(store: Store) -> Iterable[DeadLetterRow]:
    for record in store.dead_letters(limit=DEAD_LETTERS):
        position = place_text(record.source, record.partition, record.offset, record.digest)
        yield DeadLetterRow(position, record.reason, record.raw[:240].decode("utf-8", "replace"))
