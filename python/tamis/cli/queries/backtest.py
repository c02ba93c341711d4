"""The command `tamis backtest`, which prints how often a query would have matched, over time."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from tamis.adapters.message_time import TIME_FIELDS, time_of
from tamis.cli import output
from tamis.cli.exit_codes import ERROR, NOTHING, OK
from tamis.cli.json_messages import BadMessages, MessageForm
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
from tamis.cli.queries.timeline import bar, shown_time
from tamis.engine import Engine
from tamis.engine.backtest import Backtest, PastMessage, Replaced
from tamis.errors import TamisError
from tamis.name_hints import NameHints

SAMPLE_CHARACTERS = 200


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
    engine, key, shown, old = _engine(query, queries, replaces, language, hierarchy)
    names, bad, result = NameHints(engine.names()), BadMessages(), Backtest(engine, key, old, samples)
    fields = (time_field,) if time_field else TIME_FIELDS
    began = perf_counter()
    with open_messages(messages, MessageForm(topic, topic_field, body_field), kind) as read:
        for place, where, size_bytes, message, error in read:
            try:
                if message is None:
                    raise error or ValueError("it cannot be read")
                at = time_of(message.properties, fields)
                told = place if at is None else {**place, "time": shown_time(at)}
                result.add(PastMessage(message.properties, message.topic, message.body, at, told, size_bytes))
            except (ValueError, TypeError) as reason:
                bad.add(where, reason)
                continue
            names.see(message.properties)
    seconds = perf_counter() - began
    hints = names.hints() if result.read else []
    if as_json:
        output.data_json(_plain(shown, result, bad.count, hints))
    else:
        _print(shown, result, bad.count, hints, seconds)
    return ERROR if bad.count else OK if result.matched else NOTHING


def _engine(
    query: str, queries: Path | None, replaces: str | None, language: str, hierarchy: list[str] | None
) -> tuple[Engine, Any, str, Any]:
    """Return an engine with the query alone, or with the one that it replaces; its key, its text, and the other key."""
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
        return engine, new, str(compiled), old
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


def _plain(query: str, result: Backtest, bad: int, hints: list[str]) -> dict[str, Any]:
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
        "samples": result.samples.all(),
        "cost": result.cost_us(),
        "hints": hints,
        **({"replaces": result.replaced.to_dict()} if result.replaced else {}),
    }


def _print(query: str, result: Backtest, bad: int, hints: list[str], seconds: float) -> None:
    per_day = result.per_day()
    rate = f", {per_day:,.1f} per day" if per_day is not None else ""
    times = "once" if result.matched == 1 else f"{result.matched:,} times"
    output.data(f"{query}\nwould have matched {times} in {output.counted(result.read, 'message', 'messages')}{rate}")
    _print_histogram(result)
    for match in result.samples.all():
        output.data(_shown(match))
    if (cost := result.cost_us()) is not None:
        output.data(f"cost: {cost['p50_us']:,.2f} us per message, 99 % below {cost['p99_us']:,.2f} us")
    unread = f", {bad} could not be read" if bad else ""
    output.note(f"{output.counted(result.read, 'message', 'messages')} read in {seconds:.2f} s{unread}")
    for hint in hints:
        output.hint(f"hint: {hint}")
    if result.replaced is not None:
        _print_replaced(result.replaced)


def _print_replaced(replaced: Replaced) -> None:
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


def _print_histogram(result: Backtest) -> None:
    timeline = result.timeline()
    rows = timeline.rows()
    if not result.matched or len(rows) < 2:
        return
    matched_max = max(matched for _, _, matched in rows)
    for at, _, matched in rows:
        label = shown_time(at, timeline.width) if timeline is result.times else f"message {int(at) + 1:,}"
        output.data(f"  {label:>18}  {matched:>7,}  {bar(matched, matched_max)}".rstrip())
