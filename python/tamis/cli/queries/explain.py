"""The command `tamis explain`, which prints why each query matches a message or does not, predicate by predicate."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.exit_codes import NOTHING, OK
from tamis.cli.json_messages import JsonMessage, MessageForm
from tamis.cli.message_input import open_messages
from tamis.cli.options import (
    BodyFieldOption,
    FormatOption,
    HierarchyOption,
    JsonOption,
    QueriesArgument,
    TopicFieldOption,
    TopicOption,
)
from tamis.errors import TamisError
from tamis.query import selector

if TYPE_CHECKING:
    from tamis.engine import Engine, Explanation

_ANSWERS = {True: "yes", False: "no", None: "unknown"}
_WORDS = {True: "true", False: "FALSE", None: "unknown"}


def explain(
    queries: QueriesArgument,
    message: Annotated[
        str,
        typer.Option(help="The message: a JSON object, or where it is: a file or folder as for `match`; `-` is stdin."),
    ],
    number: Annotated[
        int | None, typer.Option(min=1, help="Which of several messages, counted from 1 in the order of `match`.")
    ] = None,
    key: Annotated[list[str] | None, typer.Option(help="Only this query; may be repeated.")] = None,
    near: Annotated[
        int | None, typer.Option(min=0, help="Only queries that match, or fail by at most this number of predicates.")
    ] = None,
    topic: TopicOption = None,
    topic_field: TopicFieldOption = "topic",
    body_field: BodyFieldOption = "body",
    kind: FormatOption = None,
    hierarchy: HierarchyOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print whether the message satisfies each query, and why.

    Exit code: 0 when one matches, 1 when none does, 2 on an error.
    """
    from tamis.cli.queries.load import key_named, load_engine

    engine, keys = load_engine(queries, hierarchy)
    known = {str(one): one for one in keys}
    for name in key or ():
        key_named(name, keys, queries)
    read = _read(message, number, MessageForm(topic, topic_field, body_field), kind)
    wanted = list(key or known)
    if near is not None:
        close = _close(engine, read, near)
        wanted = [name for name in wanted if known[name] in close]
    matched = 0
    for name in wanted:
        explanation = engine.explain(known[name], read.properties, read.topic, read.body)
        matched += explanation.result is True
        _print(name, explanation, as_json)
    return OK if matched else NOTHING


def _read(text: str, number: int | None, form: MessageForm, kind: str | None) -> JsonMessage:
    try:
        is_object = kind is None and text.lstrip().startswith(("{", "["))
        message = form.read(text) if is_object else _nth(text, number, form, kind)
        selector("").evaluate(
            message.properties, message.topic, message.body
        )  # JSON has values that messages cannot have
    except (ValueError, TypeError) as error:
        raise TamisError(f"--message: not a message: {error}") from error
    return message


def _nth(name: str, number: int | None, form: MessageForm, kind: str | None) -> JsonMessage:
    """Return the only message of a file or folder, or the one that `number` says."""
    if name != "-" and not Path(name).exists():
        raise ValueError("expected a JSON object, or a file or folder with messages; there is none of this name")
    with open_messages(name, form, kind) as messages:
        first = next(islice(messages, (number or 1) - 1, None), None)
        if first is None:
            raise TamisError(f"--message: {name}: expected a message; there are fewer than {number or 1:,}")
        if number is None and next(messages, None) is not None:
            raise TamisError(f"--message: {name} holds several messages: say which with --number, from 1")
    if first.message is None:
        raise TamisError(f"--message: {first.where}: not a message: {first.error}")
    return first.message


def _close(engine: Engine, message: JsonMessage, off_by: int) -> set[Hashable]:
    """Return the keys of queries that match, or fail by at most `off_by` predicates."""
    asked = (message.properties, message.topic, message.body)
    close = set(engine.match(*asked))
    for distance in range(1, off_by + 1):
        close.update(engine.near_misses(*asked, off_by=distance, limit=max(len(engine), 1)))
    return close


def _print(key: str, explanation: Explanation, as_json: bool) -> None:
    if as_json:
        output.data_json({"key": key, **explanation.to_dict()})
        return
    output.data(f"{key}: {_ANSWERS[explanation.result]}")
    for text, value, result in explanation.predicates:
        output.data(f"  {_WORDS[result]:<8}{text}  ({_short(value)})")
    if explanation.missing:
        output.data(f"  the message lacks: {', '.join(explanation.missing)}")
    for hint in explanation.hints:
        output.data(f"  hint: {hint}")


def _short(value: Any) -> str:
    shown = value.isoformat() if isinstance(value, datetime) else repr(value)
    return shown if len(shown) <= 70 else shown[:69] + "…"
