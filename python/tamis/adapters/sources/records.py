"""Reads files that hold many messages and grow at their end, and tracks how far each was read."""

from __future__ import annotations

import hashlib
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Final

from tamis.adapters.mail.message import MESSAGE_BYTES_MAX
from tamis.adapters.options import FileOptions
from tamis.adapters.rows import RAW_KEPT_BYTES, Row
from tamis.adapters.sources.files import FileSource, open_file, status_of
from tamis.adapters.sources.folders import Listing
from tamis.adapters.sources.rotation import Place, base_of, changed_ns, mark_of, turns, unread
from tamis.adapters.sources.source import Offset, Range, Slice, offset_of, path_text, progress_of, slice_bytes
from tamis.errors import AdapterError

READ_BYTES: Final = 1 << 20

COPY_S: Final = 60.0
"""The time for which a file waits that begins as another that was read: it is probably the copy of a rotation."""

_ACTIVE_NS: Final = 3_600_000_000_000
_TICK_NS: Final = 2_000_000_000
"""A folder that changed within this time may change again without another time of change."""

Progress = dict[str, list[Any]]
"""Path -> a `Place` as the checkpoint keeps it: a place is made only of what is looked at."""


@dataclass(frozen=True, slots=True)
class Record:
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

    Progress in a file is a `Place`. Its mark detects a file that was replaced, cut or edited, instead of reading it
    from the middle of a message. It is looked at again whenever the file has changed, also if it has not grown.

    If the file of the mark now has another name of a rotation, its place goes there, and the file that has taken its
    name is read from its beginning.

    A file among several that cannot be read has a problem, which is told once, as a dead letter, and the others are
    read. When the file can be read again, it goes on where it ended. So is a folder that cannot be listed, at byte 0.

    Files that have not changed for an hour are looked at when `Folders` lists their folder.
    """

    separator: ClassVar[bytes]
    """Begins with a line feed; messages begin after that, and at the beginning of the file."""

    def __init__(self, options: FileOptions) -> None:
        super().__init__(options)
        self._checked: dict[str, tuple[int, ...]] = {}  # path -> position, and the file's state when its mark was right
        self._active: dict[str, _Active] = {}  # by folder
        self._searched: dict[str, int] = {}  # path -> when its folder had changed, when other names were looked for

    @abstractmethod
    def row(self, piece: Record, path: str) -> Row | None:
        """Return the row of a message; None if there are only empty lines."""

    def ends_whole(self, file: BinaryIO, start: int, end: int) -> bool:
        """Return whether the last message of a file that is no longer written is complete, judging by its text."""
        del file, start, end
        return True

    def latest(
        self, start: Offset, limit: int | None, *, ceiling: Offset | None = None, settled: bool = False
    ) -> Offset:
        """Implement `Source.latest`.

        Cost: as `Folders`; two system calls per listed file and per file that changed within an hour; with a limit, a
        search through what is new.
        """
        self.check()
        progress = progress_of(start)
        bounds = None if ceiling is None else progress_of(ceiling)
        looks = list(self.folders.look(fresh=settled))
        listed = {path for folder, one in looks for path in self._to_look_at(folder, one, progress)}
        moved = self._follow(progress, listed)
        looked = sorted(listed | moved)
        waiting: list[Range] = []
        problems: dict[str, str] = {}
        for path in looked:
            bound = None if bounds is None else _place(bounds, path)
            try:
                if new := self._new(path, _place(progress, path), bound, settled):
                    waiting.append(new)
            except AdapterError as error:
                if path == self.options.path:
                    raise
                problems[path] = str(error)
        self._remember(looks, looked, {new.path for new in waiting} | problems.keys())
        problems |= self.folders.problems
        for path in [
            path for path, place in progress.items() if place[2:3] not in ([], [None]) and path not in problems
        ]:
            if path in looked:
                progress[path] = _place(progress, path)._replace(problem=None).plain()
            elif any(path == folder for folder, _ in looks):
                del progress[path]
        for path, problem in problems.items():
            progress[path] = _place(progress, path)._replace(problem=problem).plain()
        for new in waiting if limit is None else _allot(waiting, self.separator, limit, self.options.max_bytes):
            with open_file(new.path) as file:
                begin = new.start if new.path in moved else None
                progress[new.path] = Place(new.end, mark_of(file, new.end), None, begin).plain()
        return start if progress == progress_of(start) else offset_of(progress)

    def plan(self, start: Offset, end: Offset) -> list[Slice]:
        """Implement `Source.plan`: slices of equal size, one for each core."""
        before = progress_of(start)
        ranges: list[Range] = []
        lost: list[Range] = []
        for path, told in progress_of(end).items():
            if told == before.get(path):
                continue
            place, known = Place(*told), _place(before, path)
            begin = known.position if place.begin is None else place.begin
            if place.problem and place.problem != known.problem:
                lost.append(Range(path, place.position, place.position, place.problem))
            if begin < place.position:
                piece = self._checked_range(path, begin, place)
                (ranges if piece.problem is None else lost).append(piece)
        total = sum(piece.end - piece.start for piece in ranges)
        return [*_slices(ranges, slice_bytes(total), self.separator), *(Slice((piece,)) for piece in lost)]

    def _checked_range(self, path: str, begin: int, place: Place) -> Range:
        """Return the part of a file to read, with a problem if it was removed or replaced since it was seen."""
        try:
            with _open_marked(path, place):
                return Range(path, begin, place.position, mark=(place.position, place.mark))
        except AdapterError as error:
            if path == self.options.path:
                raise
            return Range(path, begin, place.position, f"bytes {begin:,} to {place.position:,} are lost: {error}")

    def read(self, part: Slice) -> Iterator[Row]:
        """Implement `Source.read`. Memory: one message, at most 64 MiB."""
        for piece_range in part.ranges:
            if piece_range.problem is not None:
                yield self._lost(piece_range)
                continue
            with _open_range(piece_range) as file:
                for piece in split(file, piece_range, self.separator):
                    row = self.row(piece, piece_range.path)
                    if row is not None:
                        yield row

    def _lost(self, piece: Range) -> Row:
        """Return the dead letter of what cannot be read."""
        reason = str(piece.problem)
        digest = hashlib.blake2b(reason.encode("utf-8", "replace"), digest_size=16).hexdigest()
        return Row(path_text(piece.path), piece.start, digest, self.options.topic, error=reason, raw=b"")

    def _to_look_at(self, folder: str, listing: Listing, progress: Progress) -> list[str]:
        """Return the files of a folder, those that a rotation has given a name that is not listed included."""
        known = self._active.get(folder)
        if known is not None and known.listing is listing:
            return known.paths
        return [f"{folder}/{name}" for name in listing.files] + [path for path in progress if _folder(path) == folder]

    def _follow(self, progress: Progress, listed: set[str]) -> set[str]:
        """Take the places of files that were rotated to where the files are now.

        Files that are probably copies, made by a rotation which will cut the original next, leave `listed`.

        Returns:
            The paths at which there is another file than before.
        """
        new = self._by_base(path for path in listed if path not in progress)
        places = {path: _place(progress, path) for path in listed if path in progress}
        gone = {path for path, place in places.items() if not self._is_there(path, place)}
        found: dict[str, str] = {}

        def is_free(other: str) -> bool:
            return (other not in progress or other in gone) and other not in found.values()

        for path in sorted(gone):
            if now := self._found(path, places[path], new, is_free):
                found[path] = now
        listed -= set(self._copies(new, progress, gone)) - set(found.values())
        kept = {now: places[path] for path, now in found.items()}
        for path in found:
            del progress[path]
        kept |= {path: unread(path) for path in found if path not in kept and status_of(path)}
        for path, now in found.items():
            kept |= {other: unread(other) for other in _missed(path, now, progress, kept)}
            for other in [one for one in gone if one in progress and base_of(one) == base_of(path)]:
                if status_of(other) is None:
                    del progress[other]
        for path in [one for one, place in places.items() if place[0::3] == (0, 0) and one in progress]:
            if self._may_have_changed(path):
                last = max((one for one in turns(path) if one in progress), key=changed_ns, default=None)
                kept |= {other: unread(other) for other in _missed(path, last, progress, kept)} if last else {}
        progress |= {path: Place(one.position, one.mark, None, one.position).plain() for path, one in kept.items()}
        return set(kept)

    def _by_base(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Return paths by their names without the numbers and dates of a rotation."""
        found: dict[str, list[str]] = {}
        for path in sorted(paths):
            found.setdefault(base_of(path), []).append(path)
        return found

    def _is_there(self, path: str, place: Place) -> bool:
        """Return whether the file of a place is still at its path; true if it cannot be read."""
        try:
            status = status_of(path)
            if status is None:
                return False
            state = _state(place.position, status)
            if self._checked.get(path) != state:
                if not place.is_in(path, status):
                    return False
                self._checked[path] = state
            return True
        except AdapterError:
            return True

    def _found(self, path: str, place: Place, new: dict[str, list[str]], is_free: Callable[[str], bool]) -> str | None:
        """Return the present path of the file that was at `path`; None if it is not found."""
        if not os.path.lexists(path):  # its successor is not there yet: only what would be read as new is looked at
            others = (other for other in new.get(base_of(path), ()) if is_free(other))
            return next((other for other in others if place.begins(other)), None)
        return place.find_renamed(path, is_free) if self._may_have_changed(path) else None

    def _may_have_changed(self, path: str) -> bool:
        """Return whether there may be other names in the folder of a file than when this was last asked."""
        now_ns = changed_ns(_folder(path))
        is_known = self._searched.get(path) == now_ns and time.time_ns() - now_ns > _TICK_NS
        self._searched[path] = now_ns
        return not is_known

    def _copies(self, new: dict[str, list[str]], progress: Progress, gone: Collection[str]) -> Iterator[str]:
        """Yield the new files that begin with what was read of another that is there, and were just made."""
        since_s = time.time() - COPY_S
        young = {
            base: found
            for base, paths in new.items()
            if (found := [one for one in paths if (status := status_of(one)) and status.st_ctime > since_s])
        }
        for path in progress if young else ():
            if path not in gone and (others := young.get(base_of(path))):
                place = _place(progress, path)
                yield from (other for other in others if place.position and place.begins(other))

    def _remember(self, looks: list[tuple[str, Listing]], looked: list[str], news: set[str]) -> None:
        """Remember which files are to be looked at, until their folder is listed again."""
        active: dict[str, list[str]] = {folder: [] for folder, _ in looks}
        since_ns = time.time_ns() - _ACTIVE_NS
        for path in looked:
            if path in news or self._checked.get(path, (0,) * 5)[2] >= since_ns:
                active[_folder(path)].append(path)
        self._active = {folder: _Active(listing, active[folder]) for folder, listing in looks}

    def _new(self, path: str, place: Place, bound: Place | None, settled: bool) -> Range | None:
        """Return the range of a file that is complete and has not been read."""
        position = place.position
        status = status_of(path)
        if status is None:
            return None  # it was removed since it was listed
        if status.st_size < position:
            raise AdapterError(_changed(path, f"it had {position:,} bytes and has {status.st_size:,}"))
        end = status.st_size if bound is None else min(bound.position, status.st_size)
        state = _state(position, status)
        if end <= position and self._checked.get(path) == state:
            return None
        with open_file(path) as file:
            _check_mark(file, path, place)
            self._checked[path] = state
            if bound is not None and end > position and mark_of(file, bound.position) != bound.mark:
                return None  # the file was rotated since the bound was set: it is for the next run
            may_be_cut = end > position and bound is None and not settled
            if may_be_cut and not (self._is_quiet(status) and self.ends_whole(file, position, end)):
                end = last_boundary(file, position, end, self.separator)
        return Range(path, position, end) if end > position else None

    def _is_quiet(self, status: os.stat_result) -> bool:
        age = time.time() - status.st_mtime
        return abs(age) >= self.settle_s  # a time in the future says nothing about the age


