"""Finds and opens the files of a source in a folder, and reads the mail in them."""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, ClassVar, Final

from tamis.adapters.options import FileOptions, MailOptions
from tamis.adapters.properties import MAIL_PROPERTIES
from tamis.adapters.rows import Row, mail_row
from tamis.adapters.sources.source import Source, path_text
from tamis.errors import AdapterError

_GLOB = re.compile(r"[*?\[]")
_IGNORED_SUFFIXES: Final = ("~", ".tmp", ".part", ".lock", ".swp")


class FileSource(Source):
    """A source of messages in files.

    Args:
        options: as `SourceOptions.of` checked them.
    """

    Options: ClassVar[type[FileOptions]] = FileOptions
    options: FileOptions
    pattern: ClassVar[str]
    """The default pattern for the names of the files that are read in a folder."""
    settle_ms: ClassVar[int]
    """The default time for which a file must not have changed."""

    def __init__(self, options: FileOptions) -> None:
        super().__init__(options)
        self.settle_s = (self.settle_ms if options.settle_ms is None else options.settle_ms) / 1000

    def check(self) -> None:
        """Check that there is something to read from.

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
        """The paths of the files that exist now, by name."""
        return sorted(self._walk())

    def wait_until_settled(self) -> None:
        """Wait until the youngest file has not changed for `settle_s`, and at most for that time."""
        statuses = (status_of(path) for path in self._walk())
        youngest = max((max(status.st_mtime, status.st_ctime) for status in statuses if status), default=0.0)
        time.sleep(min(self.settle_s, max(0.0, youngest + self.settle_s - time.time())))

    def _walk(self) -> Iterator[str]:
        path = self.options.path
        if _GLOB.search(path):
            yield from (name for name in glob.iglob(path, recursive=True) if os.path.isfile(name))  # noqa: PTH113, PTH207
        elif os.path.isdir(path):  # noqa: PTH112
            yield from self._walk_folder(path)
        else:
            self.check()
            yield path

    def _walk_folder(self, folder: str) -> Iterator[str]:
        """The files below `folder` that match; links to folders are not followed, because they may form a circle."""
        pattern = self.options.pattern or self.pattern
        for parent, folders, names in os.walk(folder, onerror=_refuse_folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in names:
                wanted = not name.startswith(".") and not name.endswith(_IGNORED_SUFFIXES)
                if wanted and fnmatch.fnmatch(name, pattern):
                    yield f"{parent}/{name}"


class MailSource(FileSource):
    """A source of mail in files."""

    Options: ClassVar[type[FileOptions]] = MailOptions
    options: MailOptions
    properties = MAIL_PROPERTIES

    def mail_row(self, raw: bytes, path: str, offset: int, source: str) -> Row:
        """The row of one mail.

        Args:
            raw: its bytes.
            path: the file.
            offset: where it begins there.
            source: the property of that name, where the options do not say it.
        """
        return mail_row(
            raw,
            path_text(path),
            offset,
            topic=self.options.topic,
            source=path_text(source if self.options.source is None else self.options.source),
            stop_words=self.signature_stop_words,
        )


def status_of(path: str) -> os.stat_result | None:
    """The status of a file; None if it was removed since it was listed, or is a pipe or a device.

    A circle of links has the status of the link: it counts as a file, and whoever opens it is told.

    Raises:
        AdapterError: the system cannot read the status.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - once per file and poll
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return os.lstat(path)
        raise AdapterError(f"{path_text(path)}: cannot be read: {error.strerror}") from error
    return status if stat.S_ISREG(status.st_mode) else None


def _refuse_folder(error: OSError) -> None:
    """Report errors that `os.walk` would ignore; only a folder that was just removed is no error."""
    if not isinstance(error, FileNotFoundError):
        raise AdapterError(f"{path_text(str(error.filename))}: cannot be read: {error.strerror}") from error


def open_file(path: str) -> BinaryIO:
    """Open a file for reading.

    Raises:
        AdapterError: it cannot be opened.
    """
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise AdapterError(f"{path_text(path)}: cannot be read: {error.strerror}") from error


def _fixed_part(path: str) -> str:
    """The folder of a glob before its first wildcard."""
    return path[: _GLOB.search(path).start()].rpartition("/")[0] or "/"  # type: ignore[union-attr]
