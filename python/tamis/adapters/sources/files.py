"""Finds and opens the files of a source in a folder, and reads the mail in them."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import BinaryIO, ClassVar

from tamis.adapters.options import FileOptions, MailOptions
from tamis.adapters.properties import MAIL_PROPERTIES
from tamis.adapters.rows import Row, mail_row
from tamis.adapters.sources.folders import Folders
from tamis.adapters.sources.source import Source, path_text
from tamis.errors import AdapterError


class FileSource(Source):
    """A source of messages in files.

    Args:
        options: the options, as `SourceOptions.of` returned them.
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
        self.folders = Folders(options.path, options.pattern or self.pattern)

    def check(self) -> None:
        """Check that there is something to read from.

        Raises:
            AdapterError: the path is missing or may not be read.
        """
        folder = self.folders.fixed_part
        if not os.path.exists(folder):  # noqa: PTH110 - one system call, in a loop of polls
            raise AdapterError(f"{folder}: no such file or folder; expected mail or data to read there")
        if not os.path.isdir(folder) and not os.path.isfile(folder):  # noqa: PTH112, PTH113
            raise AdapterError(f"{folder}: expected a file or a folder; it is a pipe or a device")
        if not os.access(folder, os.R_OK | (os.X_OK if os.path.isdir(folder) else 0)):  # noqa: PTH112
            raise AdapterError(f"{folder}: may not be read by this user; change its permissions, or the user")

    def files(self) -> list[str]:
        """Return the paths of the files that exist now, by name."""
        return sorted(f"{folder}/{name}" for folder, one in self.folders.look(fresh=True) for name in one.files)

    def wait_until_settled(self) -> None:
        """Wait until the youngest file has not changed for `settle_s`, and at most for that time."""
        statuses = (status_of(path) for path in self.files())
        youngest = max((max(status.st_mtime, status.st_ctime) for status in statuses if status), default=0.0)
        time.sleep(min(self.settle_s, max(0.0, youngest + self.settle_s - time.time())))


class MailSource(FileSource):
    """A source of mail in files."""

    Options: ClassVar[type[FileOptions]] = MailOptions
    options: MailOptions
    properties = MAIL_PROPERTIES

    def mail_row(self, raw: bytes, path: str, offset: int, source: str) -> Row:
        """Return the row of one mail.

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
            topic_field=self.options.topic_field,
            fields=self.options.fields,
            source=path_text(source if self.options.source is None else self.options.source),
            stop_words=self.signature_stop_words,
            xml=self.options.xml,
        )


def status_of(path: str) -> os.stat_result | None:
    """Return the status of a file; None if it was removed since it was listed, or is a pipe or a device.

    A link that is broken, forbidden or circular has the status of the link itself: it counts as a file, and opening it
    says what is wrong.

    Raises:
        AdapterError: the system cannot read the status.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - once per file and poll
    except FileNotFoundError:
        return None
    except OSError as error:
        try:
            return os.lstat(path)
        except OSError:
            raise AdapterError(f"{path_text(path)}: cannot be read: {error.strerror}") from error
    return status if stat.S_ISREG(status.st_mode) else None


def open_file(path: str) -> BinaryIO:
    """Open a file for reading.

    Raises:
        AdapterError: it cannot be opened.
    """
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise AdapterError(f"{path_text(path)}: cannot be read: {error.strerror}") from error
