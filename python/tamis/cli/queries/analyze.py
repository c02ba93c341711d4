"""The command `tamis analyze`, which reports which queries of a file are equal, covered, never true or expensive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tamis.cli import output
from tamis.cli.exit_codes import ERROR, OK
from tamis.cli.json_messages import BadMessages, MessageForm
from tamis.cli.message_input import InputMessage, open_messages
from tamis.cli.options import (
    BodyFieldOption,
    FormatOption,
    HierarchyOption,
    JsonOption,
    MessagesOption,
    QueriesArgument,
    TopicFieldOption,
    TopicOption,
)
from tamis.name_hints import NameHints

if TYPE_CHECKING:
    from tamis.engine import Engine
    from tamis.engine.report import Report

SHOWN_MAX = 10
"""Maximum number of lines per table; `--json` has all."""


def analyze(
    queries: QueriesArgument,
    messages: MessagesOption = None,
    topic: TopicOption = None,
    topic_field: TopicFieldOption = "topic",
    body_field: BodyFieldOption = "body",
    kind: FormatOption = None,
    hierarchy: HierarchyOption = None,
    as_json: JsonOption = False,
) -> int:
    """Report on queries: shared, equal, covered by others, never or always true, not indexable, expensive.

    The report holds for every possible message, and may be incomplete. Exit code: 0, or 2 on an error.
    """
    from tamis.cli.queries.load import load_engine

    engine, keys = load_engine(queries, hierarchy)
    matches: dict[str, Any] = {}
    bad = BadMessages()
    if messages is not None:
        with open_messages(messages, MessageForm(topic, topic_field, body_field), kind) as read:
            matches = _match_all(engine, keys, read, bad)
    report = engine.report()
    if as_json:
        output.data_json({**report.to_dict(), **matches})
    else:
        _print(report)
        _print_matches(matches)
    return ERROR if bad.count else OK


def _match_all(engine: Engine, keys: list[Any], messages: Iterable[InputMessage], bad: BadMessages) -> dict[str, Any]:
    """Return the number of messages, the keys of queries that match none, and hints on names that none has."""
    names, counts, count = NameHints(engine.names()), Counter[Any](), 0
    for _, where, _, message, error in messages:
        try:
            if message is None:
                raise error or ValueError("it cannot be read")
            counts.update(engine.match(message.properties, message.topic, message.body))
        except (ValueError, TypeError) as reason:
            bad.add(where, reason)
            continue
        count += 1
        names.see(message.properties)
    return {"messages": count, "unmatched": [key for key in keys if key not in counts], "hints": names.hints()}


def _print(report: Report) -> None:
    output.data(
        f"{report.subscriptions:,} subscriptions with {report.distinct_queries:,} distinct queries"
        f" and {report.distinct_predicates:,} distinct predicates ({report.predicates:,} in all);"
        f" {report.bytes:,} bytes"
    )
    _table("shared predicates", ("SUBSCRIPTIONS", "PREDICATE"), [(count, text) for text, count in report.shared], (0,))
    _table("duplicates: equal queries", ("COUNT", "KEYS"), [(len(keys), keys) for keys in report.duplicates], (0,))
    _table("covered: whenever KEY matches, so does BY", ("KEY", "BY"), report.covered)
    if report.candidates_left_out:
        output.note(f"{report.candidates_left_out:,} candidates for coverage were not compared, to save time")
    for title, keys in (
        ("never true", report.never_true),
        ("always true", report.always_true),
        ("unindexable: evaluated for every message", report.unindexable),
    ):
        _table(title, ("KEY",), [(key,) for key in keys])
    _table("indexes", ("SUBSCRIPTIONS", "SERVED BY"), [(count, index) for index, count in report.served_by], (0,))
    most_expensive = [
        (f"{expensive.cost_us:.2f}", expensive.key, expensive.text) for expensive in report.most_expensive
    ]
    _table("most expensive, in microseconds", ("COST", "KEY", "QUERY"), most_expensive, (0,))
    uses = [
        (it.name, it.subscriptions, it.calls, it.errors, it.cost_us, it.measured_us, it.last_error)
        for it in report.opaque
    ]
    header = ("NAME", "SUBSCRIPTIONS", "CALLS", "ERRORS", "DECLARED", "MEASURED", "LAST ERROR")
    _table("expensive predicates, in microseconds", header, uses, (1, 2, 3, 4, 5))


def _print_matches(matches: dict[str, Any]) -> None:
    if not matches:
        return
    _table(f"matched none of {matches['messages']:,} messages", ("KEY",), [(key,) for key in matches["unmatched"]])
    for hint in matches["hints"]:
        output.hint(f"hint: {hint}")


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[int] = ()) -> None:
    """Print a table with its title, unless it is empty."""
    if not rows:
        return
    output.data(f"\n{title} ({len(rows):,})")
    output.table(header, rows[:SHOWN_MAX], numbers)
    if len(rows) > SHOWN_MAX:
        output.data(f"... and {len(rows) - SHOWN_MAX:,} more; --json has all")
