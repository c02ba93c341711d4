"""Finds new and changed files in folders in which each file is read as a whole.

New files are recognised by the time of their last change (ctime, which the system sets) and their name: progress in a
folder is the ``[ctime_ns, name]`` of the last file that was read there. Each folder has its own progress, so that a
folder that is moved here is read although its files are old. Files younger than `settle_ms` wait: the system's clock
ticks every 1 to 10 ms, and all files of one tick must exist before progress passes that tick; and a file that is still
being written must not be read. A file that is changed is read again: what has another content is new."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Final

from tamis.adapters.mail.message import MESSAGE_BYTES_MAX
from tamis.adapters.rows import RAW_KEPT_BYTES, Row, digest_of, too_large
from tamis.adapters.sources.files import FileSource, status_of
from tamis.adapters.sources.source import Offset, Range, Slice, offset_of, path_text, progress_of, slice_bytes

_SLICE_FILES_MAX: Final = 2_000
_OPEN_BYTES: Final = 16 << 10
"""The cost of opening a file, in bytes that could be parsed meanwhile, for slices of equal time."""

_Key = tuple[int, str]


class WholeFileSource(FileSource):
    """The files of a folder and the folders below it, of a glob, or one file."""

    settle_ms: ClassVar[int] = 1_000

    @abstractmethod
    def rows(self, path: str) -> Iterator[Row]:
        """The rows of a file, in order.

        Raises:
            OSError: it cannot be read; it becomes a dead letter.
        """

    def latest(
        self, start: Offset, limit: int | None, *, ceiling: Offset | None = None, settled: bool = False
    ) -> Offset:
        """As `Source.latest`, with the oldest files first. Cost: 10 µs per file, including old ones."""
        self.check()
        progress = progress_of(start)
        bounds = None if ceiling is None else progress_of(ceiling)
        before_ns = None if settled else time.time_ns() - int(self.settle_s * 1e9)
        new_files = []
        for folder, key, _ in self._files():
            is_new = key > _key(progress.get(folder))
            in_bounds = bounds is None or key <= _key(bounds.get(folder))
            if is_new and in_bounds and (before_ns is None or key[0] < before_ns):
                new_files.append((key[0], folder, key[1]))
        if not new_files:
            return start
        for changed_ns, folder, name in sorted(new_files)[:limit]:
            progress[folder] = [changed_ns, name]
        return offset_of({folder: last for folder, last in progress.items() if os.path.isdir(folder)})  # noqa: PTH112

    def plan(self, start: Offset, end: Offset) -> list[Slice]:
        """As `Source.plan`, without files that were changed or removed since; a changed one is read later."""
        before, after = progress_of(start), progress_of(end)
        files = sorted(
            (folder, key, size_bytes)
            for folder, key, size_bytes in self._files()
            if _key(before.get(folder)) < key <= _key(after.get(folder))
        )
        total = sum(size_bytes + _OPEN_BYTES for _, _, size_bytes in files)
        return list(_slices((Range(f"{folder}/{key[1]}", 0, size) for folder, key, size in files), slice_bytes(total)))

    def read(self, part: Slice) -> Iterator[Row]:
        """As `Source.read`; a file that cannot be read becomes a dead letter, and the others are read."""
        for piece in part.ranges:
            try:
                yield from self.rows(piece.path)
            except OSError as error:
                yield self.dead(piece.path, b"", f"the file cannot be read: {error.strerror}")

    def whole(self, path: str) -> bytes | Row:
        """The bytes of a file; a dead letter if it is too large for one message.

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
        """The dead letter of a file."""
        return Row(path_text(path), 0, digest_of(raw), self.options.topic, error=reason, raw=raw)

    def _files(self) -> Iterator[tuple[str, _Key, int]]:
        """The folder, (ctime, name) and size of every file."""
        for path in self._walk():
            if status := status_of(path):
                folder, _, name = path.rpartition("/")
                yield folder or "/", (status.st_ctime_ns, name), status.st_size


def _key(progress: list[int | str] | None) -> _Key:
    """Progress as a value to compare; that of a folder that was never read comes before everything."""
    return (int(progress[0]), str(progress[1])) if progress else (-1, "")


def _slices(files: Iterator[Range], size_bytes: int) -> Iterator[Slice]:
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
