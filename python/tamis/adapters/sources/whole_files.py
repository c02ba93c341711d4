"""Finds new and changed files in folders in which each file is read as a whole.

New files are recognised by the time of their last change (ctime, which the system sets) and their name: progress in a
folder is the ``[ctime_ns, name]`` of the last file that was read there. Each folder has its own progress, so that a
folder that is moved here is read although its files are old. Files younger than `settle_ms` wait: the system's clock
ticks every 1 to 10 ms, and all files of one tick must exist before progress passes that tick; and a file that is still
being written must not be read. A file that is changed is read again: what has another content is new.

A folder that cannot be listed is ``[ctime_ns, name, problem]``: the problem is told once, as a dead letter, and the
other folders are read. When it can be listed again, it goes on where it ended."""

from __future__ import annotations

import bisect
import os
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tamis.adapters.mail.message import MESSAGE_BYTES_MAX
from tamis.adapters.options import FileOptions
from tamis.adapters.rows import RAW_KEPT_BYTES, Row, digest_of, too_large
from tamis.adapters.sources.files import FileSource, status_of
from tamis.adapters.sources.folders import Listing
from tamis.adapters.sources.source import Offset, Range, Slice, offset_of, path_text, progress_of, slice_bytes

_SLICE_FILES_MAX: Final = 2_000
_OPEN_BYTES: Final = 16 << 10
"""The cost of opening a file, in bytes that could be parsed meanwhile, for slices of equal time."""

_Key = tuple[int, str]


@dataclass(frozen=True, slots=True)
class _News:
    """Return what a listing of a folder has after `mark`: (ctime, name) and size of each file, in order."""

    listing: Listing
    mark: _Key
    files: list[tuple[_Key, int]]


