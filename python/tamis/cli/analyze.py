"""``tamis analyze``: what all queries of a file are like: the same, covered, never true, expensive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.messages import BadLines, MessageForm, open_lines
from tamis.cli.places import JsonOption
from tamis.name_hints import NameHints

if TYPE_CHECKING:
    from tamis.engine import Engine
    from tamis.engine.report import Report

SHOWN_MAX = 10
"""So many lines of each table are printed; `--json` has all."""


def analyze(
    queries: Annotated[
        Path, typer.Argument(help="A file of queries (lines of `key: selector`, or TOML), a store, or a snapshot.")
    ],
    messages: Annotated[
        str | None, typer.Option(help="Messages as JSON lines (`-` is stdin): which queries match none of them?")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="The topic of every message.")] = None,
    topic_field: Annotated[str, typer.Option(help="The field with the topic.")] = "topic",
    body_field: Annotated[str, typer.Option(help="The field with the text.")] = "body",
    as_json: JsonOption = False,
) -> int:
    """Report on queries: shared, equal, covered by others, never or always true, not indexable, expensive.

    What it says holds of every message; it does not find everything. Exit code: 0, or 2 on an error.
    """
    from tamis.cli.queries import load_engine

    engine, keys = load_engine(queries)
    found: dict[str, Any] = {}
    bad = BadLines(messages or "")
    if messages is not None:
        found = _match_all(engine, keys, MessageForm(topic, topic_field, body_field), messages, bad)
    report = engine.report()
    if as_json:
        output.data_json({**report.to_dict(), **found})
    else:
        _print(report)
        _print_matches(found)
    return 2 if bad.count else 0


def _match_all(engine: Engine, keys: list[Any], form: MessageForm, name: str, bad: BadLines) -> dict[str, Any]:
    """How many messages there are, the keys of queries that match none, and hints on names that none has."""
    names, counts, read = NameHints(engine.names()), Counter[Any](), 0
    with open_lines(name) as lines:
        for number, line in lines:
            try:
                message = form.read(line)
                counts.update(engine.match(message.properties, message.topic, message.body))
            except (ValueError, TypeError) as error:
                bad.add(number, error)
                continue
            read += 1
            names.see(message.properties)
    return {"messages": read, "unmatched": [key for key in keys if key not in counts], "hints": names.hints()}


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
        output.note(f"{report.candidates_left_out:,} candidates for coverage were not compared, to keep the time short")
    for title, keys in (
        ("never true", report.never_true),
        ("always true", report.always_true),
        ("unindexable: evaluated for every message", report.unindexable),
    ):
        _table(title, ("KEY",), [(key,) for key in keys])
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


def _print_matches(found: dict[str, Any]) -> None:
    if not found:
        return
    _table(f"matched none of {found['messages']:,} messages", ("KEY",), [(key,) for key in found["unmatched"]])
    for hint in found["hints"]:
        output.hint(f"hint: {hint}")


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[int] = ()) -> None:
    """A table with its title; nothing where there is nothing to say."""
    if not rows:
        return
    output.data(f"\n{title} ({len(rows):,})")
    output.table(header, rows[:SHOWN_MAX], numbers)
    if len(rows) > SHOWN_MAX:
        output.data(f"... and {len(rows) - SHOWN_MAX:,} more; --json has all")
