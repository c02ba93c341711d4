"""What the sources share: which files there are, how far each has been read, and how a range is cut for Spark's tasks.

Nothing here knows Spark. A source is asked three things, and answers from the files and its arguments alone, so that a
batch that is read again after a crash is the same batch:

- `latest(start, limit)`: how far a batch from `start` goes.
- `plan(start, end)`: the slices of that range, which tasks read side by side.
- `read(slice)`: its rows.

An offset is JSON: ``{"version": 1, "places": {path: progress}}``. What progress is, the source says."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final

from tamis.adapters.mail import MESSAGE_BYTES_MAX
from tamis.adapters.options import SourceOptions
from tamis.adapters.rows import RAW_KEPT_BYTES, Row, mail_row
from tamis.errors import AdapterError
from tamis.words import stop_words

Offset = dict[str, Any]

VERSION: Final = 1
SLICE_BYTES_MIN: Final = 256 << 10
"""Starting a task costs 10 ms or so, and a task reads 5 MB a second: less than this is not worth one."""
SLICE_BYTES_MAX: Final = 8 << 20
READ_BYTES: Final = 1 << 20

_GLOB = re.compile(r"[*?\[]")
_IGNORED_SUFFIXES: Final = ("~", ".tmp", ".part", ".lock", ".swp")
_MARK_BYTES: Final = 1024
_OF_FEW: Final = ("source", "body_field", "topic_field", "starting_offset", "query_body")


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


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes of one message in a file.

    Attributes:
        offset: where it begins, in bytes.
        content: its bytes; of one that is too large, the first `RAW_KEPT_BYTES`.
        size_bytes: how many bytes it has.
    """

    offset: int
    content: bytes
    size_bytes: int

    @property
    def is_whole(self) -> bool:
        """Whether it is small enough to be read."""
        return self.size_bytes == len(self.content)


