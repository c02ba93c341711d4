"""The command `tamis match`, which prints the messages of a JSON lines file with the queries that they satisfy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.exit_codes import ERROR, NOTHING, OK
from tamis.cli.json_messages import BadLines, MessageForm, open_lines
from tamis.cli.options import (
    BodyFieldOption,
    HierarchyOption,
    MessagesArgument,
    QueriesArgument,
    TopicFieldOption,
    TopicOption,
)
from tamis.name_hints import NameHints

if TYPE_CHECKING:
    from tamis.engine import Engine


@dataclass
class Tally:
    """The counts of one call.

    Attributes:
        read: number of lines with a message.
        matched: number of messages that satisfy at least one query.
        bad: number of lines that cannot be read.
        by_key: number of messages that satisfy each query.
    """

    read: int = 0
    matched: int = 0
    bad: int = 0
    by_key: Counter[Any] = field(default_factory=Counter)


def match(
    queries: QueriesArgument,
    messages: MessagesArgument = "-",
    topic: TopicOption = None,
    topic_field: TopicFieldOption = "topic",
    body_field: BodyFieldOption = "body",
    hierarchy: HierarchyOption = None,
    count: Annotated[bool, typer.Option("--count", "-c", help="Print how many messages match, not which.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-m", min=1, help="Stop after this many matches.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Count and summary as JSON too.")] = False,
) -> int:
    """Print the messages that satisfy a query, one JSON object per line.

    A line is {"line": its number, "keys": the queries it satisfies, "message": the message}. The fields of a message
    are its properties, except its topic and its text. A summary goes to stderr.

    Exit code: 0 when a message matches, 1 when none does, 2 on an error, also when only some lines cannot be read.
    """
    from tamis.cli.queries.load import load_engine

    engine, _ = load_engine(queries, hierarchy)
    began, tally, names = perf_counter(), Tally(), NameHints(engine.names())
    with open_lines(messages) as lines:
        for match_ in _matches(engine, MessageForm(topic, topic_field, body_field), lines, messages, tally, names):
            if not count:
                output.data_json(match_)
            if tally.matched == limit:
                break
    if count:
        output.data(output.to_json(_summary(tally)) if as_json else str(tally.matched))
    _summarise(tally, len(engine), perf_counter() - began, as_json)
    for hint in names.hints() if not as_json and tally.read else ():
        output.hint(f"hint: {hint}")
    return ERROR if tally.bad else OK if tally.matched else NOTHING


def _matches(
    engine: Engine, form: MessageForm, lines: Iterable[tuple[int, bytes]], name: str, tally: Tally, names: NameHints
) -> Iterable[dict[str, Any]]:
    """Yield what `match` prints, and count it in `tally`."""
    bad = BadLines(name)
    for number, line in lines:
        try:
            message = form.read(line)
            keys = engine.match(message.properties, message.topic, message.body)
        except (ValueError, TypeError) as error:
            bad.add(number, error)
            tally.bad = bad.count
            continue
        tally.read += 1
        names.see(message.properties)
        if keys:
            tally.matched += 1
            tally.by_key.update(keys)
            yield {"line": number, "keys": keys, "message": message.properties}


def _summary(tally: Tally) -> dict[str, Any]:
    return {"read": tally.read, "matched": tally.matched, "bad": tally.bad, "keys": dict(tally.by_key.most_common())}


def _summarise(tally: Tally, queries: int, seconds: float, as_json: bool) -> None:
    """Print the summary on stderr."""
    if as_json:
        output.note(output.to_json({**_summary(tally), "queries": queries, "seconds": round(seconds, 6)}))
        return
    bad = f", {tally.bad} lines could not be read" if tally.bad else ""
    per_message = f" ({seconds / tally.read * 1e6:,.0f} us each)" if tally.read else ""
    output.note(
        f"{tally.matched} of {tally.read} messages matched {len(tally.by_key)} of {queries} queries{bad}"
        f" in {seconds:.2f} s{per_message}"
    )
