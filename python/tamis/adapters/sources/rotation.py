"""Finds the files that took over from rotated ones: a log that was renamed, or copied and then cut.

A file is known again by its mark, a digest of what was read of it, and its name by what remains of it without numbers
and dates: ``app.jsonl``, ``app.jsonl.1``, ``app.jsonl-20261124`` and ``app-2026-11-24.jsonl`` belong together."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, Final, NamedTuple

from tamis.adapters.sources.files import open_file, status_of
from tamis.errors import AdapterError

_MARK_BYTES: Final = 1024
_NUMBER = r"[._-][0-9][0-9TZ:._-]*"
_TURN = re.compile(rf"(?:{_NUMBER}|\.old)$|{_NUMBER}(?=\.[A-Za-z]+$)")


class Place(NamedTuple):
    """The progress of reading a file.

    Attributes:
        position: all messages before this byte have been read.
        mark: a digest of the first and last KiB before it; at byte 0 the number of the file, if a rotation gave it its
            path.
        problem: why the file cannot be read.
        begin: where the batch that ends here begins, if not at the place of the path before: the file got this path
            by a rotation.
    """

    position: int = 0
    mark: str = ""
    problem: str | None = None
    begin: int | None = None

    def plain(self) -> list[Any]:
        """Return the form for the checkpoint."""
        found = list(self)
        while found[-1] is None:
            found.pop()
        return found

    def is_in(self, path: str, status: os.stat_result | None = None) -> bool:
        """Return whether the file begins with what was read of it; False if there is none.

        Raises:
            AdapterError: it cannot be read.
        """
        status = status or status_of(path)
        if status is None or status.st_size < self.position:
            return False
        if self.position == 0:
            return self.mark in ("", str(status.st_ino))
        with open_file(path) as file:
            return mark_of(file, self.position) == self.mark

    def begins(self, path: str) -> bool:
        """Return whether it is in; False, too, if the file cannot be read."""
        with suppress(AdapterError):
            return self.is_in(path)
        return False

    def find_renamed(self, path: str, is_free: Callable[[str], bool] = lambda path: True) -> str | None:
        """Return the new path of the file that was at `path`; None if it has gone, or nothing was read of it.

        Args:
            path: where it was.
            is_free: whether it may be at another path.
        """
        if not self.mark:
            return None
        return next((other for other in turns(path) if is_free(other) and self.begins(other)), None)


def unread(path: str) -> Place:
    """Return the place of a file of which nothing was read, to be known again under another name."""
    status = status_of(path)
    return Place(0, "" if status is None else str(status.st_ino), None, 0)


def mark_of(file: BinaryIO, position: int) -> str:
    """Return a digest of the first and the last KiB before `position`."""
    file.seek(0)
    head = file.read(min(_MARK_BYTES, position))
    file.seek(max(0, position - _MARK_BYTES))
    tail = file.read(min(_MARK_BYTES, position))
    return hashlib.blake2b(head + tail, digest_size=8).hexdigest()


def base_of(path: str) -> str:
    """Return the path without the numbers and dates that a rotation adds to a name."""
    folder, slash, name = path.rpartition("/")
    while (shorter := _TURN.sub("", name)) != name and shorter:
        name = shorter
    return f"{folder}{slash}{name}"


def turns(path: str) -> Iterator[str]:
    """Yield the other files of the folder that may have been at `path`, by name."""
    folder, slash, name = path.rpartition("/")
    base = base_of(path)
    with suppress(OSError):
        for other in sorted(os.listdir(folder or slash or ".")):  # noqa: PTH208 - names, not paths
            if other != name and base_of(found := f"{folder}{slash}{other}") == base:
                yield found


def changed_ns(path: str) -> int:
    """Return when a file or folder was changed; the beginning of time if it is not there."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - once per file and poll
    except OSError:
        return 0
