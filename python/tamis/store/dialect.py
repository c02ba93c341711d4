"""Writes what SQLite and PostgreSQL call by different names, so that the rest of the store has one text for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import DDL, ColumnElement, Connection, Integer, MetaData, String, Table, event, literal_column
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


def insert_new(connection: Connection, table: Table) -> Any:
    """Return an INSERT that does not change existing rows."""
    return _insert(connection, table).on_conflict_do_nothing()


def insert_or_update(connection: Connection, table: Table, row: dict[str, Any], changed: Sequence[str]) -> Any:
    """Return an INSERT of a row. If a row has this primary key, it sets the `changed` columns instead."""
    values = {name: row[name] for name in changed}
    key = list(table.primary_key.columns)
    return _insert(connection, table).values(row).on_conflict_do_update(index_elements=key, set_=values)


def is_postgres(connection: Connection) -> bool:
    """Return whether the store is on a PostgreSQL server."""
    return connection.dialect.name == "postgresql"


def _insert(connection: Connection, table: Table) -> Any:
    return postgresql.insert(table) if is_postgres(connection) else sqlite.insert(table)


def row_number(table: Table) -> ColumnElement[int]:
    """Return the number of a row, in the order of adding; a column that SQLite has by itself."""
    return literal_column(f"{table.name}.rowid", Integer)


class JsonMember(FunctionElement[str]):
    """The text of a member of JSON text; null if it has none, or is not JSON: ``JsonMember(column, name)``."""

    type = String()
    inherit_cache = True
    name = "json_member"


class Find(FunctionElement[int]):
    """The place of a text, or of bytes, in another, from 1; 0 if it is not there: ``Find(within, wanted)``."""

    type = Integer()
    inherit_cache = True
    name = "find"


class Minute(FunctionElement[str]):
    """A time to the minute, as ``2026-11-21 12:00``; null if the text is no time: ``Minute(time or text)``."""

    type = String()
    inherit_cache = True
    name = "minute"


class Elements(FunctionElement[Any]):
    """The texts of a JSON array, for `table_valued`: columns ``value`` and ``id``, their order."""

    inherit_cache = True
    name = "elements"


def elements(array: Any) -> Any:
    """Return the texts of a JSON array as rows, with the columns ``value`` and ``id``, which tells their order."""
    return Elements(array).table_valued("value", "id", joins_implicitly=True)


@compiles(JsonMember, "sqlite")
def _json_member_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    text, name = (compiler.process(it, **options) for it in element.clauses)
    return f"CASE WHEN json_valid({text}) THEN json_extract({text}, '$.' || {name}) END"


@compiles(JsonMember, "postgresql")
def _json_member_postgres(element: Any, compiler: Any, **options: Any) -> str:
    text, name = (compiler.process(it, **options) for it in element.clauses)
    return f"tamis_json_member({text}, {name})"


@compiles(Find, "sqlite")
def _find_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    within, wanted = (compiler.process(it, **options) for it in element.clauses)
    return f"instr({within}, {wanted})"


@compiles(Find, "postgresql")
def _find_postgres(element: Any, compiler: Any, **options: Any) -> str:
    within, wanted = (compiler.process(it, **options) for it in element.clauses)
    return f"position({wanted} IN {within})"


@compiles(Minute, "sqlite")
def _minute_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"strftime('%Y-%m-%d %H:%M', {compiler.process(element.clauses, **options)})"


@compiles(Minute, "postgresql")
def _minute_postgres(element: Any, compiler: Any, **options: Any) -> str:
    return f"tamis_minute(CAST({compiler.process(element.clauses, **options)} AS text))"


@compiles(Elements, "sqlite")
def _elements_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(Elements, "postgresql")
def _elements_postgres(element: Any, compiler: Any, **options: Any) -> str:
    return f"tamis_elements({compiler.process(element.clauses, **options)})"


_JSON_MEMBER = """
CREATE OR REPLACE FUNCTION tamis_json_member(content text, name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
RETURN content::json ->> name; EXCEPTION WHEN data_exception THEN RETURN NULL; END $$
"""
_MINUTE = """
CREATE OR REPLACE FUNCTION tamis_minute(content text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
RETURN to_char((content::timestamptz) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI');
EXCEPTION WHEN data_exception THEN RETURN NULL; END $$
"""
_ELEMENTS = """
CREATE OR REPLACE FUNCTION tamis_elements(list json) RETURNS TABLE (value text, id bigint)
LANGUAGE sql IMMUTABLE AS $$ SELECT * FROM json_array_elements_text(list) WITH ORDINALITY $$
"""


def add_to_schema(metadata: MetaData, numbered: Sequence[Table]) -> None:
    """Let a new schema on PostgreSQL have what SQLite has by itself: functions, and numbers of rows."""
    for text in (_JSON_MEMBER, _MINUTE, _ELEMENTS):
        _on_postgres(metadata, text)
    for table in numbered:
        _on_postgres(table, f"ALTER TABLE {table.name} ADD COLUMN rowid bigint GENERATED ALWAYS AS IDENTITY UNIQUE")


def _on_postgres(target: MetaData | Table, text: str) -> None:
    statement = DDL(text)  # type: ignore[no-untyped-call]
    event.listen(target, "after_create", statement.execute_if(dialect="postgresql"))
