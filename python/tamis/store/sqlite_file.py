"""Opens the SQLite file of a store, and explains its errors to users.

SQLite runs in WAL mode with synchronous=FULL: what a call wrote is on disk when it returns, readers never wait for a
writer, and several processes may write, one after another."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc

from tamis.errors import StoreBusyError, StoreError
from tamis.store.models import SCHEMA_VERSION

BUSY_TIMEOUT_MS = 30_000
"""Maximum time that a writer waits for another."""

_LOOK_INTERVAL_S = 0.002  # shorter than the pause between two pieces of a batch, so that a waiting writer gets its turn

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""The permissions of everybody but the owner of a file."""

_log = logging.getLogger("tamis.store")

APPLICATION_ID = int.from_bytes(b"tami", "big")
"""Marks the header of the file, so that another program's database is never taken for a store."""


class SqliteFile:
    """One SQLite file, made for its owner alone if it is absent and may be created.

    Raises:
        StoreError: the file or folder does not exist, or cannot be read.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self._path = path
        check_path(path, create)
        _make_private(path)

    def engine(self) -> Engine:
        """Return an engine. Transactions with the option ``immediate`` hold the write lock from their start."""
        engine = create_engine(
            URL.create("sqlite", database=str(self._path)), connect_args={"timeout": BUSY_TIMEOUT_MS / 1000}
        )
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
        return engine

    def version(self, connection: Connection) -> int:
        """Return the version of the schema; 0 for an empty file.

        Raises:
            StoreError: it is another program's database, or a store of a newer version.
        """
        return _version(connection, self._path)

    def prepare(self, engine: Engine) -> None:
        """Prepare the database for the first transaction that changes the schema."""
        with engine.connect() as connection:
            # It must not be in a transaction. SQLite does not wait here for others who make the same store.
            _when_free(lambda: connection.connection.execute("PRAGMA journal_mode = WAL"))

    def mark(self, connection: Connection) -> None:
        """Mark the file as a store."""
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")

    def explain(self, error: exc.DatabaseError | sqlite3.DatabaseError) -> StoreError:
        """Return an error that explains to a user in one sentence what is wrong, and what to do."""
        kind = StoreBusyError if _is_busy(error) else StoreError
        return kind(explain(self._path, error))


def check_path(path: Path, create: bool) -> None:
    """Check that a store exists at `path`, or, with `create`, that one can be created.

    Raises:
        StoreError: it does not exist and cannot be created.
    """
    if str(path) == ":memory:":
        raise StoreError(f"{path}: a store is a file, which several processes open; expected its path")
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
    with suppress(OSError):  # the file exists, or cannot be created; SQLite explains the latter
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
    connection.isolation_level = None  # BEGIN is sent by hand: the driver would send it too late to lock
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
    """Do this when no other process locks the store; raise the error after the longest wait."""
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
    """Return the version of the schema; 0 for an empty file.

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


_ADVICE = (
    ("not a database", "not a store of tamis: it is no SQLite database; give another path"),
    ("malformed", "the store is damaged; restore it from a backup, or give another path"),
    ("disk is full", "the disk is full; make room and start again: nothing half-written is left behind"),
    ("disk i/o error", "the disk could not be read or written; make sure it has room and is healthy, then start again"),
    ("readonly", "the store cannot be written; make the file and its folder writable, or give another path"),
    ("unable to open", "the store cannot be opened; make the file and its folder readable and writable"),
)


def _is_busy(error: exc.DatabaseError | sqlite3.DatabaseError) -> bool:
    cause = error.orig if isinstance(error, exc.DatabaseError) else error
    return "locked" in str(cause).lower()


def explain(path: Path, error: exc.DatabaseError | sqlite3.DatabaseError) -> str:
    """Explain to a user in one sentence what is wrong with the store at `path`, and what to do."""
    cause = error.orig if isinstance(error, exc.DatabaseError) else error
    text = str(cause).lower()
    if _is_busy(error):
        return f"{path}: another process has held the store for {BUSY_TIMEOUT_MS / 1000:g} s; end it, then start again"
    for sign, advice in _ADVICE:
        if sign in text:
            return f"{path}: {advice}"
    return f"{path}: the store failed: {cause}"
