"""Visits revisions of queries in any order, some of which stay in use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from tamis.spark.snapshots import Snapshot, Snapshots


def revisits(snapshots: Snapshots, asked: Iterable[tuple[int, bool]], count: int) -> Iterator[tuple[int, Snapshot]]:
    """Yield, at each visit, every snapshot that is in use with its revision: those in use are still what they were.

    Args:
        snapshots: of `count` revisions.
        asked: a number that chooses a revision, and whether it stays in use, for each visit.
        count: number of revisions.
    """
    with ExitStack() as stack:
        used = []
        for number, is_kept in asked:
            revision = number % count
            if is_kept:
                used.append((revision, stack.enter_context(snapshots.at(revision))))
            with snapshots.at(revision) as made:
                yield from (*used, (revision, made))
