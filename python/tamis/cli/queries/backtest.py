"""The command `tamis backtest`, which prints how often a query would have matched, over time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.exit_codes import ERROR, NOTHING, OK
from tamis.cli.json_messages import BadMessages, JsonMessage, MessageForm
from tamis.cli.message_input import open_messages
from tamis.cli.options import (
    BodyFieldOption,
    FormatOption,
    HierarchyOption,
    JsonOption,
    MessagesArgument,
    TopicFieldOption,
    TopicOption,
)
from tamis.cli.queries.timeline import TIME_FIELDS, Timeline, bar, shown_time, time_of
from tamis.engine import Engine
from tamis.name_hints import NameHints

TIMED_MAX, TIMED_BYTES_MAX = 1_000, 16 * 1024 * 1024
"""Maximum number and size of the messages that are kept to measure the cost of a match."""
TIMED_ROUNDS = 5
SAMPLE_CHARACTERS = 200
_DAY_S = 24 * 3_600


@dataclass
class Samples:
    """The first match, the last, and a uniform random sample of those between them."""

    wanted: int
    first: dict[str, Any] | None = None
    last: dict[str, Any] | None = None
    between: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    _between_count: int = 0
    _random: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - the sample need not be secret

    def add(self, match: dict[str, Any]) -> None:
        """Add the next match."""
        if self.first is None:
            self.first = match
            return
        if self.last is not None:
            self._sample(self.last)
        self.last = match

    def _sample(self, match: dict[str, Any]) -> None:
        size = max(self.wanted - 2, 0)
        if len(self.between) < size:
            self.between.append((self._between_count, match))
        elif (index := self._random.randint(0, self._between_count)) < size:
            self.between[index] = (self._between_count, match)
        self._between_count += 1

    def all(self) -> list[dict[str, Any]]:
        """Return the samples in order, at most as many as were wanted."""
        kept = [match for _, match in sorted(self.between, key=itemgetter(0))]
        return [match for match in (self.first, *kept, self.last) if match is not None][: self.wanted]


@dataclass
class BacktestResult:
    """The counts of all messages, and of those that matched."""

    read: int = 0
    matched: int = 0
    times: Timeline = field(default_factory=Timeline.of_times)
    positions: Timeline = field(default_factory=Timeline.of_positions)

    def timeline(self) -> Timeline:
        """Return the timeline over time if messages have one, else over positions."""
        return self.times if self.times.bins else self.positions

    def per_day(self) -> float | None:
        """Return the matches per day, if the messages cover some time."""
        first, last = self.times.first, self.times.last
        if first is None or last is None or last <= first:
            return None
        return self.matched / ((last - first) / _DAY_S)


def backtest(
    query: Annotated[str, typer.Argument(help="A query; with --queries, the key of one.")],
    messages: MessagesArgument = "-",
    queries: Annotated[Path | None, typer.Option(help="A file of queries, a store, or a snapshot.")] = None,
    language: Annotated[str, typer.Option(help="The language of the query.")] = "selector",
    time_field: Annotated[
        str | None,
        typer.Option(help=f"The field with the time of a message; default: the first of {', '.join(TIME_FIELDS)}."),
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Number of matches to show.")] = 5,
    topic: TopicOption = None,
    topic_field: TopicFieldOption = "topic",
    body_field: BodyFieldOption = "body",
    kind: FormatOption = None,
    hierarchy: HierarchyOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print how often a query would have matched: over time, with samples and its cost.

    Messages are read as a stream. Exit code: 0 when one matches, 1 when none does, 2 on an error.
    """
    engine, key, shown = _engine(query, queries, language, hierarchy)
    names, bad, kept = NameHints(engine.names()), BadMessages(), Samples(samples)
    fields = (time_field,) if time_field else TIME_FIELDS
    result, timed = BacktestResult(), _TimedMessages()
    began = perf_counter()
    with open_messages(messages, MessageForm(topic, topic_field, body_field), kind) as read:
        for place, where, size_bytes, message, error in read:
            try:
                if message is None:
                    raise error or ValueError("it cannot be read")
                is_match = key in engine.match(message.properties, message.topic, message.body)
            except (ValueError, TypeError) as reason:
                bad.add(where, reason)
                continue
            names.see(message.properties)
            timed.add(message, size_bytes)
            at = time_of(message.properties, fields)
            _count(result, at, is_match)
            if is_match:
                when = {"time": shown_time(at)} if at is not None else {}
                kept.add({**place, **when, "message": message.properties})
    seconds = perf_counter() - began
    cost = timed.cost_us(engine)
    hints = names.hints() if result.read else []
    if as_json:
        output.data_json(_plain(shown, result, bad.count, kept, cost, hints))
    else:
        _print(shown, result, bad.count, kept, cost, hints, seconds)
    return ERROR if bad.count else OK if result.matched else NOTHING


