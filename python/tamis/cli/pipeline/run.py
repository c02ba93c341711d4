"""The command `tamis run`, which runs the pipeline of a pipeline.toml, once or as a service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli import output
from tamis.cli.exit_codes import ERROR, INTERRUPTED, OK
from tamis.cli.options import DEFAULT_CONFIG

if TYPE_CHECKING:
    from tamis.config.pipeline import PipelineConfig
    from tamis.spark.progress import RunSummary


def run(
    config: Annotated[Path, typer.Argument(help="The pipeline's configuration.")] = DEFAULT_CONFIG,
    once: Annotated[bool, typer.Option("--once", help="Read everything that exists now, then stop.")] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Where Spark runs, such as spark://host:7077, instead of [spark].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Progress and summary as JSON lines on stdout.")] = False,
) -> int:
    """Read, match and deliver until Ctrl-C; a run continues where the last one ended.

    Exit code: 0 on success (also when Ctrl-C or SIGTERM stopped it), 2 when an adapter failed, 130 when `--once` was
    interrupted before its end.
    """
    from tamis.cli.pipeline.run_display import display
    from tamis.config.pipeline import PipelineConfig
    from tamis.spark.pipeline import run_pipeline

    warn_of_queries_elsewhere(PipelineConfig.load(config))  # and report mistakes before anything is started
    with display(as_json) as show:
        summary = run_pipeline(config, once=once, progress=show, master=master)
    if as_json:
        output.data_json({"event": "summary", **summary.to_dict()})
    else:
        print_summary(summary)
    return exit_code(summary, once)


def warn_of_queries_elsewhere(config: PipelineConfig) -> None:
    """Say which queries match although they stand in no file of the pipeline."""
    from tamis.config.apply import queries_elsewhere
    from tamis.store import Store
    from tamis.store_place import exists

    if not exists(config.store_path):
        return
    with Store.open(config.store_path) as store:
        elsewhere = queries_elsewhere(config, store)
    for file, count in elsewhere.items():
        there = f"empty the file and run: tamis query apply {file}" if Path(file).exists() else "tamis query remove KEY"
        output.warning(
            f"{output.counted(count, 'query', 'queries')} from {file} still match, and {config.path} does not name "
            f"that file; to end them: {there}"
        )


def exit_code(summary: RunSummary, once: bool) -> int:
    """Return the exit code of a run."""
    if summary.failed:
        return ERROR
    return INTERRUPTED if once and summary.stopped_by else OK


def print_summary(summary: RunSummary) -> None:
    """Print a summary of the run on stderr."""
    ended = f"stopped by {summary.stopped_by}" if summary.stopped_by else "done"
    unmatched = summary.read - summary.matched - summary.dead
    dead = output.counted(summary.dead, "dead letter", "dead letters")
    output.note(
        f"{ended}: {summary.read:,} read = {summary.matched:,} matched + {unmatched:,} not matched + {dead}, "
        f"in {summary.seconds:.1f} s ({summary.messages_per_s:,.0f} messages per second)"
    )
    output.note(
        f"{output.counted(summary.notifications, 'new notification', 'new notifications')}, "
        f"{output.counted(summary.delivered, 'delivery', 'deliveries')} made{_several(summary)}{_undelivered(summary)}"
    )
    if summary.match_us_p50 is not None and summary.match_us_p99 is not None:
        output.note(f"match time: p50 {summary.match_us_p50:,.1f} us, p99 {summary.match_us_p99:,.1f} us per message")
    for name, trouble in summary.troubles.items():
        output.note(f"delivery '{name}' cannot be used now: {trouble}")
    for name, reason in summary.failed.items():
        output.error(f"adapter '{name}' failed: {reason}")


def _several(summary: RunSummary) -> str:
    """Say why there are more deliveries than notifications."""
    return " (some notifications go several ways)" if summary.delivered > summary.notifications > 0 else ""


def _undelivered(summary: RunSummary) -> str:
    waiting = f", {summary.pending:,} waiting" if summary.pending else ""
    return waiting + (f", {summary.given_up:,} given up" if summary.given_up else "")
