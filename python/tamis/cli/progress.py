"""A bar for work that takes a while: on a terminal; elsewhere a line at its beginning."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tamis.cli import output

PARTS_SHOWN_TOGETHER = 100


@contextmanager
def progress_bar(title: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """What to call with each part that is done.

    Args:
        title: what is being done.
        total: the sum of all parts; None when nobody knows.
    """
    if not output.has_colour(sys.stderr):
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
    """What to call with each part that is done, where nobody knows how many there are. An empty title shows nothing."""
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
    """Call `advance` for so much at a time: for each of a million lines it would cost more than the work."""
    waiting = 0

    def add(done: int) -> None:
        nonlocal waiting
        waiting += done
        if waiting >= step:
            advance(waiting)
            waiting = 0

    return add