def _engine(query: str, queries: Path | None, language: str, hierarchy: list[str] | None) -> tuple[Engine, Any, str]:
    """Return an engine with the query alone, the key of the query there, and its text."""
    from tamis.cli.queries.load import hierarchies_given, key_named, load_engine
    from tamis.engine.build import build_engine
    from tamis.query import compile_query

    if queries is None:
        compiled = compile_query(query, language)
        return build_engine([(query, compiled)], hierarchies_given(hierarchy)), query, str(compiled)
    engine, keys = load_engine(queries, hierarchy)
    wanted = key_named(query, keys, queries)
    return _alone(engine, keys, wanted), wanted, str(engine.query(wanted))


def _alone(engine: Engine, keys: list[Any], wanted: Any) -> Engine:
    """Return an engine with one query, and with the hierarchies of `engine` if it needs some."""
    query = engine.query(wanted)
    if not query.hierarchies:
        engine = Engine()
        engine.add(wanted, query)
        return engine
    for key in keys:
        if key != wanted:
            engine.remove(key)
    return engine


class _TimedMessages:
    """Messages with which the cost of a match is measured."""

    def __init__(self) -> None:
        self._messages: list[tuple[dict[str, Any], str, str | None]] = []
        self._bytes = 0

    def add(self, message: JsonMessage, size: int) -> None:
        if len(self._messages) < TIMED_MAX and self._bytes + size <= TIMED_BYTES_MAX:
            self._messages.append((message.properties, message.topic, message.body))
            self._bytes += size

    def cost_us(self, engine: Engine) -> dict[str, float] | None:
        """Return the CPU time of a match in the core over the kept messages: median and 99th percentile."""
        if not self._messages:
            return None
        times = sorted(cpu for _, cpu, _ in engine.time_matches(self._messages, rounds=TIMED_ROUNDS))
        at = (times[len(times) // 2], times[len(times) * 99 // 100])
        return dict(zip(("p50_us", "p99_us"), (round(time / 1_000, 3) for time in at), strict=True))


def _count(result: BacktestResult, at: float | None, is_match: bool) -> None:
    result.positions.add(result.read, is_match)
    result.read += 1
    result.matched += is_match
    if at is not None:
        result.times.add(at, is_match)


def _plain(
    query: str, result: BacktestResult, bad: int, kept: Samples, cost: dict[str, float] | None, hints: list[str]
) -> dict[str, Any]:
    timeline = result.timeline()
    is_time = timeline is result.times
    rows = timeline.rows()
    return {
        "query": query,
        "read": result.read,
        "matched": result.matched,
        "bad": bad,
        "per_day": result.per_day(),
        "over": "time" if is_time else "position",
        "bin": timeline.width,
        "histogram": [
            {"from": shown_time(at) if is_time else at, "messages": messages, "matched": matched}
            for at, messages, matched in rows
        ],
        "samples": kept.all(),
        "cost": cost,
        "hints": hints,
    }


def _print(
    query: str,
    result: BacktestResult,
    bad: int,
    kept: Samples,
    cost: dict[str, float] | None,
    hints: list[str],
    seconds: float,
) -> None:
    per_day = result.per_day()
    rate = f", {per_day:,.1f} per day" if per_day is not None else ""
    times = "once" if result.matched == 1 else f"{result.matched:,} times"
    output.data(f"{query}\nwould have matched {times} in {output.counted(result.read, 'message', 'messages')}{rate}")
    _print_histogram(result)
    for match in kept.all():
        when = f" ({match['time']})" if "time" in match else ""
        text = output.to_json(match["message"])
        shown = text if len(text) <= SAMPLE_CHARACTERS else text[: SAMPLE_CHARACTERS - 1] + "…"
        output.data(f"{_place(match)}{when}: {shown}")
    if cost is not None:
        output.data(f"cost: {cost['p50_us']:,.2f} us per message, 99 % below {cost['p99_us']:,.2f} us")
    unread = f", {bad} could not be read" if bad else ""
    output.note(f"{output.counted(result.read, 'message', 'messages')} read in {seconds:.2f} s{unread}")
    for hint in hints:
        output.hint(f"hint: {hint}")


def _place(match: dict[str, Any]) -> str:
    """Where a message stands, for people."""
    file = [str(match["file"])] if "file" in match else []
    numbers = [f"{name} {match[name]:,}" for name in ("line", "offset", "byte") if match.get(name)]
    return ", ".join(file + numbers)


def _print_histogram(result: BacktestResult) -> None:
    timeline = result.timeline()
    rows = timeline.rows()
    if not result.matched or len(rows) < 2:
        return
    matched_max = max(matched for _, _, matched in rows)
    for at, _, matched in rows:
        label = shown_time(at, timeline.width) if timeline is result.times else f"message {int(at) + 1:,}"
        output.data(f"  {label:>18}  {matched:>7,}  {bar(matched, matched_max)}".rstrip())
