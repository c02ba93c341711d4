"""The channel ``database``: inserts one row per notification into a table of an SQLite file or a PostgreSQL server.

A row that is there already is left alone, so that a delivery that is repeated after a crash adds nothing. The columns
are those of a line of ``jsonl``, and the owner; a table of the user's own may have only some of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import JSON, BigInteger, Column, DateTime, Integer, MetaData, String, Table, create_engine, exc, inspect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.pool import NullPool

from tamis.config.deliveries import DatabaseDelivery
from tamis.notify.channels.channel import ChannelError, Sent
from tamis.notify.channels.rows import COLUMNS, Kind, Row, rows_of
from tamis.notify.channels.waiting import Waiting
from tamis.store import DueDelivery

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_GRACE_S = 5.0  # a later error of the database itself explains more than ours
_CONNECT_TIMEOUT_S_MIN = 2  # libpq raises a smaller value to this
_Json = JSON().with_variant(postgresql.JSONB(), "postgresql")
_Time = String().with_variant(DateTime(timezone=True), "postgresql")
_TYPES: Mapping[Kind, Any] = {
    "text": String,
    "int32": Integer,
    "int64": BigInteger,
    "time": _Time,
    "json": _Json,
    "texts": _Json,
    "ranges": _Json,
}


class DatabaseChannel:
    """Inserts rows in transactions of up to 500, each through a connection of its own.

    Raises:
        ConfigError: the password is not where it should be.
    """

    batch_count = 500

    def __init__(self, config: DatabaseDelivery) -> None:
        """Make the channel; nothing is connected yet."""
        self._config, self._engine, self._waiting = config, _engine(config), Waiting()
        self._table: Table | None = None  # as the database has it

    def open(self) -> None:
        """Check that the last try has ended.

        Raises:
            ChannelError: it was given up, and still waits for the database.
        """
        self._waiting.check()

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Insert a row for each, in one transaction; if the database refuses one, each in its own.

        Raises:
            ChannelTimeoutError: the database took longer than `timeout_s`.
            ChannelError: it cannot be reached, or has no such table.
        """
        rows, failures = rows_of(due)
        sent = Sent(failures)
        try:
            self._waiting.run(lambda: self._insert(rows, sent), self._config.timeout_s + _GRACE_S, self._where)
        except exc.SQLAlchemyError as error:
            self._table = None  # it may have been changed
            raise ChannelError(f"{self._where}: {_reason(error)}") from error
        return sent

    def interrupt(self) -> None:
        """Interrupt the insertion in progress. If it is repeated, it changes nothing."""
        self._waiting.interrupt()

    def close(self) -> None:
        """Do nothing: a connection ends with its transaction."""

    @property
    def _where(self) -> str:
        return f"{self._config.url}: table {self._config.table}"

    def _insert(self, rows: Mapping[int, Row], sent: Sent) -> None:
        table = self._table = self._table if self._table is not None else self._find_table()
        try:
            self._insert_all(table, list(rows.values()))
        except exc.DBAPIError as error:
            if not _is_of_a_row(error):
                raise
            for number, row in rows.items():
                self._insert_alone(table, number, row, sent)

    def _insert_alone(self, table: Table, number: int, row: Row, sent: Sent) -> None:
        try:
            self._insert_all(table, [row])
        except exc.DBAPIError as error:
            if not _is_of_a_row(error):
                raise
            sent.failures[number] = _reason(error)

    def _insert_all(self, table: Table, rows: Sequence[Row]) -> None:
        if rows:
            with self._engine.begin() as connection:
                insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
                statement: Any = insert(table)
                fitting = [{name: _fit(row[name], table.c[name]) for name in _names(table)} for row in rows]
                connection.execute(statement.on_conflict_do_nothing(index_elements=["id"]), fitting)

    def _find_table(self) -> Table:
        """Return the table as the database has it; it is made if it is absent and should be made."""
        schema, _, name = self._config.table.rpartition(".")
        with self._engine.begin() as connection:
            if not inspect(connection).has_table(name, schema=schema or None):
                self._create(connection, name, schema or None)
            table = Table(name, MetaData(), schema=schema or None, autoload_with=connection)
        if "id" not in table.c:
            raise ChannelError(f"{self._where}: it has no column 'id', by which a row is known")
        return table

    def _create(self, connection: Connection, name: str, schema: str | None) -> None:
        if not self._config.create:
            raise ChannelError(f"{self._where}: there is no such table; make it, or set create = true")
        columns = [
            Column(column, _TYPES[kind], primary_key=column == "id", nullable=column == "body")
            for column, kind in COLUMNS.items()
        ]
        Table(name, MetaData(), *columns, schema=schema).create(connection)


def _engine(config: DatabaseDelivery) -> Engine:
    timeout_s, file = config.timeout_s, config.file
    if file is not None:
        uri = f"file:{quote(str(file.absolute()))}?mode={'rwc' if config.create else 'rw'}"
        return create_engine(
            "sqlite://", creator=lambda: sqlite3.connect(uri, uri=True, timeout=timeout_s), poolclass=NullPool
        )
    import psycopg  # an extra
    from psycopg.conninfo import conninfo_to_dict

    url, password, milliseconds = str(config.url), config.password(), int(timeout_s * 1000)
    given = conninfo_to_dict(url).get("options") or ""
    settings: dict[str, Any] = {
        "connect_timeout": max(int(timeout_s), _CONNECT_TIMEOUT_S_MIN),
        "options": f"{given} -c statement_timeout={milliseconds} -c lock_timeout={milliseconds}",
        "keepalives_idle": 30,  # an abandoned connection ends even if the server disappears silently
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    if password is not None:
        settings["password"] = password
    return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url, **settings), poolclass=NullPool)


def _names(table: Table) -> list[str]:
    return [name for name in COLUMNS if name in table.c]


def _fit(value: Any, column: Column[Any]) -> Any:
    """Return the value in the type of the column: in a column of text, JSON and times are texts."""
    if isinstance(column.type, DateTime) and column.name == "created_at":
        at = datetime.fromisoformat(value)
        return at if column.type.timezone else at.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, list | dict) and not isinstance(column.type, JSON):
        return json.dumps(value, ensure_ascii=False)
    return value


def _reason(error: exc.SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    return " ".join(str(cause).split())[:300] or type(error).__name__


def _is_of_a_row(error: exc.DBAPIError) -> bool:
    """Return whether the database refuses a row: for its values, their size, or by a trigger's word."""
    state = getattr(error.orig, "sqlstate", None) or ""
    return isinstance(error, exc.DataError | exc.IntegrityError) or state[:2] in ("54", "P0")