class WholeFileSource(FileSource):
    """The files of a folder and the folders below it, of a glob, or one file."""

    settle_ms: ClassVar[int] = 1_000

    def __init__(self, options: FileOptions) -> None:
        super().__init__(options)
        self._news: dict[str, _News] = {}  # by folder

    @abstractmethod
    def rows(self, path: str) -> Iterator[Row]:
        """Return the rows of a file, in order.

        Raises:
            OSError: it cannot be read; it becomes a dead letter.
        """

    def latest(
        self, start: Offset, limit: int | None, *, ceiling: Offset | None = None, settled: bool = False
    ) -> Offset:
        """Implement `Source.latest`, oldest files first. Cost: as `Folders`, and 2 µs per listed file."""
        self.check()
        progress = progress_of(start)
        bounds = None if ceiling is None else progress_of(ceiling)
        settle_ns = int(self.settle_s * 1e9)
        new_files = []
        is_changed = False
        seen = {}
        for folder, listing in self.folders.look(fresh=settled):
            last = progress.get(folder)
            seen[folder] = news = self._since(folder, listing, _key(last))
            for key, size_bytes in _after(news, _key(last)):
                if bounds is not None and key > _key(bounds.get(folder)):
                    continue
                if settled or key[0] < listing.at_ns - settle_ns:
                    new_files.append((key[0], folder, key[1], size_bytes))
                else:
                    listing.stale_at = min(listing.stale_at, self.folders.clock() + self.settle_s)
            if last and last[2:]:
                progress[folder], is_changed = last[:2], True
        self._news = seen
        for folder, problem in self.folders.problems.items():
            if _problem(progress.get(folder)) != problem and (bounds is None or folder in bounds):
                progress[folder], is_changed = [*_key(progress.get(folder)), problem], True
        bytes_left = self.options.max_bytes
        for changed_ns, folder, name, size_bytes in sorted(new_files)[:limit]:
            progress[folder], is_changed = [changed_ns, name], True
            bytes_left -= size_bytes
            if limit is not None and bytes_left <= 0:
                break
        if not is_changed:
            return start
        return offset_of({folder: last for folder, last in progress.items() if os.path.isdir(folder)})  # noqa: PTH112

    def plan(self, start: Offset, end: Offset) -> list[Slice]:
        """Implement `Source.plan`, without files that were changed or removed since; a changed one is read later."""
        before, after = progress_of(start), progress_of(end)
        files = list(self._between(before, after))
        total = sum(file.end + _OPEN_BYTES for file in files)
        problems = [
            Slice((Range(folder, 0, 0, problem),))
            for folder, last in after.items()
            if (problem := _problem(last)) not in (None, _problem(before.get(folder)))
        ]
        return [*_slices(files, slice_bytes(total)), *problems]

    def read(self, part: Slice) -> Iterator[Row]:
        """Implement `Source.read`; a file that cannot be read becomes a dead letter, and the others are read."""
        for piece in part.ranges:
            if piece.problem is not None:
                digest = digest_of(piece.problem.encode("utf-8", "replace"))
                yield Row(path_text(piece.path), 0, digest, self.options.topic, error=piece.problem, raw=b"")
                continue
            try:
                yield from self.rows(piece.path)
            except OSError as error:
                yield self.dead(piece.path, b"", f"the file cannot be read: {error.strerror}")

    def whole(self, path: str) -> bytes | Row:
        """Return the bytes of a file; a dead letter if it is too large for one message.

        Raises:
            OSError: it cannot be read.
        """
        with open(path, "rb") as file:  # noqa: PTH123 - once per message
            raw = file.read(MESSAGE_BYTES_MAX + 1)
            size_bytes = max(len(raw), os.fstat(file.fileno()).st_size)
        if len(raw) > MESSAGE_BYTES_MAX:
            return self.dead(path, raw[:RAW_KEPT_BYTES], too_large(size_bytes, MESSAGE_BYTES_MAX))
        return raw

    def dead(self, path: str, raw: bytes, reason: str) -> Row:
        """Return the dead letter of a file."""
        return Row(path_text(path), 0, digest_of(raw), self.options.topic, error=reason, raw=raw)

    def _between(self, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Range]:
        """Yield the files of a batch that are as they were when its end was chosen, in order."""
        listings = dict(self.folders.look())
        for folder in sorted(listings):
            first, last = _key(before.get(folder)), _key(after.get(folder))
            if first >= last:
                continue
            for key, size_bytes in _after(self._since(folder, listings[folder], first), first):
                path = f"{folder}/{key[1]}"
                if key <= last and (status := status_of(path)) and status.st_ctime_ns == key[0]:
                    yield Range(path, 0, size_bytes)

    def _since(self, folder: str, listing: Listing, mark: _Key) -> _News:
        """Return what is in a folder after `mark`, and perhaps a part of what comes before."""
        known = self._news.get(folder)
        if known is not None and known.listing is listing and known.mark <= mark:
            return known
        statuses = ((name, status_of(f"{folder}/{name}")) for name in listing.files)
        files = (((status.st_ctime_ns, name), status.st_size) for name, status in statuses if status)
        return _News(listing, mark, sorted(file for file in files if file[0] > mark))


def _after(news: _News, mark: _Key) -> list[tuple[_Key, int]]:
    return news.files[bisect.bisect_right(news.files, mark, key=lambda file: file[0]) :]


def _key(progress: list[Any] | None) -> _Key:
    """Progress as a value to compare; that of a folder that was never read comes before everything."""
    return (int(progress[0]), str(progress[1])) if progress else (-1, "")


def _problem(progress: list[Any] | None) -> str | None:
    """Return why the folder could not be listed."""
    return progress[2] if progress and progress[2:] else None


def _slices(files: list[Range], size_bytes: int) -> Iterator[Slice]:
    waiting: list[Range] = []
    room = size_bytes
    for file in files:
        waiting.append(file)
        room -= file.end + _OPEN_BYTES
        if room <= 0 or len(waiting) >= _SLICE_FILES_MAX:
            yield Slice(tuple(waiting))
            waiting, room = [], size_bytes
    if waiting:
        yield Slice(tuple(waiting))
