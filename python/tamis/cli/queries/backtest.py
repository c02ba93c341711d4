"""The command `tamis backtest`, which prints how often a query would have matched, over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from tamis.adapters.message_time import TIME_FIELDS, time_of
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
from tamis.cli.queries.samples import ReplacedQuery, Samples
from tamis.cli.queries.timeline import Timeline, bar, shown_time
from tamis.engine import Engine
from tamis.errors import TamisError
from tamis.name_hints import NameHints

TIMED_MAX, TIMED_BYTES_MAX = 1_000, 16 * 1024 * 1024
"""Maximum number and size of the messages that are kept to measure the cost of a match."""
TIMED_ROUNDS = 5
SAMPLE_CHARACTERS = 200
_DAY_S = 24 * 3_600


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
    replaces: Annotated[
        str | None, typer.Option(metavar="KEY", help="Take QUERY as a new text for this one of --queries, and compare.")
    ] = None,
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

    With --replaces, it also prints what the new text would gain and lose. Messages are read as a stream. Exit code: 0
    when one matches, 1 when none does, 2 on an error.
    """
    engine, key, shown, replaced = _engine(query, queries, replaces, language, hierarchy, samples)
    names, bad, kept = NameHints(engine.names()), BadMessages(), Samples(samples)
    fields = (time_field,) if time_field else TIME_FIELDS
    result, timed = BacktestResult(), _TimedMessages()
    began = perf_counter()
    with open_messages(messages, MessageForm(topic, topic_field, body_field), kind) as read:
        for place, where, size_bytes, message, error in read:
            try:
                if message is None:
                    raise error or ValueError("it cannot be read")
                found = engine.match(message.properties, message.topic, message.body)
                is_match = key in found
            except (ValueError, TypeError) as reason:
                bad.add(where, reason)
                continue
            names.see(message.properties)
            timed.add(message, size_bytes)
            at = time_of(message.properties, fields)
            _count(result, at, is_match)
            when = {"time": shown_time(at)} if at is not None else {}
            sample = {**place, **when, "message": message.properties}
            if is_match:
                kept.add(sample)
            if replaced is not None:
                replaced.add(replaced.key in found, is_match, sample)
    seconds = perf_counter() - began
    cost = timed.cost_us(engine)
    hints = names.hints() if result.read else []
    if as_json:
        told = {"replaces": replaced.plain()} if replaced else {}
        output.data_json(_plain(shown, result, bad.count, kept, cost, hints) | told)
    else:
        _print(shown, result, bad.count, kept, cost, hints, seconds)
        if replaced is not None:
            _print_replaced(replaced)
    return ERROR if bad.count else OK if result.matched else NOTHING


def _engine(
    query: str, queries: Path | None, replaces: str | None, language: str, hierarchy: list[str] | None, samples: int
) -> tuple[Engine, Any, str, ReplacedQuery | None]:
    """Return an engine with the query alone, or with the one that it replaces; its key, its text, and the latter."""
    from tamis.cli.queries.load import hierarchies_given, key_named, load_engine, refuse_unknown_hierarchies
    from tamis.engine.build import build_engine
    from tamis.query import compile_query

    if replaces is not None:
        if queries is None:
            raise TamisError("--replaces names a query of --queries, which is not given")
        engine, keys = load_engine(queries, hierarchy)
        old = key_named(replaces, keys, queries)
        for key in keys:
            if key != old:
                engine.remove(key)
        compiled, new = compile_query(query, language), ("new", old)
        refuse_unknown_hierarchies(compiled, queries, hierarchy)
        engine.add(new, compiled)
        replaced = ReplacedQuery(old, str(engine.query(old)), Samples(samples), Samples(samples))
        return engine, new, str(compiled), replaced
    if queries is None:
        compiled = compile_query(query, language)
        return build_engine([(query, compiled)], hierarchies_given(hierarchy)), query, str(compiled), None
    engine, keys = load_engine(queries, hierarchy)
    wanted = key_named(query, keys, queries)
    return _alone(engine, keys, wanted), wanted, str(engine.query(wanted)), None


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
        output.data(_shown(match))
    if cost is not None:
        output.data(f"cost: {cost['p50_us']:,.2f} us per message, 99 % below {cost['p99_us']:,.2f} us")
    unread = f", {bad} could not be read" if bad else ""
    output.note(f"{output.counted(result.read, 'message', 'messages')} read in {seconds:.2f} s{unread}")
    for hint in hints:
        output.hint(f"hint: {hint}")


def _print_replaced(replaced: ReplacedQuery) -> None:
    counts = replaced.counts
    output.data(
        f"instead of {replaced.key}: {replaced.text}\n"
        f"gains {counts.gained:,}, loses {counts.lost:,}, keeps {counts.kept:,}"
    )
    for sign, samples in (("+", replaced.gained), ("-", replaced.lost)):
        for match in samples.all():
            output.data(f"{sign} {_shown(match)}")


def _shown(match: dict[str, Any]) -> str:
    """Return a message on one line: where it stands, its time, and its properties."""
    when = f" ({match['time']})" if "time" in match else ""
    text = output.to_json(match["message"])
    return f"{_place(match)}{when}: {text if len(text) <= SAMPLE_CHARACTERS else text[: SAMPLE_CHARACTERS - 1] + '…'}"


def _place(match: dict[str, Any]) -> str:
    """Return the place of a message, for people."""
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
