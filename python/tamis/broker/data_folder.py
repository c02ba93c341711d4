"""The data directory of a broker, which is made at the first start and locked against other brokers."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from tamis.errors import ConfigError

LOCK_FILE_NAME = "lock"
CONTROL_SOCKET_NAME = "control.sock"
RECORD_FOLDER_NAMES = ("journal", "streams")
"""Folders of the data plane."""


class DataFolder:
    """A data directory, locked until `close` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _locked(path)

    @property
    def control_socket(self) -> Path:
        """The path of the control socket."""
        return self.path / CONTROL_SOCKET_NAME

    @property
    def has_records(self) -> bool:
        """Whether a broker has kept something here: a file of its journal, or a stream."""
        return any(any((self.path / name).glob("*")) for name in RECORD_FOLDER_NAMES)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _locked(path: Path) -> int:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path / LOCK_FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{path}: the data directory cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 20).decode("ascii", "replace").strip()
        os.close(lock)
        by = f" (process {holder})" if holder else ""
        raise ConfigError(
            f"{path}: another broker{by} uses this data directory; stop it, or give another --data"
        ) from error
    os.truncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return lock
