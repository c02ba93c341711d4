"""Opens the database under the store, with its transactions and migrations, and explains its errors to users.

It is an SQLite file (`tamis.store.sqlite_file`) or a database of a PostgreSQL server (`tamis.store.postgres`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy import Connection, Engine, exc

from tamis.closing import Closing
from tamis.errors import StoreError
from tamis.store.models import SCHEMA_VERSION, metadata
from tamis.store.sqlite_file import SqliteFile
from tamis.store_place import Place, ServerUrl


class Home(Protocol):
    """The differences between the databases that a store can be in."""

    def engine(self) -> Engine:
        """Return an engine; its transactions with the option ``immediate`` come one after another."""

    def version(self, connection: Connection) -> int:
        """Return the version of the schema; 0 if there is none; StoreError if it is of another program, or newer."""

    def prepare(self, engine: Engine) -> None:
        """Prepare the database for the first transaction that changes the schema."""

    def mark(self, connection: Connection) -> None:
        """Mark the database as a store."""

    def explain(self, error: exc.DatabaseError | sqlite3.DatabaseError) -> StoreError:
        """Return an error that explains to a user in one sentence what is wrong, and what to do."""


class Database(Closing):
    """One database with the store's schema. Thread-safe; each call uses a connection of its own.

    Args:
        path: the file or server. A file is created if it is absent and `create` is true; a database of
            a server must exist.
        create: see `path`.
        migrate: bring an older schema up to date.

    Raises:
        StoreError: the file, folder or database does not exist, is not a store, has a newer version, or cannot be
            written; the server does not answer.
    """

    def __init__(self, path: Place, *, create: bool = True, migrate: bool = True) -> None:
        """Open the database and bring its schema up to date."""
        self.path = path
        self._home = _home(path, create)
        self._engine = self._home.engine()
        self._reader = self._engine
        self._writer = self._engine.execution_options(immediate=True)
        if isinstance(path, ServerUrl):
            self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        try:
            if migrate:
                self._migrate(create)
        except BaseException:
            self.close()
            raise

    def is_current(self) -> bool:
        """Return whether the schema has the newest version; false for an older one and for an empty database.

        Raises:
            StoreError: it is another program's database, or a store of a newer version.
        """
        with self._read() as connection:
            return self._home.version(connection) == SCHEMA_VERSION

    def close(self) -> None:
        """Close every connection. Calling it again does nothing."""
        self._engine.dispose()

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        """Run the block in a transaction that sees one state of the store and changes nothing."""
        with self._explained(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """Run the block in an atomic transaction that holds the write lock from its start; it is on disk at its end."""
        with self._explained(), self._writer.begin() as connection:
            yield connection

    def _lock_rows(self, connection: Connection) -> None:
        """Let no batch be committed until the end of the transaction; in a file, nobody else writes anyhow."""
        if isinstance(self.path, ServerUrl):
            from tamis.store.postgres import ROWS_LOCK, take_lock

            take_lock(connection, ROWS_LOCK)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except exc.IntegrityError:
            raise
        except (exc.DatabaseError, sqlite3.DatabaseError) as error:
            if isinstance(error, exc.ProgrammingError) and not isinstance(self.path, ServerUrl):
                raise
            raise self._home.explain(error) from error

    def _migrate(self, create: bool) -> None:
        """Bring the schema to the newest version in one transaction; quick if it has that already."""
        with self._read() as connection:
            version = self._home.version(connection)
        if version == SCHEMA_VERSION:
            return
        if version == 0 and not create and isinstance(self.path, ServerUrl):
            raise StoreError(f"{self.path}: no store here; `tamis query add` and `tamis run` make one")
        with self._explained():
            self._home.prepare(self._engine)
        with self._write() as connection:
            version = self._home.version(connection)
            if version != SCHEMA_VERSION:  # another process may have been quicker
                _upgrade(connection, self._home, version)


def _home(path: Place, create: bool) -> Home:
    if not isinstance(path, ServerUrl):
        return SqliteFile(path, create=create)
    from tamis.store.postgres import PostgresServer  # needs psycopg, which is an extra

    return PostgresServer(path)


def _upgrade(connection: Connection, home: Home, version: int) -> None:
    """Bring the schema up to date. On a server, a store begins with the newest one; its migrations are those after."""
    from alembic import command  # 0.3 s, and needed only for a new store or after an update
    from alembic.config import Config

    home.mark(connection)
    config = Config()
    config.set_main_option("script_location", "tamis.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    if version == 0 and connection.dialect.name == "postgresql":
        metadata.create_all(connection)
        command.stamp(config, "head")
    else:
        command.upgrade(config, "head")


def chunks(values: Sequence[str], size: int = 500) -> Iterator[Sequence[str]]:
    """Split `values` into pieces for IN lists; SQLite allows 32,766 variables per statement."""
    return (values[start : start + size] for start in range(0, len(values), size))
