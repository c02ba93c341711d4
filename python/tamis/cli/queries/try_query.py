"""The command `tamis query try`, which tries a query on messages before it is stored."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.exit_codes import NOTHING, OK
from tamis.cli.json_messages import BadMessages, MessageForm
from tamis.cli.message_input import InputMessage, open_messages
from tamis.cli.options import (
    BodyFieldOption,
    FormatOption,
    HierarchyOption,
    JsonOption,
    StoreOption,
    TopicFieldOption,
    TopicOption,
    store_path,
)
from tamis.engine.trial import Failed, Trial, Tried
from tamis.store_place import ServerUrl

_VALUE_CHARACTERS = 70
_SUBJECTS = ("subject", "title")


def try_(
    query: Annotated[str, typer.Argument(help="The query, in its language.")],
    messages: Annotated[
        str | None, typer.Argument(help="Messages as for `match`; default: those that the store keeps.")
    ] = None,
    language: Annotated[str, typer.Option(help="The language of the query.")] = "selector",
    last: Annotated[int, typer.Option(min=1, help="Maximum number of messages; the last ones are taken.")] = 1_000,
    near: Annotated[int, typer.Option(min=0, help="Show messages that miss by at most this number of predicates.")] = 1,
    samples: Annotated[int, typer.Option(min=0, help="Number of matches, and of near misses, to show.")] = 5,
    topic: TopicOption = None,
    topic_field: TopicFieldOption = "topic",
    body_field: BodyFieldOption = "body",
    kind: FormatOption = None,
    hierarchy: HierarchyOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Try a query on recent messages: which it matches and why, which it nearly matches, and what keeps those from it.

    Nothing is stored. A store keeps the messages that some query matched. Exit code: 0 when one matches, 1 when none
    does, 2 on an error.
    """
    from tamis.cli.queries.load import hierarchies_given, is_store, read_queries
    from tamis.query import compile_query

    path = store_path(store)
    held = read_queries(path)[1] if is_store(path) else {}
    trial = Trial(compile_query(query, language), {**held, **hierarchies_given(hierarchy)}, near, samples)
    if messages is None and isinstance(path, ServerUrl):
        kind = "store"
    bad, recent = BadMessages(), deque[InputMessage](maxlen=last)
    with open_messages(messages or str(path), MessageForm(topic, topic_field, body_field), kind) as read:
        recent.extend(read)
    for place, where, _, message, error in recent:
        try:
            if message is None:
                raise error or ValueError("it cannot be read")
            trial.add(place, message.properties, message.topic, message.body)
        except (ValueError, TypeError) as reason:
            bad.add(where, reason)
    if as_json:
        output.data_json(_plain(trial, bad.count))
    else:
        _print(trial, bad.count)
    return OK if trial.matched else NOTHING


def _plain(trial: Trial, bad: int) -> dict[str, Any]:
    return {
        **{"query": str(trial.query), "read": trial.read, "bad": bad, "matched": trial.matched},
        "missed": {str(count): messages for count, messages in sorted(trial.missed.items())},
        "failed": dict(trial.failed.most_common()),
        "matches": [_plain_tried(it) for it in reversed(trial.matches)],
        "near_misses": [_plain_tried(it) for it in reversed(trial.misses)],
    }


def _plain_tried(it: Tried) -> dict[str, Any]:
    failed = [one._asdict() for one in it.failed]
    return {**it.place, "message": it.properties, "failed": failed, **it.explanation.to_dict()}


def _print(trial: Trial, bad: int) -> None:
    unread = f", {bad} could not be read" if bad else ""
    output.data(f"{trial.query}")
    output.data(f"matches {trial.matched:,} of {output.counted(trial.read, 'message', 'messages')}{unread}")
    for it in reversed(trial.matches):
        output.data(f"  {_name(it)}")
        for text, value, result in it.explanation.predicates:
            if result is True:
                output.data(f"    {text}  ({_short(value)})")
    for count, messages in sorted(trial.missed.items()):
        predicates = output.counted(count, "predicate", "predicates")
        output.data(f"nearly matches {output.counted(messages, 'message', 'messages')}: each fails by {predicates}")
    for text, messages in trial.failed.most_common():
        output.data(f"  {messages:>6,} x  {text}")
    for it in reversed(trial.misses):
        output.data(f"  {_name(it)}")
        for one in it.failed:
            output.data(f"    fails: {_failure(one)}")
        for hint in it.explanation.hints:
            output.data(f"    hint: {hint}")


def _name(it: Tried) -> str:
    """Return how people know a message: its place, and its subject."""
    place = ", ".join(f"{name} {value}" for name, value in it.place.items())
    named = next((str(it.properties[name]) for name in _SUBJECTS if it.properties.get(name)), "")
    return f"{place}: {_short(named)}" if named else place


def _failure(one: Failed) -> str:
    return f"{one.text}  ({'the message has no such value' if one.value is None else _short(one.value)})"


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _VALUE_CHARACTERS else text[: _VALUE_CHARACTERS - 1] + "…"
