"""Opens the database under the store, with its transactions and migrations, and explains its errors to users.

SQLite runs in WAL mode with synchronous=FULL: what a call wrote is on disk when it returns, readers never wait for a
writer, and several processes may write, one after another."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from sqlalchemy import URL, Connection, create_engine, event, exc

from tamis.errors import StoreError
from tamis.store.models import SCHEMA_VERSION

BUSY_TIMEOUT_MS = 30_000
"""Maximum time that a writer waits for another."""

_LOOK_INTERVAL_S = 0.002  # shorter than the pause between two pieces of a batch, so that a waiting writer gets its turn

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""The permissions of everybody but the owner of a file."""

_log = logging.getLogger("tamis.store")

APPLICATION_ID = int.from_bytes(b"tami", "big")
"""Marks the header of the file, so that another program's database is never taken for a store."""


class Database:
    """One SQLite file with the store's schema. Thread-safe; each call uses a connection of its own.

    Args:
        path: the file; created if it is absent and `create` is true.
        create: see `path`.
        migrate: bring an older schema up to date.

    Raises:
        StoreError: the file or folder does not exist, is not a store, has a newer version, or cannot be written.
    """

    def __init__(self, path: Path, *, create: bool = True, migrate: bool = True) -> None:
        """Open the file and bring its schema up to date."""
        self.path = path
        check_path(path, create)
        _make_private(path)
        self._engine = create_engine(
            URL.create("sqlite", database=str(path)), connect_args={"timeout": BUSY_TIMEOUT_MS / 1000}
        )
        self._writer = self._engine.execution_options(immediate=True)
        event.listen(self._engine, "connect", _prepare)
        event.listen(self._engine, "begin", _begin)
        try:
            if migrate:
                self._migrate()
        except BaseException:
            self.close()
            raise

    def is_current(self) -> bool:
        """Whether the schema has the newest version; false for an older one and for an empty file.

        Raises:
            StoreError: it is another program's database, or a store of a newer version.
        """
        with self._read() as connection:
            return _version(connection, self.path) == SCHEMA_VERSION

    def close(self) -> None:
        """Close every connection. Calling it again does nothing."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        """Return the store; the end of the block calls `close`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store, whatever happened."""
        self.close()

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the store and changes nothing."""
        with self._explained(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """A transaction that holds the write lock from its start; atomic, and on disk at its end."""
        with self._explained(), self._writer.begin() as connection:
            yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (exc.IntegrityError, exc.ProgrammingError):
            raise
        except (exc.DatabaseError, sqlite3.DatabaseError) as error:
            raise StoreError(explain(self.path, error)) from error

    def _migrate(self) -> None:
        """Bring the schema to the newest version in one transaction; quick if it has that already."""
        if self.is_current():
            return
        with self._explained(), self._engine.connect() as connection:
            # It must not be in a transaction. SQLite does not wait here for others who make the same store.
            _when_free(lambda: connection.connection.execute("PRAGMA journal_mode = WAL"))
        with self._write() as connection:
            if _version(connection, self.path) != SCHEMA_VERSION:  # another process may have been quicker
                _upgrade(connection)


def check_path(path: Path, create: bool) -> None:
    """Check that a store exists at `path`, or, with `create`, that one can be created.

    Raises:
        StoreError: it does not and cannot.
    """
    if path.is_dir():
        raise StoreError(f"{path}: a folder, where the file of a store was expected")
    if not path.parent.is_dir():
        raise StoreError(
            f"{path}: the folder {path.parent} does not exist; make it, or give another path for the store"
        )
    if not path.exists():
        if not create:
            raise StoreError(f"{path}: no store here; `tamis query add` and `tamis run` make one")
        if not os.access(path.parent, os.W_OK):
            raise StoreError(f"{path}: the folder {path.parent} cannot be written; give another path for the store")
    elif not os.access(path, os.R_OK):
        raise StoreError(f"{path}: the store cannot be read; change its permissions, or give another path")


def _make_private(path: Path) -> None:
    """Let only its owner open the store: a new one is made so, an older one that others could open is closed to them.

    SQLite gives the files beside it the mode of the store when it makes them. Another user's store stays as it is."""
    with suppress(OSError):  # it is there, or cannot be made, which SQLite will explain
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for file in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        try:
            status = file.stat()
            if status.st_mode & OTHERS and status.st_uid == os.geteuid():
                file.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS)
                _log.warning("%s: other users could open it, and no longer can", file)
        except OSError:
            continue


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves: the driver's own would come too late to lock
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    # A reader that starts to write fails if another process wrote in between, so writers take the lock at once.
    if connection.get_execution_options().get("immediate", False):
        _take_turn(connection)
    else:
        connection.exec_driver_sql("BEGIN")


