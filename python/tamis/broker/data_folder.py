"""The data directory of a broker, which is made at the first start, locked, and closed to other users."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tamis.closing import Closing
from tamis.errors import ConfigError

LOCK_FILE_NAME = "lock"
CONTROL_SOCKET_NAME = "control.sock"
STREAMS_FOLDER_NAME = "streams"
RECORD_FOLDER_NAMES = ("journal", STREAMS_FOLDER_NAME)
"""Folders of the data plane, in which the messages are."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class DataFolder(Closing):
    """A data directory, locked until `close` or the end of the process.

    Attributes:
        made_private: the number of files and directories with messages that other users could open, until now.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _locked(path)
        try:
            self.made_private = sum(make_private(path / name) for name in RECORD_FOLDER_NAMES)
        except BaseException:
            self.close()
            raise

    @property
    def control_socket(self) -> Path:
        """The path of the control socket."""
        return self.path / CONTROL_SOCKET_NAME

    @property
    def has_records(self) -> bool:
        """Whether a broker has kept something here: a file of its journal, or a stream."""
        return any(any((self.path / name).glob("*")) for name in RECORD_FOLDER_NAMES)

    @property
    def stream_count(self) -> int:
        """The number of streams that have files here."""
        return sum(1 for _ in (self.path / STREAMS_FOLDER_NAME).glob("*"))

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)


def make_private(folder: Path) -> int:
    """Close a directory to everybody but its owner; return how many files and directories were open to others.

    What is in it is looked at only if the directory itself was open: behind a closed one nobody gets.

    Raises:
        ConfigError: it belongs to another user, so that it cannot be closed.
    """
    count = 0
    for path in _tree(folder):
        try:
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode) or not mode & OTHERS:
                if path == folder:
                    break
                continue
            path.chmod(stat.S_IMODE(mode) & ~OTHERS)
            count += 1
        except FileNotFoundError:
            continue
        except PermissionError as error:
            raise ConfigError(
                f"{path}: other users can open it, and it belongs to another one: change its owner, or its mode to 0700"
            ) from error
    return count


def _tree(folder: Path) -> Iterator[Path]:
    yield folder
    for parent, folders, files in os.walk(folder):
        yield from (Path(parent, name) for name in (*folders, *files))


def _made(path: Path) -> None:
    """Make a directory and its parents; their names survive a power cut."""
    if not path.is_dir():
        _made(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        with suppress(PermissionError):  # a folder that may be written and not read cannot be synced
            parent = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(parent)
            finally:
                os.close(parent)


def _locked(path: Path) -> int:
    try:
        _made(path.absolute())
        lock = os.open(path / LOCK_FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{error.filename or path}: the data directory cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 20).decode("ascii", "replace").strip()
        os.close(lock)
        by = f" (process {holder})" if holder else ""
        raise ConfigError(
            f"{path}: another broker{by} uses this data directory; stop it, or give another --data"
        ) from error
    try:
        os.truncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
    except OSError as error:
        os.close(lock)
        raise ConfigError(f"{path / LOCK_FILE_NAME}: cannot be written: {error.strerror}") from error
    return lock
