"""Reads a live source batch by batch, as Spark does, with a clock of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tamis.adapters.rows import Row
from tamis.adapters.sources.live.source import LiveOptions, LiveSource
from tamis.adapters.sources.source import Offset
from tests.adapters.reading import BEGINNING, between


class Reader:
    """One source with its spool."""

    def __init__(self, kind: type[LiveSource], folder: Path, **options: Any) -> None:
        self.kind = kind
        self.options: LiveOptions = kind.Options(topic="news", spool=str(folder / "spool"), **options)  # type: ignore[assignment]
        self.now = 1_700_000_000.0
        self.at: Offset = BEGINNING
        self.open()

    def open(self) -> None:
        self.source = self.kind(self.options)
        self.source._clock = lambda: self.now

    def restart(self) -> None:
        self.source.close()
        self.open()

    def next(self, limit: int | None = None) -> list[Row]:
        end = self.source.latest(self.at, limit)
        rows = between(self.source, self.at, end)
        self.at = end
        return rows

    def at_least(self, count: int) -> list[Row]:
        """Return the next rows, once there are `count` or half a minute has passed."""
        rows: list[Row] = []
        until = time.monotonic() + 30
        while len(rows) < count and time.monotonic() < until:
            rows += self.later(1)
        return rows

    def later(self, seconds: float = 900) -> list[Row]:
        self.now += seconds
        return self.next()


@contextmanager
def readers(kind: type[LiveSource], folder: Path) -> Iterator[Callable[..., Reader]]:
    """A function that makes readers of sources of a kind, which are closed in the end."""
    made: list[Reader] = []

    def make(**options: Any) -> Reader:
        made.append(Reader(kind, folder / str(len(made)), **options))
        return made[-1]

    yield make
    for one in made:
        one.source.close()
