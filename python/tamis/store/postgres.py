"""Opens a database of a PostgreSQL server as the store, waits for a server that is gone, and explains its errors.

Writers come one after another, as in SQLite: each takes the store's lock at its start. Only the rows of a batch are
written beside them, under a lock of their own."""

from __future__ import annotations

import random
import sqlite3
import time
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, Engine, create_engine, event, exc

from tamis.errors import StoreBusyError, StoreError, StoreLostError
from tamis.store.models import SCHEMA_VERSION, metadata
from tamis.store_place import ServerUrl

WAIT_S = 30.0
"""Maximum time that a writer waits for another one, and anybody for a server that is gone."""

_CONNECT_TIMEOUT_S = 10
_NOTICE_S = 2.0
_WAIT_FIRST_S, _WAIT_LAST_S = 0.1, 3.0  # between two tries to reach a server

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('tamis ' || current_schema(), %s))"
_TRY_LOCK = "SELECT pg_try_advisory_lock(hashtextextended('tamis ' || current_schema(), %s))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtextextended('tamis ' || current_schema(), %s))"
STORE_LOCK, ROWS_LOCK, PIPELINE_LOCK = 0, 1, 2
"""The locks of a store: of its writers, of those who write or delete notifications, and of the pipeline."""


class PostgresServer:
    """One database of a server. The store's tables are in the first schema of the search path."""

    def __init__(self, url: ServerUrl) -> None:
        self._url = url
        self._known = False  # whether the server has ever answered: then it may come back after a failure

    def engine(self) -> Engine:
        """Return an engine. Transactions with the option ``immediate`` hold the store's lock from their start."""
        engine = create_engine("postgresql+psycopg://", creator=self._connect, pool_pre_ping=True)
        event.listen(engine, "begin", _begin)
        return engine

    def _connect(self) -> psycopg.Connection[Any]:
        connection = connect(self._url.text, WAIT_S if self._known else 0.0)
        self._known = True
        return connection

    def version(self, connection: Connection) -> int:
        """Return the version of the schema; 0 if there is none.

        Raises:
            StoreError: there are tables of another program with the same names, or a store of a newer version.
        """
        rows = connection.exec_driver_sql("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        tables = set(rows.scalars())
        ours = tables & set(metadata.tables)
        if not ours and "alembic_version" not in tables:
            return 0
        if "query_versions" not in ours or "alembic_version" not in tables:
            raise StoreError(
                f"{self._url}: the schema has tables of another program; give the store a database, or a schema, of "
                "its own"
            )
        text = str(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one_or_none())
        version = text.lstrip("0")
        if not version.isdecimal() or int(version) > SCHEMA_VERSION:
            raise StoreError(
                f"{self._url}: the store is of version {version}, and this tamis knows up to {SCHEMA_VERSION}; "
                "update tamis, or give another database"
            )
        return int(version)

    def prepare(self, engine: Engine) -> None:
        """Do nothing: PostgreSQL needs no preparation."""

    def mark(self, connection: Connection) -> None:
        """Do nothing: the tables show that the database is a store."""

    def explain(self, error: exc.DatabaseError | sqlite3.DatabaseError) -> StoreError:
        """Return an error that explains to a user in one sentence what is wrong, and what to do."""
        if isinstance(error, exc.DatabaseError) and error.connection_invalidated:
            return StoreLostError(f"{self._url}: the server went away: {_first_line(error.orig)}")
        cause = error.orig if isinstance(error, exc.DatabaseError) else error
        kind = StoreBusyError if getattr(cause, "sqlstate", None) == _LOCKED else StoreError
        return kind(explain(self._url.text, cause))


def connect(conninfo: str, wait_s: float) -> psycopg.Connection[Any]:
    """Connect to a server. If it does not answer, try again for some time, with growing pauses.

    Raises:
        psycopg.OperationalError: the server does not answer, or refuses.
    """
    until, pause_s = time.monotonic() + wait_s, _WAIT_FIRST_S
    given = conninfo_to_dict(conninfo)
    # Times without a zone are in UTC. Waiting for a lock has a limit.
    options = f"{given.get('options') or ''} -c timezone=UTC -c lock_timeout={int(WAIT_S * 1000)}"
    timeout_s = given.get("connect_timeout") or _CONNECT_TIMEOUT_S
    while True:
        try:
            return psycopg.connect(conninfo, options=options, connect_timeout=int(timeout_s))
        except psycopg.OperationalError as error:
            if time.monotonic() >= until or _refuses(error):
                raise
        time.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        pause_s = min(2 * pause_s, _WAIT_LAST_S)


def take_lock(connection: Connection, lock: int) -> None:
    """Take one of the store's locks until the end of the transaction."""
    connection.exec_driver_sql(_LOCK, (lock,))


def try_lock(connection: Connection, lock: int) -> bool:
    """Take one of the store's locks until the end of the session; return false if another session keeps it.

    The server needs a moment to notice that a process was killed."""
    until = time.monotonic() + _NOTICE_S
    while not connection.exec_driver_sql(_TRY_LOCK, (lock,)).scalar_one():
        if time.monotonic() >= until:
            return False
        time.sleep(_WAIT_FIRST_S)
    return True


def unlock(connection: Connection, lock: int) -> None:
    """Give back a lock that `try_lock` took, if it did."""
    connection.exec_driver_sql(_UNLOCK, (lock,))


def explain(url: str, error: BaseException | None) -> str:
    """Explain to a user in one sentence what is wrong with the store at `url`, and what to do."""
    text = _first_line(error)
    state = getattr(error, "sqlstate", None) or ""
    for sign, advice in _ADVICE:
        if state == sign or (sign in str(error) and not sign.isalnum()):
            return f"{url}: {advice} ({text})"
    if isinstance(error, psycopg.OperationalError):
        return f"{url}: the server does not answer; start it, or correct the host and port ({text})"
    return f"{url}: the store failed: {text}"


_LOCKED = "55P03"  # a lock was not obtained in time
_NONE_LEFT = "the server has no connection left; raise its max_connections, or end others"
_ADVICE = (
    ("password authentication failed", "wrong user or password: give it in PGPASSWORD or in ~/.pgpass"),
    ("no password supplied", "the server asks for a password: give it in PGPASSWORD or in ~/.pgpass"),
    ("does not exist", "the database, role or table is not there; make it with createdb or createuser"),
    ("42501", "this user lacks a right: let it own the schema, or grant it USAGE and CREATE on it"),
    ("42P01", "a table of the store is gone; restore it from a backup, or give another database"),
    (_LOCKED, f"another process has held the store for {WAIT_S:g} s; end it, then start again"),
    ("53100", "the server's disk is full; make room and start again: nothing half-written is left behind"),
    ("53300", _NONE_LEFT),
    ("too many", _NONE_LEFT),
    ("25006", "the server is a read-only copy; give the URL of the one that can be written"),
)


def _first_line(error: BaseException | None) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _begin(connection: Connection) -> None:
    if connection.get_execution_options().get("immediate", False):
        take_lock(connection, STORE_LOCK)


def is_lost(error: psycopg.OperationalError) -> bool:
    """Return whether the server went away or does not answer, so that it may come back."""
    if error.sqlstate is not None:
        return error.sqlstate[:2] == "08" or error.sqlstate[:3] == "57P"
    return not _refuses(error) and "too many" not in str(error)


def _refuses(error: psycopg.OperationalError) -> bool:
    """Return whether the server has answered, so that waiting does not help."""
    text = str(error)
    return "FATAL" in text and not any(it in text for it in ("starting up", "shutting down", "recovery", "too many"))
