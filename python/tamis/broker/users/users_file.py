"""The users of a broker: one JSON file of the data directory, with mode 0600.

The file is replaced as a whole and atomically, so that a reader sees the old or the new one. A writer holds a lock on
another file beside it. A running broker notices a change by `UsersFile.stamp`."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from tamis.broker.login import passwords
from tamis.broker.users.user import ALL, User, Users
from tamis.broker.users.users_json import users_from_json, users_to_json
from tamis.errors import AccessError

FILE_NAME = "users.json"
ADMIN_PASSWORD_FILE_NAME = "admin-password"  # noqa: S105 - a file name
SIZE_BYTES_MAX = 16 * 1024 * 1024
"""Maximum size of the file: enough for about 50,000 users."""
ADMIN, GUEST = "admin", "guest"


class UsersFile:
    """The file of users. Reading needs no lock; a change reads, checks, writes and syncs under one."""

    def __init__(self, data_folder: Path) -> None:
        self.path = data_folder / FILE_NAME
        self._admin_password_path = data_folder / ADMIN_PASSWORD_FILE_NAME

    def stamp(self) -> tuple[int, int, int]:
        """Return a value that differs after every change. Cost: one system call."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return (0, 0, 0)
        return (status.st_ino, status.st_mtime_ns, status.st_size)

    def read(self) -> Users:
        """Return all users, by name.

        Raises:
            AccessError: the file is missing, too large, not JSON, or not a valid document of users.
        """
        try:
            if self.path.stat().st_size > SIZE_BYTES_MAX:
                raise AccessError(f"{self.path}: expected a file of at most {SIZE_BYTES_MAX} bytes")
            document = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise AccessError(
                f"{self.path}: no users yet; `tamis serve` makes them when it starts for the first time"
            ) from error
        except (ValueError, RecursionError) as error:
            raise AccessError(f"{self.path}: expected JSON in UTF-8: {error}") from error
        try:
            return users_from_json(document)
        except AccessError as error:
            raise AccessError(f"{self.path}: {error}") from error

    def change(self, edit: Callable[[dict[str, User]], None]) -> Users:
        """Let `edit` change the users, and write and sync them; return the changed users.

        Raises:
            AccessError: see `read`. Or `edit` refuses, or has made an invalid user; then the file is not changed.
        """
        with self._locked():
            users = dict(self.read())
            edit(users)
            self._write(users)
            return MappingProxyType(users)

    def make_first(self, vhosts: tuple[str, ...] = ("/",), has_records: bool = False) -> bool:
        """On the first start, make `admin`, with a generated password in a file, and `guest`; return whether it was so.

        `guest` has the password that every AMQP client tries, and may log in from this machine only.

        Args:
            vhosts: where both have all permissions.
            has_records: whether a broker has run here before.

        Raises:
            AccessError: there is no file although a broker has run here: with new users, everybody on this machine
                would have all permissions.
        """
        with self._locked():
            if self.path.exists():
                return False
            if has_records:
                raise AccessError(_missing(self.path))
            secret = passwords.generated()
            with ThreadPoolExecutor(2) as threads:  # in parallel: the first start should be quick too
                admins, guests = threads.map(passwords.hash_password, (secret.encode(), b"guest"))
            everything = MappingProxyType(dict.fromkeys(vhosts, ALL))
            admin = User(ADMIN, admins, ("administrator",), permissions=everything)
            guest = User(GUEST, guests, local_only=True, permissions=everything)
            _replace(self._admin_password_path, f"{secret}\n")
            self._write({ADMIN: admin, GUEST: guest})
            return True

    @property
    def admin_password_path(self) -> Path:
        """The file with the first administrator's password."""
        return self._admin_password_path

    def _write(self, users: Users) -> None:
        document = users_to_json(users)
        users_from_json(document)  # do not write what could not be read back
        text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
        if len(text.encode()) > SIZE_BYTES_MAX:
            raise AccessError(f"the users would take more than {SIZE_BYTES_MAX} bytes")
        _replace(self.path, text)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _missing(path: Path) -> str:
    return (
        f"{path} is missing, but a broker has kept messages or definitions beside it: restore it from a backup\n"
        f'  or begin without users: echo \'{{"version": 1, "users": {{}}}}\' > {path}, and then `tamis users add`'
    )


def _replace(path: Path, text: str) -> None:
    """Replace the file by `text`, atomically and with mode 0600, and sync it."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    new.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