def split(file: BinaryIO, piece: Range, separator: bytes, limit_bytes: int = MESSAGE_BYTES_MAX) -> Iterator[Record]:
    """Yield the messages of a range, in order.

    Args:
        file: opened for reading.
        piece: the range.
        separator: begins a message; its first byte, a line feed, belongs to the message before.
        limit_bytes: the maximum size of a message; only the beginning of a longer one is returned.

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
            yield Record(begin, kept or buffer[cursor : index + 1], size)
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
        yield Record(begin, kept or buffer[cursor:], dropped + len(buffer) - cursor)


def last_boundary(file: BinaryIO, start: int, end: int, separator: bytes) -> int:
    """Return the last position in ``start < byte <= end`` where a message can begin; `start` if there is none."""
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
    """Return the first position from `start` on where a message begins; `end` if none begins before."""
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


def _allot(waiting: list[Range], separator: bytes, limit: int, bytes_max: int) -> Iterator[Range]:
    """Cut what is new to `limit` messages, and to the message that reaches `bytes_max`.

    The files share both; what one does not use goes to the others.
    """
    left, bytes_left = limit, bytes_max
    ordered = sorted(waiting, key=lambda new: new.end - new.start)
    for index, new in enumerate(ordered):
        if left == 0 or bytes_left <= 0:
            return
        files = len(ordered) - index
        with open_file(new.path) as file:
            end, count = _nth_boundary(file, new, separator, max(1, left // files), max(1, bytes_left // files))
        left -= count
        bytes_left -= end - new.start
        yield Range(new.path, new.start, end)


def _nth_boundary(file: BinaryIO, piece: Range, separator: bytes, count: int, bytes_max: int) -> tuple[int, int]:
    """Return the end of the first `count` messages of a range, or of the one that reaches `bytes_max` if that is
    before, and the number of messages before it."""
    position, low, message_count = piece.start, piece.start, 0
    while low < piece.end:
        file.seek(low)
        chunk = file.read(min(READ_BYTES, piece.end - low))
        index = chunk.find(separator)
        while index >= 0:
            position, message_count = low + index + 1, message_count + 1
            if message_count == count or position - piece.start >= bytes_max:
                return position, message_count
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
            waiting.append(Range(piece.path, start, end, mark=piece.mark))
            room -= end - start
            start = end
            if room <= 0:
                yield Slice(tuple(waiting))
                waiting, room = [], size_bytes
    if waiting:
        yield Slice(tuple(waiting))


def _place(progress: Progress, path: str) -> Place:
    return Place(*progress.get(path, ()))


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _missed(path: str, last: str, *known: Collection[str]) -> list[str]:
    """Return the files that were at `path` after the file that is now at `last`, between two looks."""
    return [
        one for one in turns(path) if not any(one in some for some in known) and changed_ns(one) >= changed_ns(last)
    ]


def _state(position: int, status: os.stat_result) -> tuple[int, ...]:
    return (position, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


def _check_mark(file: BinaryIO, path: str, place: Place) -> None:
    if place.position and mark_of(file, place.position) != place.mark:
        raise AdapterError(_changed(path, f"the bytes before byte {place.position:,} differ from those that were read"))


def _open_marked(path: str, place: Place) -> BinaryIO:
    """Open the file that was at a path when its mark was made.

    Raises:
        AdapterError: it was removed, replaced or edited.
    """
    problem = None
    try:
        file = open_file(path)
        try:
            _check_mark(file, path, place)
        except AdapterError:
            file.close()
            raise
        return file
    except AdapterError as error:
        problem = error
    if (found := place.find_renamed(path)) is None:
        raise problem
    return open_file(found)


def _open_range(piece: Range) -> BinaryIO:
    return open_file(piece.path) if piece.mark is None else _open_marked(piece.path, Place(*piece.mark))


def _changed(path: str, what: str) -> str:
    return (
        f"{path_text(path)}: the file was replaced, cut or edited while it was read: {what}. "
        "Expected it only to grow. To read what it holds now, stop the pipeline, remove the folder of the adapter in "
        "'checkpoints', and start again: messages that are new are notified, those that stayed in their place are not"
    )
