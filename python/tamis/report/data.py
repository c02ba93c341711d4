"""What the report shows, read from a store as plain values. No HTML here."""

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

if TYPE_CHECKING:
    from tamis.query import Query
    from tamis.store import NotificationRecord, QueryMatches, Store

SAMPLE_MESSAGES = 60
"""Messages that each query is measured on alone."""

TRIES = 3
"""How often each query is measured on each message."""

EXAMPLES = 12
"""Notifications shown in full."""

COLUMNS = 120
"""Steps of time that fit on the page."""

STEPS_DAYS = (1, 7, 28, 91, 364, 3640)
"""How long a step of the timeline may be: the shortest that fits is taken."""

EXCERPT_CHARACTERS = 420
DEAD_LETTERS = 20


@dataclass(frozen=True)
class RunFigures:
    """How fast the run was.

    Attributes:
        seconds: from the first batch to the last.
        messages_per_second: read, over those seconds.
        match_us_p50: median time to match one message against all queries, in microseconds.
        match_us_p99: the time that 99 of 100 messages stay below.
    """

    seconds: float
    messages_per_second: float
    match_us_p50: float | None = None
    match_us_p99: float | None = None


@dataclass(frozen=True)
class QueryRow:
    """A query, what it matched, and what it costs alone, in microseconds a message."""

    key: str
    text: str
    language: str
    matches: int
    first_subject: str | None
    cost_us: float | None = None


@dataclass(frozen=True)
class Piece:
    """A stretch of text; `marked` when it is what matched."""

    text: str
    marked: bool = False


