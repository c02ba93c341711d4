"""Shows the progress of long work: a bar on a terminal, else one line at the beginning."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tamis.cli import output

PARTS_SHOWN_TOGETHER = 100
"""Number of parts between two updates of a count."""


@contextmanager
def progress_bar(title: str, total: int | None, *, shown: bool = True) -> Iterator[Callable[[int], object]]:
    """Show a bar; yield the function to call with the size of each part that is done.

    Args:
        title: what is being done.
        total: the sum of all parts; None if it is unknown.
        shown: whether it may be shown on a terminal.
    """
    if not shown or not output.has_colour(sys.stderr):
        if title:
            output.note(f"{title} ...")
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield _in_steps(lambda done: progress.advance(task, done), (total or 0) // 200)


@contextmanager
def progress_count(title: str) -> Iterator[Callable[[int], object]]:
    """Show a count, unless `title` is empty; yield the function to call with the size of each part that is done."""
    if not title or not output.has_colour(sys.stderr):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.completed:,}"),
        TextColumn("{task.fields[rate]:,.0f} a second"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None, rate=0.0)

        def show(done: int) -> None:
            shown = progress.tasks[0]
            rate = (shown.completed + done) / shown.elapsed if shown.elapsed else 0.0
            progress.update(task, advance=done, rate=rate)

        yield _in_steps(show, PARTS_SHOWN_TOGETHER)


def _in_steps(advance: Callable[[int], object], step: int) -> Callable[[int], object]:
    """Return a function that calls `advance` once per `step`: one call per line would cost more than the work."""
    waiting = 0

    def add(done: int) -> None:
        nonlocal waiting
        waiting += done
        if waiting >= step:
            advance(waiting)
            waiting = 0

    return add
