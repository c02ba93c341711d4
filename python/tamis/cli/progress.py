"""A bar for work that takes a while: on a terminal; elsewhere a line at its beginning."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tamis.cli import output


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