@dataclass(frozen=True)
class Example:
    """A notification: its query, its message, and why."""

    query_key: str
    query_text: str
    language: str
    topic: str
    author: str
    subject: str
    date: str
    excerpt: tuple[Piece, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class DeadLetterRow:
    """What could not be read: where, why, and how it begins."""

    place: str
    reason: str
    beginning: str


@dataclass(frozen=True)
class Timeline:
    """Notifications by the date of their message, a series a topic.

    Attributes:
        starts: the first day of every step of time, none left out.
        series: topic -> a count for each step.
        step_days: how long a step is.
        outside: notifications whose message has no date, or one far from the others.
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
    timeline: Timeline
    examples: tuple[Example, ...]
    dead_letters: tuple[DeadLetterRow, ...]
    figures: RunFigures | None = None
    deliveries: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def unmatched(self) -> int:
        """Messages that could be read and satisfy no query."""
        return self.read - self.matched - self.dead


def collect(store: Store, figures: RunFigures | None = None) -> ReportData:
    """Read the store once and measure its queries."""
    counts, matches = store.counts(), store.query_matches()
    notifications = store.notifications(limit=None, newest_first=False)
    messages = [_Stored(record) for record in _one_a_message(notifications)]
    compiled = {found.key: compile_query(found.text, found.language) for found in matches}
    costs = measure(compiled, messages[:: max(1, len(messages) // SAMPLE_MESSAGES)])
    return ReportData(
        made_at=datetime.now(UTC),
        read=counts.read,
        matched=counts.matched,
        dead=counts.dead_letters,
        notifications=counts.notifications,
        queries=tuple(_query_row(found, costs) for found in matches),
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
    """The first notification of each message."""
    seen: dict[tuple[str, str, int], NotificationRecord] = {}
    for record in notifications:
        seen.setdefault((record.source, record.partition, record.offset), record)
    return list(seen.values())


def measure(queries: dict[str, Query], messages: Sequence[_Stored]) -> dict[str, float]:
    """Microseconds that each query takes alone for a message: the median over `messages`.

    The time for handing the message over, which is that of a query that looks at nothing, is taken off.
    """
    if not messages:
        return {}
    nothing = selector("TRUE")
    return {
        key: max(0.0, statistics.median(_best_us(query, it) - _best_us(nothing, it) for it in messages))
        for key, query in queries.items()
    }


def _best_us(query: Query, message: _Stored) -> float:
    """The best of a few tries: what disturbs a measurement only ever adds to it."""
    best = float("inf")
    for _ in range(TRIES):
        began = perf_counter_ns()
        query.evaluate(message.properties, message.topic, message.body)
        best = min(best, perf_counter_ns() - began)
    return best / 1000


def _query_row(found: QueryMatches, costs: dict[str, float]) -> QueryRow:
    return QueryRow(found.key, found.text, found.language, found.matches, found.first_subject, costs.get(found.key))


def _timeline(notifications: Sequence[NotificationRecord]) -> Timeline:
    """The time that holds most dates (mail has strays, a century off), in steps that fit on the page."""
    dated = [(_day(record), record.topic) for record in notifications]
    days = sorted(day for day, _ in dated if day is not None)
    if not days:
        return Timeline((), {}, 1, len(dated))
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
    return Timeline(starts, {topic: tuple(counts[topic]) for topic in sorted(counts)}, step, outside)


def _window(days: Sequence[date]) -> tuple[date, date]:
    """From the first to the last of the dates that are no further from the middle 80 % than a quarter of their span."""
    low, high = days[len(days) // 10], days[-1 - len(days) // 10]
    slack = (high - low) / 4 + timedelta(days=1)
    inside = [day for day in days if low - min(slack, low - date.min) <= day <= high + min(slack, date.max - high)]
    return inside[0], inside[-1]


def _day(record: NotificationRecord) -> date | None:
    when = record.message_properties().get("date")
    return when.date() if isinstance(when, datetime) else None


def _examples(notifications: Sequence[NotificationRecord], compiled: dict[str, Query]) -> Iterable[Example]:
    """One notification of each of `EXAMPLES` queries: first those with something to mark, the rarest first."""
    of_query: dict[str, list[NotificationRecord]] = defaultdict(list)
    for record in notifications:
        if record.query_key in compiled:
            of_query[record.query_key].append(record)
    rarest_first = sorted(of_query.values(), key=len)
    found: list[Example] = []
    shown: set[tuple[str, str, int]] = set()  # a message is shown once, whatever matched it
    for records in rarest_first:
        fresh = [record for record in records if (record.source, record.partition, record.offset) not in shown]
        if fresh:
            record, example = _example(fresh, compiled[records[0].query_key])
            shown.add((record.source, record.partition, record.offset))
            found.append(example)
    found.sort(key=lambda example: not any(piece.marked for piece in example.excerpt))  # stable: rarest first remains
    return found[:EXAMPLES]


def _example(records: list[NotificationRecord], query: Query) -> tuple[NotificationRecord, Example]:
    """The first notification whose text has something to mark, else the first."""
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


def _excerpt(body: str, ranges: Sequence[tuple[int, int]]) -> Iterable[Piece]:
    """A window of the body around the first range, cut into marked and unmarked pieces."""
    first = ranges[0][0] if ranges else 0
    start = _word_start(body, max(0, first - EXCERPT_CHARACTERS // 3))
    end = min(len(body), start + EXCERPT_CHARACTERS)
    if start:
        yield Piece("… ")
    at = start
    for begin, stop in ranges:
        begin, stop = max(begin, at), min(stop, end)
        if begin < stop:
            yield Piece(_close(body[at:begin]))
            yield Piece(body[begin:stop], marked=True)
            at = stop
    yield Piece(_close(body[at:end]) + (" …" if end < len(body) else ""))


def _word_start(text: str, at: int) -> int:
    """Where the word at `at` begins; `at` itself when that is not near."""
    near = max(0, at - 20)
    space = max(text.rfind(" ", near, at), text.rfind("\n", near, at))
    return space + 1 if space >= 0 else at


def _close(text: str) -> str:
    """`text` with at most one blank line at a time, and no quotation marks of e-mail before empty lines."""
    return re.sub(r"\n(?:[ \t>|]*\n){2,}", "\n\n", text)


def _reasons(query: Query, message: _Stored) -> Iterable[str]:
    """The predicates that are true, each with the value it looked at."""
    from tamis import Engine

    engine = Engine()
    engine.add("it", query)
    explanation = engine.explain("it", message.properties, message.topic, message.body)
    for text, value, result in explanation.predicates:
        if result is True:
            shown = "" if value is None or value == message.body else f"  ({_short(value)})"
            yield text + shown


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 90 else text[:89] + "…"


def _dead_letters(store: Store) -> Iterable[DeadLetterRow]:
    for record in store.dead_letters(limit=DEAD_LETTERS):
        place = f"{record.source}: {record.partition}, byte {record.offset}"
        yield DeadLetterRow(place, record.reason, record.raw[:240].decode("utf-8", "replace"))