class Source(ABC):
    """A source of messages in files.

    Args:
        options: as `SourceOptions.of` checked them.
    """

    format: ClassVar[str]
    """The name in Spark and, without ``tamis.``, in pipeline.toml."""
    pattern: ClassVar[str]
    """The names of the files that are read in a folder, when no option says so."""
    settle_ms: ClassVar[int]
    """How long a file must have been left alone, when no option says so."""
    own_options: ClassVar[frozenset[str]] = frozenset({"source"})
    """The options that not every source has."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.stop_words = stop_words(options.stop_words)
        self.settle_s = (self.settle_ms if options.settle_ms is None else options.settle_ms) / 1000

    @classmethod
    def has_option(cls, name: str) -> bool:
        """Whether the source knows the option `name`."""
        return name in cls.own_options or name not in _OF_FEW

    def check(self) -> None:
        """See whether there is anything to read from.

        Raises:
            AdapterError: the path is missing or may not be read.
        """
        path = self.options.path
        folder = _fixed_part(path) if _GLOB.search(path) else path
        if not os.path.exists(folder):  # noqa: PTH110 - one system call, in a loop of polls
            raise AdapterError(f"{folder}: no such file or folder; expected mail or data to read there")
        if not os.path.isdir(folder) and not os.path.isfile(folder):  # noqa: PTH112, PTH113
            raise AdapterError(f"{folder}: expected a file or a folder; it is a pipe or a device")
        if not os.access(folder, os.R_OK | (os.X_OK if os.path.isdir(folder) else 0)):  # noqa: PTH112
            raise AdapterError(f"{folder}: may not be read by this user; change its permissions, or the user")

    def files(self) -> list[str]:
        """The paths of the files there are now, by name."""
        return sorted(self._walk())

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

    def wait_until_settled(self) -> None:
        """Wait until the youngest file has been left alone for long enough, at most for that long."""
        statuses = (status_of(path) for path in self._walk())
        youngest = max((max(status.st_mtime, status.st_ctime) for status in statuses if status), default=0.0)
        time.sleep(min(self.settle_s, max(0.0, youngest + self.settle_s - time.time())))

    def _walk(self) -> Iterator[str]:
        path = self.options.path
        if _GLOB.search(path):
            yield from (found for found in glob.iglob(path, recursive=True) if os.path.isfile(found))  # noqa: PTH113, PTH207
        elif os.path.isdir(path):  # noqa: PTH112
            yield from self._walk_folder(path)
        else:
            self.check()
            yield path

    def _walk_folder(self, folder: str) -> Iterator[str]:
        """Files below `folder` with names that are wanted; links to folders are not followed, for they may go round."""
        pattern = self.options.pattern or self.pattern
        for place, folders, names in os.walk(folder, onerror=_refuse_folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in names:
                wanted = not name.startswith(".") and not name.endswith(_IGNORED_SUFFIXES)
                if wanted and fnmatch.fnmatch(name, pattern):
                    yield f"{place}/{name}"

    def _mail_row(self, raw: bytes, path: str, offset: int, source: str) -> Row:
        source = self.options.source if self.options.source is not None else source
        topic = self.options.topic
        place = place_name(path)
        return mail_row(raw, place, offset, topic=topic, source=place_name(source), stop_words=self.stop_words)


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


class RecordSource(Source):
    """A source of files that hold many messages and grow at their end.

    Progress in a file is ``[bytes, mark]``: all messages before that byte have been read, and `mark` is a digest of the
    first and last KiB before it, so that a file that was replaced, cut or edited is noticed instead of read from the
    middle of some message.
    """

    separator: ClassVar[bytes]
    """Begins with a line feed; a message begins after that, and at the beginning of the file."""

    @abstractmethod
    def row(self, piece: Piece, path: str) -> Row | None:
        """The row of a message; None when there is nothing there but empty lines."""

    def latest(
        self, start: Offset, limit: int | None, *, ceiling: Offset | None = None, settled: bool = False
    ) -> Offset:
        """As `Source.latest`. Cost: two system calls a file, and with a limit a search through what is new."""
        self.check()
        places = places_of(start)
        bounds = None if ceiling is None else places_of(ceiling)
        waiting = []
        for path in self.files():
            bound = None if bounds is None else bounds.get(path, [0])[0]
            if new := self._new(path, places.get(path), bound, settled):
                waiting.append(new)
        if not waiting:
            return start
        for new in _allot(waiting, self.separator, limit):
            with open_file(new.path) as file:
                places[new.path] = [new.end, _mark(file, new.end)]
        return offset_of(places)

    def plan(self, start: Offset, end: Offset) -> list[Slice]:
        """As `Source.plan`: slices of equal size, so that every core has one."""
        before = places_of(start)
        ranges = []
        for path, (position, mark) in places_of(end).items():
            begin = before.get(path, [0])[0]
            if begin < position:
                with open_file(path) as file:
                    _check_mark(file, path, position, mark)
                ranges.append(Range(path, begin, position))
        total = sum(piece.end - piece.start for piece in ranges)
        return list(_slices(ranges, slice_bytes(total), self.separator))

    def read(self, part: Slice) -> Iterator[Row]:
        """As `Source.read`. Memory: one message, at most 64 MiB."""
        for piece_range in part.ranges:
            with open_file(piece_range.path) as file:
                for piece in split(file, piece_range, self.separator):
                    row = self.row(piece, piece_range.path)
                    if row is not None:
                        yield row

    def _new(self, path: str, progress: list[Any] | None, bound: int | None, settled: bool) -> Range | None:
        """What of a file has not been read yet and is complete."""
        position, mark = progress or (0, "")
        status = status_of(path)
        if status is None:
            return None  # removed since it was listed
        if status.st_size < position:
            raise AdapterError(_changed(path, f"it had {position:,} bytes and has {status.st_size:,}"))
        end = status.st_size if bound is None else min(bound, status.st_size)
        if end <= position:
            return None
        with open_file(path) as file:
            _check_mark(file, path, position, mark)
            if bound is None and not settled and not self._is_quiet(status):
                end = last_boundary(file, position, end, self.separator)
        return Range(path, position, end) if end > position else None

    def _is_quiet(self, status: os.stat_result) -> bool:
        age = time.time() - status.st_mtime
        return abs(age) >= self.settle_s  # a time in the future says nothing about now


def split(file: BinaryIO, piece: Range, separator: bytes, limit_bytes: int = MESSAGE_BYTES_MAX) -> Iterator[Piece]:
    """The messages of a range, in order.

    Args:
        file: opened for reading.
        piece: the range.
        separator: what begins a message, after a line feed that belongs to the one before.
        limit_bytes: of a longer message only the beginning is given.

    Raises:
        AdapterError: the file is shorter than the range.

    Cost: linear. Memory: one message, at most twice `limit_bytes`.
    """
    file.seek(piece.start)
    left = piece.end - piece.start
    begin, kept, dropped = piece.start, b"", 0  # of the message that is being read; `kept` when it is too large
    buffer, cursor, searched = b"", 0, 0
    while True:
        while (found := buffer.find(separator, searched)) >= 0:
            size = dropped + found + 1 - cursor
            yield Piece(begin, kept or buffer[cursor : found + 1], size)
            begin, kept, dropped = begin + size, b"", 0
            cursor = searched = found + 1
        if not left:
            break
        buffer, cursor = buffer[cursor:], 0
        if len(buffer) > limit_bytes + len(separator):  # the end may be half a separator, and no part of the message
            kept = kept or buffer[:RAW_KEPT_BYTES]
            dropped, buffer = dropped + len(buffer) - len(separator), buffer[-len(separator) :]
        searched = max(0, len(buffer) - len(separator) + 1)
        chunk = file.read(min(left, max(READ_BYTES, len(buffer))))  # twice as much each time: linear in all
        if not chunk:
            raise AdapterError(_changed(piece.path, f"it ends {left:,} bytes before what is to be read"))
        left -= len(chunk)
        buffer += chunk
    if cursor < len(buffer):
        yield Piece(begin, kept or buffer[cursor:], dropped + len(buffer) - cursor)


def last_boundary(file: BinaryIO, start: int, end: int, separator: bytes) -> int:
    """The last place in ``start < byte <= end`` where a message begins, or can begin; `start` when there is none."""
    high = end
    while high > start:
        low = max(start, high - READ_BYTES)
        file.seek(low)
        found = file.read(high - low).rfind(separator)
        if found >= 0:
            return low + found + 1
        high = low if low == start else low + len(separator) - 1
    return start


def next_boundary(file: BinaryIO, start: int, end: int, separator: bytes) -> int:
    """The first place from `start` on where a message begins; `end` when none does before."""
    if start == 0:
        return 0
    low = start - 1
    while low < end:
        file.seek(low)
        found = file.read(READ_BYTES).find(separator)
        if found >= 0:
            return min(end, low + found + 1)
        low += READ_BYTES - len(separator) + 1
    return end


def _allot(waiting: list[Range], separator: bytes, limit: int | None) -> Iterator[Range]:
    """Cut what is new to `limit` messages: the files share it, and what one leaves goes to the others."""
    if limit is None:
        yield from waiting
        return
    left = limit
    ordered = sorted(waiting, key=lambda new: new.end - new.start)
    for index, new in enumerate(ordered):
        if left == 0:
            return
        share = max(1, left // (len(ordered) - index))
        with open_file(new.path) as file:
            end, count = _nth_boundary(file, new, separator, share)
        left -= count
        yield Range(new.path, new.start, end)


def _nth_boundary(file: BinaryIO, piece: Range, separator: bytes, count: int) -> tuple[int, int]:
    """Where the first `count` messages of a range end, and how many there are up to there."""
    position, low, found_count = piece.start, piece.start, 0
    while low < piece.end:
        file.seek(low)
        chunk = file.read(min(READ_BYTES, piece.end - low))
        found = chunk.find(separator)
        while found >= 0:
            position, found_count = low + found + 1, found_count + 1
            if found_count == count:
                return position, count
            found = chunk.find(separator, found + 1)
        if low + len(chunk) >= piece.end or not chunk:
            break
        low += len(chunk) - len(separator) + 1
    return piece.end, found_count + (position < piece.end)


def slice_bytes(total_bytes: int) -> int:
    """How large slices should be, for a batch of so many bytes: one a core, within limits."""
    return min(SLICE_BYTES_MAX, max(SLICE_BYTES_MIN, total_bytes // (os.cpu_count() or 1) + 1))


def _slices(ranges: Iterable[Range], size_bytes: int, separator: bytes) -> Iterator[Slice]:
    """Ranges cut and put together to slices of about `size_bytes`."""
    waiting: list[Range] = []
    room = size_bytes
    for piece in ranges:
        start = piece.start
        while start < piece.end:
            end = piece.end
            if end - start > room:
                with open_file(piece.path) as file:
                    end = next_boundary(file, start + room, piece.end, separator)
            waiting.append(Range(piece.path, start, end))
            room -= end - start
            start = end
            if room <= 0:
                yield Slice(tuple(waiting))
                waiting, room = [], size_bytes
    if waiting:
        yield Slice(tuple(waiting))


def _mark(file: BinaryIO, position: int) -> str:
    """A digest of the first and the last KiB before `position`."""
    file.seek(0)
    head = file.read(min(_MARK_BYTES, position))
    file.seek(max(0, position - _MARK_BYTES))
    tail = file.read(min(_MARK_BYTES, position))
    return hashlib.blake2b(head + tail, digest_size=8).hexdigest()


def _check_mark(file: BinaryIO, path: str, position: int, mark: str) -> None:
    if position and _mark(file, position) != mark:
        raise AdapterError(_changed(path, f"other bytes than those that were read stand before byte {position:,}"))


def _changed(path: str, what: str) -> str:
    return (
        f"{place_name(path)}: the file was replaced, cut or edited while it was read: {what}. "
        "Expected it only to grow. To read it as a new file, give it another name, or remove the adapter's checkpoint"
    )


def status_of(path: str) -> os.stat_result | None:
    """What the system knows of a file; None when it has gone since it was listed, or is a pipe or a device.

    Raises:
        AdapterError: the system does not tell.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - once a file a poll
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AdapterError(f"{place_name(path)}: cannot be read: {error.strerror}") from error
    return status if stat.S_ISREG(status.st_mode) else None


def place_name(path: str) -> str:
    r"""A path as text: bytes in it that are no UTF-8 are written ``\xff``."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def _refuse_folder(error: OSError) -> None:
    """What `os.walk` would pass over in silence; only a folder that has just been removed is none."""
    if not isinstance(error, FileNotFoundError):
        raise AdapterError(f"{place_name(str(error.filename))}: cannot be read: {error.strerror}") from error


def open_file(path: str) -> BinaryIO:
    """The file, opened for reading.

    Raises:
        AdapterError: it cannot be.
    """
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise AdapterError(f"{place_name(path)}: cannot be read: {error.strerror}") from error


def _fixed_part(path: str) -> str:
    """The folder of a glob before its first wildcard."""
    return path[: _GLOB.search(path).start()].rpartition("/")[0] or "/"  # type: ignore[union-attr]
