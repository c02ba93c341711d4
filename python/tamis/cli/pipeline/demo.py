"""The command `tamis demo`, which shows tamis at work on real mail, in a new folder."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.pipeline.run import exit_code, print_summary

if TYPE_CHECKING:
    from tamis.demo import DemoFolder, DemoResult


def demo(
    folder: Annotated[Path, typer.Option(help="The folder for everything; another run continues there.")] = Path(
        "demo"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Progress and result as JSON lines on stdout.")] = False,
) -> int:
    """Match 600 real mails against 61 queries in every language, and write a report.

    The folder holds the mail, `pipeline.toml`, `queries.toml`, and afterwards `tamis.sqlite`, `outbox/` and
    `report.html`. A second run finds nothing new and adds nothing.
    """
    from tamis.cli.pipeline.run_display import display
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
    """Print the table of queries, the speed, and what to do next."""
    queries = sorted(result.queries, key=lambda query: -query.matches)
    rows = [(query.key, query.language, query.matches, query.first_subject) for query in queries]
    output.table(("QUERY", "LANGUAGE", "MATCHES", "FIRST SUBJECT MATCHED"), rows, numbers=(2,))
    output.note("")
    counts = result.counts
    if result.summary.read:
        print_summary(result.summary)
        output.hint("Spark takes most of that time to start four streams; `make bench` measures throughput")
    else:
        output.note(f"nothing new: all {counts.read:,} messages had been read before")
    output.note("")
    output.success(f"{counts.notifications:,} notifications in all. What to do next:")
    here, tamis = folder.path, _own_name()
    for command, why in (
        (f"open {here / 'report.html'}", "charts, and what matched in each text"),
        (f"ls {here / 'outbox'}", "the notifications as e-mail"),
        (f"{tamis} query list --store {folder.store}", "the standing queries"),
        (f"{tamis} query add --store {folder.store} mine \"CONTAINS(body, 'linux')\"", "add a query"),
        (f"{tamis} check {folder.config}", "check the configuration and run its tests"),
        (f"{tamis} run {folder.config}", "run it as a service, and put mail into the folder"),
    ):
        output.note(f"  {command}")
        output.hint(f"    {why}")


def _own_name() -> str:
    """Return how to call this command from here: `tamis` if that is found, else its path."""
    called = Path(sys.argv[0])
    if shutil.which("tamis") or called.name != "tamis":
        return "tamis"
    return os.path.relpath(called)
