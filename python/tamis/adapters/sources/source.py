"""What every source of messages answers: how far a batch goes, its slices, and the rows of a slice.

No source knows Spark. It answers from the files and its arguments alone, so that a batch that is read again after a
crash is the same batch:

- `latest(start, limit)`: how far a batch from `start` goes.
- `plan(start, end)`: the slices of that range, which tasks read side by side.
- `read(slice)`: its rows.

An offset is JSON: ``{"version": 1, "places": {path: progress}}``. Each source defines what progress is."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tamis.adapters.options import SourceOptions
from tamis.adapters.rows import Row
from tamis.errors import AdapterError
from tamis.words import stop_words

Offset = dict[str, Any]

VERSION: Final = 1
SLICE_BYTES_MIN: Final = 256 << 10
"""Starting a task takes about 10 ms, and a task reads 5 MB per second: a smaller slice is not worth a task."""
SLICE_BYTES_MAX: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Range:
    """A piece of one file: the messages that begin in ``start <= byte < end``; the bounds are bounds of messages."""

    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Slice:
    """What one task reads."""

    ranges: tuple[Range, ...]


class Source(ABC):
    """A source of messages.

    Args:
        options: as `SourceOptions.of` checked them.
    """

    type: ClassVar[str]
    """The type of the adapter in pipeline.toml; with ``tamis.`` before it, the format in Spark."""
    pattern: ClassVar[str]
    """The names of the files that are read in a folder, when no option says so."""
    settle_ms: ClassVar[int]
    """How long a file must have been left alone, when no option says so."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        words = stop_words(options.stop_words)  # read in any case: a wrong list is an error whoever needs it
        self.signature_stop_words = words if options.signature else None

    @classmethod
    def format(cls) -> str:
        """The name of the source in Spark."""
        return f"tamis.{cls.type}"

    @abstractmethod
    def check(self) -> None:
        """See whether there is anything to read from.

        Raises:
            AdapterError: the path is missing or may not be read.
        """

    @abstractmethod
    def files(self) -> list[str]:
        """The paths of the files there are now, in order."""

    @abstractmethod
    def latest(
        self, start: Offset, limit: int | None, *, ceiling: Offset | None = None, settled: bool = False
    ) -> Offset:
        """How far a batch from `start` goes; `start` itself when there is nothing new.

        Args:
            start: where the batch begins.
            limit: the most messages; None is all there are.
            ceiling: go no further than this.
            settled: take the end of every file for the end of its last message, however young it is.

        Raises:
            AdapterError: what was read before is no longer there, or nothing can be read.
        """

    @abstractmethod
    def plan(self, start: Offset, end: Offset) -> list[Slice]:
        """The range in slices, in order.

        Raises:
            AdapterError: what is to be read is no longer there.
        """

    @abstractmethod
    def read(self, part: Slice) -> Iterator[Row]:
        """The rows of a slice, in order.

        Raises:
            AdapterError: what is to be read is no longer there.
        """

    @abstractmethod
    def wait_until_settled(self) -> None:
        """Wait until the youngest file has been left alone for long enough, at most for that long."""


def places_of(offset: Offset) -> dict[str, Any]:
    """The places of an offset.

    Raises:
        AdapterError: a later version wrote it.
    """
    if (version := offset.get("version", VERSION)) != VERSION:
        raise AdapterError(f"the checkpoint is of version {version}; expected version {VERSION}: use a newer tamis")
    return dict(offset.get("places", {}))


def offset_of(places: dict[str, Any]) -> Offset:
    """The offset with these places, always written in the same order."""
    return {"version": VERSION, "places": dict(sorted(places.items()))}


def slice_bytes(total_bytes: int) -> int:
    """How large slices should be, for a batch of so many bytes: one a core, within limits."""
    return min(SLICE_BYTES_MAX, max(SLICE_BYTES_MIN, total_bytes // (os.cpu_count() or 1) + 1))


def place_name(path: str) -> str:
    r"""A path as text: bytes in it that are no UTF-8 are written ``\xff``."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")
