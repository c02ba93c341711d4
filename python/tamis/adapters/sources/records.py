"""Reads files that hold many messages and grow at their end, and tracks how far each was read."""

from __future__ import annotations

import hashlib
import os
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Final

from tamis.adapters.mail.message import MESSAGE_BYTES_MAX
from tamis.adapters.options import FileOptions
from tamis.adapters.rows import RAW_KEPT_BYTES, Row
from tamis.adapters.sources.files import FileSource, open_file, status_of
from tamis.adapters.sources.folders import Listing
from tamis.adapters.sources.source import Offset, Range, Slice, offset_of, path_text, progress_of, slice_bytes
from tamis.errors import AdapterError

READ_BYTES: Final = 1 << 20

_MARK_BYTES: Final = 1024
_ACTIVE_NS: Final = 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes of one message in a file.

    Attributes:
        offset: where it begins, in bytes.
        content: its bytes; if it is too large, the first `RAW_KEPT_BYTES`.
        size_bytes: its size.
    """

    offset: int
    content: bytes
    size_bytes: int

    @property
    def is_whole(self) -> bool:
        """Whether `content` is the whole message."""
        return self.size_bytes == len(self.content)


@dataclass(frozen=True, slots=True)
class _Active:
    """The files of a folder that changed a short while ago or have something to read, when all were looked at."""

    listing: Listing
    paths: list[str]


class RecordSource(FileSource):
    """A source of files that hold many messages and grow at their end.

    Progress in a file is ``[bytes, mark]``: all messages before that byte have been read. `mark` is a digest of the
    first and last KiB before it, so that a file that was replaced, cut or edited is detected instead of being read from
    the middle of a message. It is looked at again whenever the file has changed, also if it has not grown.

    A file among several that cannot be read is ``[bytes, mark, problem]``: the problem is told once, as a dead letter,
    and the others are read. When the file can be read again, it goes on where it ended. So is a folder that cannot be
    listed, at byte 0.

    Files that have not changed for an hour are looked at when `Folders` lists their folder.
    """

    separator: ClassVar[bytes]
    """Begins with a line feed; messages begin after that, and at the beginning of the file."""

    def __init__(self, options: FileOptions) -> None:
        super().__init__(options)
        self._checked: dict[str, tuple[int, ...]] = {}  # path -> position, and the file's state when its mark was right
        self._active: dict[str, _Active] = {}  # by folder

    @abstractmethod
    def row(self, piece: Piece, path: str) -> Row | None:
        """The row of a message; None if there are only empty lines."""

    def latest(
        self, start: Offset, limit: int | None, *, ceiling: Offset | None = None, settled: bool = False
    ) -> Offset:
        """As `Source.latest`. Cost: as `Folders`, two system calls per file of what it listed and per file that changed
        within an hour, and with a limit a search through what is new."""
        self.check()
        progress = progress_of(start)
        bounds = None if ceiling is None else progress_of(ceiling)
        waiting = []
        problems: dict[str, str] = {}
        looks = list(self.folders.look(fresh=settled))
        for path in (looked := sorted(path for folder, one in looks for path in self._to_look_at(folder, one))):
            bound = None if bounds is None else bounds.get(path, [0])[0]
            try:
                if new := self._new(path, progress.get(path), bound, settled):
                    waiting.append(new)
            except AdapterError as error:
                if path == self.options.path:
                    raise
                problems[path] = str(error)
        self._remember(looks, looked, {new.path for new in waiting} | problems.keys())
        problems |= self.folders.problems
        for path in [path for path, place in progress.items() if place[2:] and path not in problems]:
            if path in looked:
                progress[path] = progress[path][:2]
            elif any(path == folder for folder, _ in looks):
                del progress[path]
        for path, problem in problems.items():
            progress[path] = [*progress.get(path, [0, ""])[:2], problem]
        if not waiting:
            return start if progress == progress_of(start) else offset_of(progress)
        for new in _allot(waiting, self.separator, limit):
            with open_file(new.path) as file:
                progress[new.path] = [new.end, _mark(file, new.end)]
        return offset_of(progress)

    def plan(self, start: Offset, end: Offset) -> list[Slice]:
        """As `Source.plan`: slices of equal size, one for each core."""
        before = progress_of(start)
        ranges: list[Range] = []
        lost: list[Range] = []
        for path, (position, mark, *problem) in progress_of(end).items():
            begin, *told = before.get(path, [0])
            if problem and problem != told[1:]:
                lost.append(Range(path, position, position, problem[0]))
            if begin < position:
                piece = self._checked_range(path, begin, position, mark)
                (ranges if piece.problem is None else lost).append(piece)
        total = sum(piece.end - piece.start for piece in ranges)
        return [*_slices(ranges, slice_bytes(total), self.separator), *(Slice((piece,)) for piece in lost)]

    def _checked_range(self, path: str, begin: int, position: int, mark: str) -> Range:
        """What is to be read of a file; with a problem if it was removed or replaced since it was seen."""
        try:
            with open_file(path) as file:
                _check_mark(file, path, position, mark)
        except AdapterError as error:
            if path == self.options.path:
                raise
            return Range(path, begin, position, f"bytes {begin:,} to {position:,} are lost: {error}")
        return Range(path, begin, position)

    def read(self, part: Slice) -> Iterator[Row]:
        """As `Source.read`. Memory: one message, at most 64 MiB."""
        for piece_range in part.ranges:
            if piece_range.problem is not None:
                yield self._lost(piece_range)
                continue
            with open_file(piece_range.path) as file:
                for piece in split(file, piece_range, self.separator):
                    row = self.row(piece, piece_range.path)
                    if row is not None:
                        yield row

    def _lost(self, piece: Range) -> Row:
        """The dead letter of what cannot be read."""
        reason = str(piece.problem)
        digest = hashlib.blake2b(reason.encode("utf-8", "replace"), digest_size=16).hexdigest()
        return Row(path_text(piece.path), piece.start, digest, self.options.topic, error=reason, raw=b"")

    def _to_look_at(self, folder: str, listing: Listing) -> list[str]:
        known = self._active.get(folder)
        if known is not None and known.listing is listing:
            return known.paths
        return [f"{folder}/{name}" for name in listing.files]

    def _remember(self, looks: list[tuple[str, Listing]], looked: list[str], news: set[str]) -> None:
        """Remember which files are to be looked at, until their folder is listed again."""
        active: dict[str, list[str]] = {folder: [] for folder, _ in looks}
        since_ns = time.time_ns() - _ACTIVE_NS
        for path in looked:
            if path in news or self._checked.get(path, (0,) * 5)[2] >= since_ns:
                active[path.rpartition("/")[0] or "/"].append(path)
        self._active = {folder: _Active(listing, active[folder]) for folder, listing in looks}

    def _new(self, path: str, progress: list[Any] | None, bound: int | None, settled: bool) -> Range | None:
        """The range of a file that is complete and has not been read."""
        position, mark = (progress or (0, ""))[:2]
        status = status_of(path)
        if status is None:
            return None  # it was removed since it was listed
        if status.st_size < position:
            raise AdapterError(_changed(path, f"it had {position:,} bytes and has {status.st_size:,}"))
        end = status.st_size if bound is None else min(bound, status.st_size)
        state = (position, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        if end <= position and self._checked.get(path) == state:
            return None
        with open_file(path) as file:
            _check_mark(file, path, position, mark)
            self._checked[path] = state
            if end > position and bound is None and not settled and not self._is_quiet(status):
                end = last_boundary(file, position, end, self.separator)
        return Range(path, position, end) if end > position else None

    def _is_quiet(self, status: os.stat_result) -> bool:
        age = time.time() - status.st_mtime
        return abs(age) >= self.settle_s  # a time in the future says nothing about the age


def split(file: BinaryIO, piece: Range, separator: bytes, limit_bytes: int = MESSAGE_BYTES_MAX) -> Iterator[Piece]:
    """The messages of a range, in order.

    Args:
        file: opened for reading.
        piece: the range.
        separator: begins a message; its first byte, a line feed, belongs to the message before.
        limit_bytes: of a longer message only the beginning is returned.

    Raises:
        AdapterError: the file is shorter than the range.

    Cost: linear. Memory: one message, at most twice `limit_bytes`.
    """
    file.seek(piece.start)
    left = piece.end - piece.start
    begin, kept, dropped = piece.start, b"", 0  # of the current message; `kept` if it is too large
    buffer, cursor, searched = b"", 0, 0
    while True:
        while (index := buffer.find(separator, searched)) >= 0:
            size = dropped + index + 1 - cursor
            yield Piece(begin, kept or buffer[cursor : index + 1], size)
            begin, kept, dropped = begin + size, b"", 0
            cursor = searched = index + 1
        if not left:
            break
        buffer, cursor = buffer[cursor:], 0
        if len(buffer) > limit_bytes + len(separator):  # the end may be half a separator, and not part of the message
            kept = kept or buffer[:RAW_KEPT_BYTES]
            dropped, buffer = dropped + len(buffer) - len(separator), buffer[-len(separator) :]
        searched = max(0, len(buffer) - len(separator) + 1)
        chunk = file.read(min(left, max(READ_BYTES, len(buffer))))  # doubled each time: linear in all
        if not chunk:
            raise AdapterError(_changed(piece.path, f"it ends {left:,} bytes before what is to be read"))
        left -= len(chunk)
        buffer += chunk
    if cursor < len(buffer):
        yield Piece(begin, kept or buffer[cursor:], dropped + len(buffer) - cursor)


def last_boundary(file: BinaryIO, start: int, end: int, separator: bytes) -> int:
    """The last position in ``start < byte <= end`` where a message begins or can begin; `start` if there is none."""
    high = end
    while high > start:
        low = max(start, high - READ_BYTES)
        file.seek(low)
        index = file.read(high - low).rfind(separator)
        if index >= 0:
            return low + index + 1
        high = low if low == start else low + len(separator) - 1
    return start


def next_boundary(file: BinaryIO, start: int, end: int, separator: bytes) -> int:
    """The first position from `start` on where a message begins; `end` if none begins before."""
    if start == 0:
        return 0
    low = start - 1
    while low < end:
        file.seek(low)
        index = file.read(READ_BYTES).find(separator)
        if index >= 0:
            return min(end, low + index + 1)
        low += READ_BYTES - len(separator) + 1
    return end


def _allot(waiting: list[Range], separator: bytes, limit: int | None) -> Iterator[Range]:
    """Cut what is new to `limit` messages. The files share the limit; what one does not use goes to the others."""
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
    """The end of the first `count` messages of a range, and the number of messages before it."""
    position, low, message_count = piece.start, piece.start, 0
    while low < piece.end:
        file.seek(low)
        chunk = file.read(min(READ_BYTES, piece.end - low))
        index = chunk.find(separator)
        while index >= 0:
            position, message_count = low + index + 1, message_count + 1
            if message_count == count:
                return position, count
            index = chunk.find(separator, index + 1)
        if low + len(chunk) >= piece.end or not chunk:
            break
        low += len(chunk) - len(separator) + 1
    return piece.end, message_count + (position < piece.end)


def _slices(ranges: Iterable[Range], size_bytes: int, separator: bytes) -> Iterator[Slice]:
    """Cut and combine ranges into slices of about `size_bytes`."""
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
        raise AdapterError(_changed(path, f"the bytes before byte {position:,} differ from those that were read"))


def _changed(path: str, what: str) -> str:
    return (
        f"{path_text(path)}: the file was replaced, cut or edited while it was read: {what}. "
        "Expected it only to grow. To read what it holds now, stop the pipeline, remove the folder of the adapter in "
        "'checkpoints', and start again: messages that are new are notified, those that stayed in their place are not"
    )