def _take_turn(connection: Connection) -> None:
    """Begin to write as soon as nobody else does. SQLite's own waiting looks ten times a second, and misses pauses."""
    connection.exec_driver_sql("PRAGMA busy_timeout = 0")
    try:
        _when_free(lambda: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")


def _when_free(step: Callable[[], object]) -> None:
    """Do it when no other process has the store any more, or raise the error after the longest wait."""
    until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            step()
            return
        except (exc.OperationalError, sqlite3.OperationalError) as error:
            if "locked" not in str(error) or time.monotonic() >= until:
                raise
        time.sleep(_LOOK_INTERVAL_S)


def _version(connection: Connection, path: Path) -> int:
    """The version of the schema; 0 for an empty file.

    Raises:
        StoreError: it is another program's database, or a store of a newer version.
    """
    tables = {name for (name,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")}
    application_id = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    if not tables and application_id in (0, APPLICATION_ID):
        return 0
    if application_id != APPLICATION_ID or "alembic_version" not in tables:
        raise StoreError(f"{path}: a database of another program, not a store of tamis; give another path")
    # Our versions are numbers; anything else comes from a later scheme.
    version = str(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one_or_none()).lstrip(
        "0"
    )
    if not version.isdecimal() or int(version) > SCHEMA_VERSION:
        raise StoreError(
            f"{path}: the store is of version {version}, and this tamis knows up to {SCHEMA_VERSION}; "
            "update tamis, or give another path"
        )
    return int(version)


def _upgrade(connection: Connection) -> None:
    from alembic import command  # 0.3 s, and needed only for a new store or after an update
    from alembic.config import Config

    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    config = Config()
    config.set_main_option("script_location", "tamis.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


_ADVICE = (
    ("not a database", "not a store of tamis: it is no SQLite database; give another path"),
    ("malformed", "the store is damaged; restore it from a backup, or give another path"),
    ("disk is full", "the disk is full; make room and start again: nothing half-written is left behind"),
    ("disk i/o error", "the disk could not be read or written; make sure it has room and is healthy, then start again"),
    ("readonly", "the store cannot be written; make the file and its folder writable, or give another path"),
    ("unable to open", "the store cannot be opened; make the file and its folder readable and writable"),
)


def explain(path: Path, error: exc.DatabaseError | sqlite3.DatabaseError) -> str:
    """Explain to a user in one sentence what is wrong with the store at `path`, and what to do."""
    cause = error.orig if isinstance(error, exc.DatabaseError) else error
    text = str(cause).lower()
    if "locked" in text:
        return f"{path}: another process has held the store for {BUSY_TIMEOUT_MS / 1000:g} s; end it, then start again"
    for sign, advice in _ADVICE:
        if sign in text:
            return f"{path}: {advice}"
    return f"{path}: the store failed: {cause}"


def database_path(path_or_url: str | Path | Any) -> Path:
    """The file that a path or an ``sqlite:///`` URL names.

    Raises:
        StoreError: the URL names another kind of database.
    """
    text = os.fspath(path_or_url)
    scheme, separator, location = text.partition("://")
    if not separator:
        return Path(text)
    if scheme != "sqlite" or not location.startswith("/") or len(location) < 2:
        raise StoreError(f"{text}: expected a path, or sqlite:///path")
    return Path(location[1:])


def chunks(values: Sequence[str], size: int = 500) -> Iterator[Sequence[str]]:
    """Split `values` into pieces for IN lists; SQLite allows 32,766 variables per statement."""
    return (values[start : start + size] for start in range(0, len(values), size))
