"""The command `tamis match`, which prints messages with the queries that they satisfy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.exit_codes import ERROR, NOTHING, OK
from tamis.cli.json_messages import BadMessages, MessageForm
from tamis.cli.message_input import InputMessage, open_messages
from tamis.cli.options import (
    BodyFieldOption,
    FormatOption,
    HierarchyOption,
    MessagesArgument,
    QueriesArgument,
    TopicFieldOption,
    TopicOption,
)
from tamis.errors import TamisError
from tamis.name_hints import NameHints

if TYPE_CHECKING:
    from tamis.engine import Engine


@dataclass
class MatchTally:
    """The counts of one call.

    Attributes:
        read: number of messages.
        matched: number of messages that satisfy at least one query.
        bad: number of messages that cannot be read.
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
    kind: FormatOption = None,
    hierarchy: HierarchyOption = None,
    errors: Annotated[
        str | None,
        typer.Option(
            help="What becomes of a message that cannot be read: raise (stop there), null (print it with null keys), "
            "column (with the reason, too). Default: only say it on stderr."
        ),
    ] = None,
    count: Annotated[bool, typer.Option("--count", "-c", help="Print how many messages match, not which.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-m", min=1, help="Stop after this many matches.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Count and summary as JSON too.")] = False,
) -> int:
    """Print the messages that satisfy a query, one JSON object per line.

    An object is {"line": its number, "keys": the queries it satisfies, "message": the message}; of mail, "file" and
    "byte" stand instead of "line", and of a stream "offset". The fields of a JSON object are its properties, except its
    topic and its text. A summary goes to stderr.

    Queries that are paused or expired are left out.

    Exit code: 0 when a message matches, 1 when none does, 2 on an error, also when some messages cannot be read and
    --errors does not allow them.
    """
    from tamis.cli.queries.load import load_engine

    engine, _ = load_engine(queries, hierarchy, only_active=True)
    began, tally, names = perf_counter(), MatchTally(), NameHints(engine.names())
    _check_errors(errors)
    with open_messages(messages, MessageForm(topic, topic_field, body_field), kind) as read:
        for match_ in _matches(engine, read, tally, names, errors):
            if not count:
                output.data_json(match_)
            if tally.matched == limit:
                break
    if count:
        output.data(output.to_json(_summary(tally)) if as_json else str(tally.matched))
    _summarise(tally, len(engine), perf_counter() - began, as_json)
    for hint in names.hints() if not as_json and tally.read else ():
        output.hint(f"hint: {hint}")
    return ERROR if tally.bad and errors is None else OK if tally.matched else NOTHING


def _check_errors(errors: str | None) -> None:
    if errors not in (None, "raise", "null", "column"):
        raise TamisError(f"--errors: expected raise, null or column, not '{errors}'")


def _matches(
    engine: Engine, messages: Iterable[InputMessage], tally: MatchTally, names: NameHints, errors: str | None
) -> Iterable[dict[str, Any]]:
    """Yield what `match` prints, and count it in `tally`."""
    bad = BadMessages()
    for place, where, _, message, error in messages:
        try:
            if message is None:
                raise error or ValueError("it cannot be read")
            keys = engine.match(message.properties, message.topic, message.body)
        except (ValueError, TypeError) as reason:
            if errors == "raise":
                raise TamisError(f"{where}: not a message: {reason}") from reason
            bad.add(where, reason)
            tally.bad = bad.count
            if errors is not None:
                yield {**place, "keys": None, **({"error": str(reason)} if errors == "column" else {})}
            continue
        tally.read += 1
        names.see(message.properties)
        if keys:
            tally.matched += 1
            tally.by_key.update(keys)
            yield {**place, "keys": keys, "message": message.properties}


def _summary(tally: MatchTally) -> dict[str, Any]:
    return {"read": tally.read, "matched": tally.matched, "bad": tally.bad, "keys": dict(tally.by_key.most_common())}


def _summarise(tally: MatchTally, queries: int, seconds: float, as_json: bool) -> None:
    """Print the summary on stderr."""
    if as_json:
        output.note(output.to_json({**_summary(tally), "queries": queries, "seconds": round(seconds, 6)}))
        return
    bad = f", {tally.bad} could not be read" if tally.bad else ""
    per_message = f" ({seconds / tally.read * 1e6:,.0f} us each)" if tally.read else ""
    output.note(
        f"{tally.matched} of {output.counted(tally.read, 'message', 'messages')} matched {len(tally.by_key)} of "
        f"{output.counted(queries, 'query', 'queries')}{bad}"
        f" in {seconds:.2f} s{per_message}"
    )
