"""Stores queries with their versions and owners, and which of them were valid at each revision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, func, insert, or_, select, update

from tamis.store.database import Database, chunks
from tamis.store.models import query_versions, revisions
from tamis.store.records import ImportCounts, QueryRecord

if TYPE_CHECKING:
    from tamis.query import QuerySpec

_q = query_versions.c
_VALID_NOW = _q.to_revision.is_(None)


class Queries(Database):
    """The part of the store that keeps queries. Every change of queries is one new revision."""

    def add_query(self, spec: QuerySpec) -> QueryRecord:
        """Add a query, or a new version of it if the key exists with other content.

        Returns:
            The version that is valid now, which is the existing one if nothing changed.

        Raises:
            QueryError: the text cannot be read; nothing was changed.
            ConfigError: the language is unknown.
            ValueError: the key is empty.
        """
        return self.add_queries([spec])[0]

    def add_queries(self, specs: Iterable[QuerySpec]) -> list[QueryRecord]:
        """Add many queries in one transaction and one revision: all, or none if one cannot be read.

        If a key occurs twice, its last query counts. Cost: about 20 µs per query, and its compilation.

        Returns:
            The valid version of each, in the order given.

        Raises:
            As `add_query`.
        """
        wanted = _checked(specs)
        with self._write() as connection:
            _put(connection, list(wanted.values()))
            records = _current(connection, list(wanted))
        return [records[key] for key in wanted]

    def import_queries(self, path: str | Path) -> ImportCounts:
        """Add the queries of a file in one transaction. Queries that are not in the file stay as they are.

        Raises:
            ConfigError: the file or a query in it cannot be read; the text has file, line, and a caret.
        """
        from tamis.query import compile_in_file, load_queries

        specs = load_queries(path)
        for spec in specs:
            compile_in_file(path, spec)
        with self._write() as connection:
            return _put(connection, specs)

    def remove_query(self, key: str) -> None:
        """End the query `key`: from the next batch on it does not match. Its versions and matches stay on record.

        Raises:
            KeyError: there is no such query.
        """
        with self._write() as connection:
            if key not in _current(connection, [key]):
                raise KeyError(key)
            revision = _new_revision(connection, datetime.now(UTC))
            connection.execute(update(query_versions).where(_q.key == key, _VALID_NOW).values(to_revision=revision))

    def get_query(self, key: str) -> QueryRecord:
        """The valid version of the query `key`.

        Raises:
            KeyError: there is no such query.
        """
        with self._read() as connection:
            return _current(connection, [key])[key]

    def list_queries(self, owner: str | None = None) -> list[QueryRecord]:
        """The valid queries, of one owner or of all, in the order in which their keys were added."""
        of_owner = [] if owner is None else [_q.owner == owner]
        with self._read() as connection:
            return _select(connection, _VALID_NOW, *of_owner)

    def query_history(self, key: str) -> list[QueryRecord]:
        """Every version that the query `key` ever had, oldest first; empty for an unknown key."""
        with self._read() as connection:
            records = _select(connection, _q.key == key)
        return sorted(records, key=lambda record: record.version)

    def revision(self) -> int:
        """The number of the last change of queries, which only grows; 0 if there was none."""
        with self._read() as connection:
            return current_revision(connection)

    def queries_at(self, revision: int) -> list[QueryRecord]:
        """The queries valid at `revision`, in the order in which their keys were added.

        A key that was removed and added again has the position of its second addition, as in a dict.
        """
        with self._read() as connection:
            return _select(
                connection, _q.from_revision <= revision, or_(_q.to_revision.is_(None), _q.to_revision > revision)
            )


def current_revision(connection: Connection) -> int:
    """The newest revision that this transaction sees."""
    return int(connection.execute(select(func.coalesce(func.max(revisions.c.revision), 0))).scalar_one())


def _checked(specs: Iterable[QuerySpec]) -> dict[str, QuerySpec]:
    """The specs by key, each compiled once as a check."""
    wanted = {}
    for spec in specs:
        if not spec.key:
            raise ValueError("a query needs a key")
        spec.compile()
        wanted[spec.key] = spec
    return wanted


def _put(connection: Connection, specs: Sequence[QuerySpec]) -> ImportCounts:
    """Make each spec the valid version of its key; those that already are stay."""
    current = _current(connection, [spec.key for spec in specs])
    changed = [spec for spec in specs if spec.key not in current or not _same(spec, current[spec.key])]
    if changed:
        _insert_versions(connection, changed)
    replaced = sum(spec.key in current for spec in changed)
    return ImportCounts(len(changed) - replaced, replaced, len(specs) - len(changed))


def _same(spec: QuerySpec, record: QueryRecord) -> bool:
    return (spec.text, spec.language, spec.owner, tuple(spec.tags), tuple(spec.deliveries)) == (
        record.text,
        record.language,
        record.owner,
        record.tags,
        record.deliveries,
    )


def _insert_versions(connection: Connection, specs: Sequence[QuerySpec]) -> None:
    now = datetime.now(UTC)
    revision = _new_revision(connection, now)
    keys = [spec.key for spec in specs]
    versions, positions = _last_versions(connection, keys), _positions(connection, keys)
    end = update(query_versions).where(_q.key == bindparam("ended"), _VALID_NOW).values(to_revision=revision)
    if positions:
        connection.execute(end, [{"ended": key} for key in positions])
    next_position = connection.execute(select(func.coalesce(func.max(_q.place), 0))).scalar_one() + 1
    rows: list[dict[str, Any]] = []
    for index, spec in enumerate(specs):
        rows.append(
            {
                "key": spec.key,
                "version": versions.get(spec.key, 0) + 1,
                "place": positions.get(spec.key, next_position + index),
                "text": spec.text,
                "language": spec.language,
                "owner": spec.owner,
                "tags": list(spec.tags),
                "deliveries": list(spec.deliveries),
                "created_at": now,
                "from_revision": revision,
            }
        )
    connection.execute(insert(query_versions), rows)


def _new_revision(connection: Connection, now: datetime) -> int:
    result = connection.execute(insert(revisions).values(created_at=now))
    assert result.inserted_primary_key is not None  # noqa: S101 - SQLite always tells; for the type checker
    return int(result.inserted_primary_key[0])


def _last_versions(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    """The highest version that each key ever had."""
    versions: dict[str, int] = {}
    for some in chunks(keys):
        statement = select(_q.key, func.max(_q.version)).where(_q.key.in_(some)).group_by(_q.key)
        versions.update((key, version) for key, version in connection.execute(statement))
    return versions


def _positions(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    """The position in the order of adding of each key that is valid now."""
    positions: dict[str, int] = {}
    for some in chunks(keys):
        statement = select(_q.key, _q.place).where(_q.key.in_(some), _VALID_NOW)
        positions.update((key, position) for key, position in connection.execute(statement))
    return positions


def _current(connection: Connection, keys: Sequence[str]) -> dict[str, QueryRecord]:
    """The valid version of each of `keys` that has one."""
    records: dict[str, QueryRecord] = {}
    for some in chunks(keys):
        records.update((record.key, record) for record in _select(connection, _q.key.in_(some), _VALID_NOW))
    return records


_COLUMNS = (_q.key, _q.version, _q.text, _q.language, _q.owner, _q.tags, _q.deliveries, _q.created_at)


def _select(connection: Connection, *conditions: ColumnElement[bool]) -> list[QueryRecord]:
    return [_record(row) for row in connection.execute(select(*_COLUMNS).where(*conditions).order_by(_q.place))]


def _record(row: Row[*tuple[Any, ...]]) -> QueryRecord:
    key, version, text, language, owner, tags, deliveries, created_at = row
    return QueryRecord(key, version, text, language, owner, tuple(tags), tuple(deliveries), created_at)
