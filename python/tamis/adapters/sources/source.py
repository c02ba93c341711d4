"""Defines a source of messages: it says where a batch ends, cuts it into slices, and reads the rows of a slice.

No source knows Spark. Its results depend only on the files and its arguments, so that a batch that is read again after
a crash is the same batch:

- `latest(start, limit)`: the end of a batch from `start`.
- `plan(start, end)`: the slices of that range, which tasks read in parallel.
- `read(slice)`: the rows of a slice.

An offset is JSON: ``{"version": 1, "places": {path: progress}}``. Each source defines what progress is."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from tamis.adapters.options import PropertyOptions, SourceOptions
from tamis.adapters.properties import Property, check_topic_field, with_further_names
from tamis.adapters.rows import Row, new_names
from tamis.errors import AdapterError
from tamis.words import stop_words

Offset = dict[str, Any]

VERSION: Final = 1
SLICE_BYTES_MIN: Final = 256 << 10
"""Starting a task takes about 10 ms, and a task reads 5 MB per second: a smaller slice is not worth a task."""
SLICE_BYTES_MAX: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Range:
    """A range of one file: the messages that begin in ``start <= byte < end``, which are boundaries of messages.

    With a `problem` it is what cannot be read, and becomes one dead letter. With a `mark`, a position and a digest of
    what is before it, the file is known again under another name.
    """

    path: str
    start: int
    end: int
    problem: str | None = None
    mark: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """The ranges that one task reads."""

    ranges: tuple[Range, ...]


class Source(ABC):
    """A source of messages.

    Args:
        options: the options, as `SourceOptions.of` returned them.

    Attributes:
        table: `properties`, with the further names of the option `fields`.

    Raises:
        AdapterError: an option names a property that there never is, or a list of words that cannot be read.
    """

    options: SourceOptions
    Options: ClassVar[type[SourceOptions]] = SourceOptions
    """The class of its options."""
    properties: ClassVar[tuple[Property, ...] | Literal["json", "variant"]] = "json"
    """The table of its properties; or ``json`` (text) or ``variant``, with any names. See `table`."""
    streams: ClassVar[bool] = False
    """Whether its rows have the columns of streams."""
    poll_interval_ms: ClassVar[int] = 1_000
    """The default time between two looks for new messages."""
    unit: ClassVar[str] = "bytes"
    """The unit of `behind`."""
    type: ClassVar[str]
    """The type of the adapter in pipeline.toml; with ``tamis.`` before it, the format in Spark."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        words = stop_words(options.stop_words)  # read in any case: a wrong list is an error even if it is not used
        self.signature_stop_words = words if options.signature else None
        self.table: tuple[Property, ...] | Literal["json", "variant"] = self.properties
        if isinstance(options, PropertyOptions):
            names = new_names(options.fields)
            if not isinstance(self.properties, str):
                check_topic_field(self.properties, options.topic_field)
                self.table = with_further_names(self.properties, names)

    @classmethod
    def format(cls) -> str:
        """Return the name of the source in Spark."""
        return f"tamis.{cls.type}"

    @abstractmethod
    def check(self) -> None:
        """Check that there is something to read from.

        Raises:
            AdapterError: the path is missing or may not be read.
        """

    def files(self) -> list[str]:
        """Return the paths of the files there are now, in order; none if it does not read files."""
        return []

    def sample(self, count: int) -> Iterator[Row]:
        """Yield about `count` messages, for a test; what is read next does not change.

        Raises:
            AdapterError: it cannot be read.
        """
        start = offset_of({})
        for part in self.plan(start, self.latest(start, count, settled=True)):
            yield from self.read(part)

    def behind(self, start: Offset) -> int:
        """Return how much comes after `start`, in `unit`. It changes nothing, and asks no server.

        Raises:
            AdapterError: it cannot be read.
        """
        slices = self.plan(start, self.latest(start, None, settled=True))
        return sum(part.end - part.start for one in slices for part in one.ranges)

    @abstractmethod
    def latest(
        self, start: Offset, limit: int | None, *, ceiling: Offset | None = None, settled: bool = False
    ) -> Offset:
        """Return the end of a batch from `start`; `start` itself if there is nothing new.

        Args:
            start: where the batch begins; everything before it has been processed, and is not read again.
            limit: maximum number of messages; None for all. With a limit, `max_bytes` of the options holds as well.
            ceiling: the batch does not go beyond this.
            settled: the end of every file is the end of its last message, however young the file is.

        Raises:
            AdapterError: what was read before no longer exists, or nothing can be read.
        """

    @abstractmethod
    def plan(self, start: Offset, end: Offset) -> list[Slice]:
        """Return the slices of a range, in order.

        Raises:
            AdapterError: what is to be read no longer exists.
        """

    @abstractmethod
    def read(self, part: Slice) -> Iterator[Row]:
        """Return the rows of a slice, in order.

        Raises:
            AdapterError: what is to be read no longer exists.
        """

    def wait_until_settled(self) -> None:  # noqa: B027 - most have nothing to wait for
        """Wait until what is being written is complete, if that is a matter of time."""


def progress_of(offset: Offset) -> dict[str, Any]:
    """Return the progress in each path of an offset.

    Raises:
        AdapterError: a newer version wrote it.
    """
    if (version := offset.get("version", VERSION)) != VERSION:
        raise AdapterError(f"the checkpoint is of version {version}; expected version {VERSION}: use a newer tamis")
    return dict(offset.get("places", {}))


def offset_of(progress: dict[str, Any]) -> Offset:
    """Return the offset with this progress in each path, always in the same order."""
    return {"version": VERSION, "places": dict(sorted(progress.items()))}


def slice_bytes(total_bytes: int) -> int:
    """Return the size of the slices of a batch of `total_bytes`: one slice per core, within limits."""
    return min(SLICE_BYTES_MAX, max(SLICE_BYTES_MIN, total_bytes // (os.cpu_count() or 1) + 1))


def path_text(path: str) -> str:
    r"""Return a path as text: bytes that are not UTF-8 are written ``\xff``."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")
