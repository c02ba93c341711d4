"""Sources that read files in folders: which files there are, and whether they can be read."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from tamis.adapters.options import SourceOptions
from tamis.adapters.rows import Row, mail_row
from tamis.adapters.sources.source import Source, place_name
from tamis.errors import AdapterError

_GLOB = re.compile(r"[*?\[]")
_IGNORED_SUFFIXES: Final = ("~", ".tmp", ".part", ".lock", ".swp")


class FileSource(Source):
    """A source of messages in files.

    Args:
        options: as `SourceOptions.of` checked them.
    """

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self.settle_s = (self.settle_ms if options.settle_ms is None else options.settle_ms) / 1000

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
        return mail_row(
            raw,
            place_name(path),
            offset,
            topic=self.options.topic,
            source=place_name(source if self.options.source is None else self.options.source),
            stop_words=self.signature_stop_words,
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
