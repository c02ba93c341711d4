"""Runs the demo: runs the pipeline of its folder once and writes the report of everything in its store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.demo.folder import DemoFolder
from tamis.report import RunFigures, write_report

if TYPE_CHECKING:
    from tamis.spark.progress import Progress, RunSummary
    from tamis.store import Counts, QueryMatches, Store


@dataclass(frozen=True)
class DemoResult:
    """The results of the demo.

    Attributes:
        summary: the summary of this run alone; a second run reads nothing.
        counts: the totals of the store.
        queries: every query with all its matches.
        report: the path of the page.
    """

    summary: RunSummary
    counts: Counts
    queries: list[QueryMatches]
    report: Path


def run_demo(folder: DemoFolder, progress: Callable[[Progress], None] | None = None) -> DemoResult:
    """Run the pipeline of `folder` once and write its report.

    Args:
        folder: the folder that `tamis.demo.lay_out` returned.
        progress: called while it runs.

    Raises:
        TamisError: see ``tamis.spark.pipeline.run_pipeline``.
        OSError: the report cannot be written.
    """
    from tamis.spark.pipeline import run_pipeline
    from tamis.store import Store

    summary = run_pipeline(folder.config, once=True, progress=progress)
    with Store.open(folder.store, create=False) as store:
        figures = _figures(summary)
        if figures is not None or not _is_current(folder.report, store):
            write_report(store, folder.report, figures)
        return DemoResult(summary, store.counts(), store.query_matches(), folder.report)


def _is_current(report: Path, store: Store) -> bool:
    """Return whether the page is newer than every notification. Then a run that read nothing keeps the page."""
    if not report.exists():
        return False
    newest = store.notifications(limit=1)
    return not newest or newest[0].created_at.timestamp() <= report.stat().st_mtime


def _figures(summary: RunSummary) -> RunFigures | None:
    if not summary.read:
        return None
    return RunFigures(summary.seconds, summary.messages_per_s, summary.match_us_p50, summary.match_us_p99)
