"""Shows the progress of a run: a live panel on a terminal, lines in a log, or JSON for machines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING

from tamis.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from tamis.spark.progress import Progress

LINE_INTERVAL_S = 2.0
"""Time between two lines where there is no terminal."""

OnProgress = Callable[["Progress"], None]

_SIGNS = {"running": "●", "finished": "✓", "paused": "‖", "stopped": "■", "failed": "✗"}
_STYLES = {"running": "cyan", "finished": "green", "paused": "yellow", "stopped": "yellow", "failed": "red"}


def display(as_json: bool, total: int | None = None) -> AbstractContextManager[OnProgress]:
    """Show a run; the context's value is called with each `Progress`.

    Args:
        as_json: print JSON lines on stdout.
        total: the number of messages, for a bar; None if it is unknown.
    """
    if as_json:
        return _json_lines()
    if output.has_colour(sys.stderr):
        return _live(total)
    return _lines(total)


@contextmanager
def _json_lines() -> Iterator[OnProgress]:
    def show(progress: Progress) -> None:
        output.data_json({"event": "progress", **asdict(progress)})
        sys.stdout.flush()

    yield show


@contextmanager
def _lines(total: int | None) -> Iterator[OnProgress]:
    """Print a line at the start, every two seconds if something has changed, and at the end."""
    shown_at, shown, latest = monotonic(), None, None
    output.note("starting Spark ...")

    def show(progress: Progress) -> None:
        nonlocal shown_at, shown, latest
        latest = _sentence(progress, total)
        if monotonic() - shown_at >= LINE_INTERVAL_S and latest != shown:
            shown_at, shown = monotonic(), latest
            output.note(latest)

    yield show
    if latest is not None and latest != shown:
        output.note(latest)


def _sentence(progress: Progress, total: int | None) -> str:
    states = ", ".join(f"{name} {state}" for name, state in progress.states.items())
    of = f" of {total:,}" if total else ""
    return (
        f"{progress.read:,}{of} read, {progress.matched:,} matched, {progress.notifications:,} notifications, "
        f"{progress.dead:,} dead, {progress.delivered:,} delivered; "
        f"{progress.rate:,.0f}/s, lag {progress.lag_s:.1f} s; {states}"
    )


@contextmanager
def _live(total: int | None) -> Iterator[OnProgress]:
    """Show a panel that is drawn ten times per second, also while Spark starts."""
    from rich.console import Console
    from rich.live import Live

    panel = _Panel(total)
    with Live(panel, console=Console(stderr=True), refresh_per_second=10, transient=True):

        def show(progress: Progress) -> None:
            panel.progress = progress

        yield show


class _Panel:
    """The live panel: `progress` is set from outside, and rich draws it."""

    def __init__(self, total: int | None) -> None:
        from rich.spinner import Spinner

        self.progress: Progress | None = None
        self._total = total
        self._spinner = Spinner("dots", style="cyan")
        self._began = monotonic()

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        progress = self.progress
        if progress is None:
            self._spinner.update(text=f"starting Spark ... {monotonic() - self._began:.0f} s")
            return self._spinner
        going = "running" in progress.states.values()
        self._spinner.update(text="reading and matching" if going else "finishing deliveries, then stopping Spark")
        return Group(self._spinner, *self._bar(progress), _counts(progress), _adapters(progress))

    def _bar(self, progress: Progress) -> list[RenderableType]:
        """Return a bar of what has been read, if the total is known."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        if not self._total:
            return []
        row = Table.grid()  # a bar alone does not end its line
        row.add_row(ProgressBar(total=self._total, completed=progress.read, width=72))
        return [row]


def _counts(progress: Progress) -> RenderableType:
    """Return the counts in one row, with their names below."""
    from rich.table import Table

    names = ("read", "matched", "notifications", "dead", "delivered", "messages/s", "lag")
    values = (progress.read, progress.matched, progress.notifications, progress.dead, progress.delivered)
    shown = [*(f"{value:,}" for value in values), f"{progress.rate:,.0f}", f"{progress.lag_s:.1f} s"]
    table = Table.grid(padding=(0, 3))
    for _ in names:
        table.add_column(justify="right")
    table.add_row(*shown, style="bold")
    table.add_row(*names, style="dim")
    return table


def _adapters(progress: Progress) -> RenderableType:
    from rich.text import Text

    line = Text()
    for name, state in progress.states.items():
        line.append(f"{_SIGNS.get(state, '?')} ", _STYLES.get(state, ""))
        line.append(f"{name} {state}   ")
    return line
