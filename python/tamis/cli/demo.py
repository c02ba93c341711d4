"""``tamis demo``: watch tamis work on real mail, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.pipeline import exit_code, print_summary

if TYPE_CHECKING:
    from tamis.demo import DemoFolder, DemoResult


def demo(
    folder: Annotated[Path, typer.Option(help="Where everything goes; run it again to go on there.")] = Path("demo"),
    as_json: Annotated[bool, typer.Option("--json", help="Progress and result as JSON lines on stdout.")] = False,
) -> int:
    """Match 600 real mails against 60 queries in every language, and write a report.

    The folder holds the mail, `pipeline.toml`, `queries.toml`, and afterwards `tamis.sqlite`, `outbox/` and
    `report.html`. A second run finds nothing new and adds nothing.
    """
    from tamis.cli.display import display
    from tamis.demo import lay_out, run_demo

    laid_out = lay_out(folder)
    with display(as_json, laid_out.messages) as show:
        result = run_demo(laid_out, show)
    if as_json:
        output.data_json({"event": "result", **_to_dict(result)})
    else:
        _print(laid_out, result)
    return exit_code(result.summary, once=True)


def _to_dict(result: DemoResult) -> dict[str, Any]:
    queries = [
        {"key": it.key, "language": it.language, "matches": it.matches, "first_subject": it.first_subject}
        for it in result.queries
    ]
    report = os.fspath(result.report)
    return {"summary": result.summary.to_dict(), "counts": asdict(result.counts), "queries": queries, "report": report}


def _print(folder: DemoFolder, result: DemoResult) -> None:
    """The table, how fast it was, and what to do next."""
    found = sorted(result.queries, key=lambda query: -query.matches)
    rows = [(query.key, query.language, query.matches, query.first_subject) for query in found]
    output.table(("QUERY", "LANGUAGE", "MATCHES", "FIRST SUBJECT MATCHED"), rows, numbers=(2,))
    output.note("")
    counts = result.counts
    if result.summary.read:
        print_summary(result.summary)
        output.hint("most of that time is Spark's, which starts four streams; `make bench` measures throughput")
    else:
        output.note(f"nothing new: all {counts.read:,} messages were read before, and nothing was added")
    output.note("")
    output.well(f"{counts.notifications:,} notifications in all. What to do next:")
    here, tamis = folder.path, _own_name()
    for command, why in (
        (f"open {here / 'report.html'}", "the same in pictures, and what matched in each text"),
        (f"ls {here / 'outbox'}", "the notifications as e-mail"),
        (f"{tamis} query list --store {folder.store}", "the standing queries"),
        (f"{tamis} query add --store {folder.store} mine \"CONTAINS(body, 'linux')\"", "one of your own"),
        (f"{tamis} check {folder.config}", "try the configuration and its tests"),
        (f"{tamis} run {folder.config}", "as a service: put mail into the folder and watch"),
    ):
        output.note(f"  {command}")
        output.hint(f"    {why}")


def _own_name() -> str:
    """How to call this command from here: `tamis` where that finds it, else its path."""
    found, called = shutil.which("tamis"), Path(sys.argv[0])
    if found or called.name != "tamis":
        return "tamis"
    return os.path.relpath(called)
