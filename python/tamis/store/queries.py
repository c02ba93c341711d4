"""Stores queries with their versions and owners, and which of them were valid at each revision."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, func, insert, or_, select, union, update

from tamis.store.database import Database, chunks
from tamis.store.hierarchies import put_hierarchies, valid_hierarchies
from tamis.store.models import query_versions, revisions
from tamis.store.records import CONTENT, ImportCounts, QueryRecord
from tamis.store.revisions import Revision, current_revision, has_expired, revision_now

if TYPE_CHECKING:
    from tamis.query import Query, QuerySpec

_q = query_versions.c
_READ_TOGETHER = 1_000
_VALID_NOW = _q.to_revision.is_(None)


class Queries(Database):
    """The part of the store that keeps queries. Every change of queries is one new revision."""

    _acting: str | None = None

    def as_owner(self, name: str) -> Queries:
        """Return the queries of this store as an owner may use them: read all, change their own.

        What they add is theirs. To change, pause, remove or undo another's query, to take one without an owner, or to
        give one away is a NotAllowedError, and nothing is changed. It shares the connections of this store; close that.

        Raises:
            ValueError: the name is empty.
        """
        if not name:
            raise ValueError("name: expected the name of an owner, not an empty one")
        queries = Queries.__new__(Queries)
        vars(queries).update(vars(self))
        queries._acting = name
        return queries

    def _revision(self, connection: Connection) -> Revision:
        return Revision(connection, acting=self._acting)

    def _own(self, specs: Iterable[QuerySpec]) -> Iterator[QuerySpec]:
        """Yield the specs; those without an owner become the acting owner's."""
        for spec in specs:
            yield replace(spec, owner=self._acting) if self._acting and not spec.owner else spec

    def add_query(self, spec: QuerySpec) -> QueryRecord:
        """Add a query, or a new version of it if the key exists with other content.

        Returns:
            The version that is valid now, which is the existing one if nothing changed.

        Raises:
            QueryError: the text cannot be read; nothing was changed.
            ConfigError: the language is unknown, or UNDER asks for a hierarchy that the store does not have.
            StoreError: the query belongs to a file, which the text names, with other content.
            NotAllowedError: see `as_owner`; this holds for all changes of queries.
            ValueError: the key is empty.
        """
        return self.add_queries([spec])[0]

    def add_queries(self, specs: Iterable[QuerySpec]) -> list[QueryRecord]:
        """Add many queries in one transaction and one revision: all, or none if one cannot be read.

        If a key occurs twice, its last query counts. Cost: about 20 µs per query, and its compilation.

        Returns:
            The valid version of each, in the order given.

        Raises:
            The same as `add_query`.
        """
        wanted, with_under = _checked(self._own(specs))
        with self._write() as connection:
            _refuse_missing(connection, with_under)
            put_queries(self._revision(connection), list(wanted.values()))
            records = _current(connection, list(wanted))
        return [records[key] for key in wanted]

    def import_queries(self, path: str | Path) -> ImportCounts:
        """Copy the queries of a file, each as if it were added by hand. The file has no further effect on them.

        Raises:
            ConfigError: the file or a query in it cannot be read; the text has file, line, and a caret.
            StoreError: a query belongs to another file, with other content.
        """
        from tamis.query import compile_in_file, load_queries

        specs = list(self._own(load_queries(path)))
        with_under = [
            (f"query '{spec.key}'", query) for spec in specs if (query := compile_in_file(path, spec)).hierarchies
        ]
        with self._write() as connection:
            _refuse_missing(connection, with_under)
            return _imported(self._revision(connection), specs)

    def copy_store(self, other: Queries) -> ImportCounts:
        """Copy the valid queries and hierarchies of another store, each as if it were added by hand.

        Raises:
            StoreError: a query or hierarchy belongs to a file here, with other content; or a store cannot be used.
        """
        from tamis.query import HierarchySpec

        with other._read() as connection:
            hierarchies = valid_hierarchies(connection).values()
        specs = [record.spec() for record in other.list_queries()]
        with self._write() as connection:
            revision = self._revision(connection)
            put_hierarchies(revision, [HierarchySpec(it.attribute, it.parents) for it in hierarchies])
            return _imported(revision, specs)

    def remove_query(self, key: str) -> None:
        """End the query `key`: from the next batch on it does not match. Its versions and matches stay on record.

        Raises:
            KeyError: there is no such query.
            StoreError: it belongs to a file, which the text names.
        """
        with self._write() as connection:
            _end_by_hand(self._revision(connection), key)

    def undo_query(self, key: str) -> QueryRecord | None:
        """Take back the last change of the query `key`; calling it twice changes nothing.

        What was changed gets its former content, as a new version. What was removed is added again, and what was added
        is removed. Versions are never deleted: notifications refer to them.

        Returns:
            The version that is valid now, or None if there is none.

        Raises:
            KeyError: there never was such a query.
            StoreError: it belongs to a file, which the text names.
            ConfigError: the former content has UNDER, and its hierarchy was removed.
        """
        with self._write() as connection:
            former = _former(connection, key)
            if former is not None:
                spec = former.spec()
                _refuse_missing(connection, [(f"query '{key}'", spec.compile())])
                put_queries(self._revision(connection), [spec])
            else:
                _end_by_hand(self._revision(connection), key)
            return _current(connection, [key]).get(key)

    def pause_query(self, key: str) -> QueryRecord:
        """Let the query `key` match nothing from the next batch on, as a new version; if it is paused, nothing changes.

        Returns:
            The version that is valid now.

        Raises:
            KeyError: there is no such query.
            StoreError: it belongs to a file, which the text names.
        """
        return self._replace(key, paused=True)

    def resume_query(self, key: str) -> QueryRecord:
        """Let the paused query `key` match again; what was read meanwhile is not matched. An expired one stays expired.

        Returns and raises the same as `pause_query`.
        """
        return self._replace(key, paused=False)

    def expire_query(self, key: str, at: datetime | None) -> QueryRecord:
        """Let the query `key` match nothing in batches that begin at this aware time or later; None: it never expires.

        Returns and raises the same as `pause_query`.
        """
        return self._replace(key, expires_at=at)

    def _replace(self, key: str, **content: Any) -> QueryRecord:
        with self._write() as connection:
            record = _current(connection, [key])[key]
            put_queries(self._revision(connection), [replace(record.spec(), **content)])
            return _current(connection, [key])[key]

    def get_query(self, key: str) -> QueryRecord:
        """Return the valid version of the query `key`.

        Raises:
            KeyError: there is no such query.
        """
        with self._read() as connection:
            return _current(connection, [key])[key]

    def list_queries(self, owner: str | None = None, tags: Collection[str] = ()) -> list[QueryRecord]:
        """Return the valid queries of one owner or of all, in the order in which their keys were added.

        Args:
            owner: only queries of this owner; None: of all.
            tags: only queries that have all of these.
        """
        of_owner = [] if owner is None else [_q.owner == owner]
        with self._read() as connection:
            records = _select(connection, _VALID_NOW, *of_owner)
        return [record for record in records if set(tags).issubset(record.tags)]

    def query_history(self, key: str) -> list[QueryRecord]:
        """Return every version that the query `key` ever had, oldest first; empty for an unknown key."""
        with self._read() as connection:
            records = _select(connection, _q.key == key)
        return sorted(records, key=lambda record: record.version)

    def revision(self) -> int:
        """Return the number of the last change of queries, which only grows; 0 if there was none."""
        with self._read() as connection:
            return current_revision(connection)

    def matching_revision(self) -> int:
        """Return the revision whose queries match now: the newest, or a new one if a query has expired since."""
        with self._read() as connection:
            if not has_expired(connection):
                return current_revision(connection)
        with self._write() as connection:
            return revision_now(connection)

    def queries_at(self, revision: int) -> list[QueryRecord]:
        """Return the queries that match at `revision`, in the order in which their keys were added.

        Paused queries do not match, nor those that had expired when the revision was made. A key that was removed and
        added again has the position of its second addition, as in a dict.
        """
        with self._read() as connection:
            return _select(connection, *_matches_at(revision))

    def each_query_at(self, revision: int) -> Iterator[QueryRecord]:
        """Yield those of `queries_at`. Memory: for a few thousand of them."""
        statement = select(*_COLUMNS).where(*_matches_at(revision)).order_by(_q.position)
        with self._read() as connection:
            yield from map(_record, connection.execution_options(yield_per=_READ_TOGETHER).execute(statement))

    def queries_of(self, keys: Collection[str], revision: int) -> list[QueryRecord]:
        """Return those of `queries_at` that have one of the given keys. Cost: linear in the keys."""
        with self._read() as connection:
            return [
                record
                for some in chunks(sorted(keys))
                for record in _select(connection, _q.key.in_(some), *_matches_at(revision))
            ]

    def changed_keys(self, revision: int, other: int) -> set[str]:
        """Return the keys of all queries that differ in `queries_at` of two revisions, and perhaps of some that do not.

        Cost: linear in the changes between the two.
        """
        first, last = sorted((revision, other))
        r = revisions.c
        # Revisions that nothing refers to are pruned: their neighbours' times make the span longer, which does no harm.
        made_first = select(func.max(r.created_at)).where(r.revision <= first).scalar_subquery()
        made_last = select(func.min(r.created_at)).where(r.revision >= last).scalar_subquery()
        spans = (
            (_q.from_revision > first, _q.from_revision <= last),
            (_q.to_revision > first, _q.to_revision <= last),
            (or_(made_first.is_(None), _q.expires_at > made_first), _q.expires_at <= made_last),
        )
        # A statement for each, since one with OR would read every query.
        statement = union(*(select(_q.key).where(*span) for span in spans))
        with self._read() as connection:
            return set(connection.execute(statement).scalars())


def _matches_at(revision: int) -> tuple[ColumnElement[bool], ...]:
    """The conditions of the queries that match at a revision."""
    made_at = select(revisions.c.created_at).where(revisions.c.revision == revision).scalar_subquery()
    return (
        _q.from_revision <= revision,
        or_(_q.to_revision.is_(None), _q.to_revision > revision),
        ~_q.paused,
        or_(_q.expires_at.is_(None), _q.expires_at > made_at),
    )


def _checked(specs: Iterable[QuerySpec]) -> tuple[dict[str, QuerySpec], list[tuple[str, Query]]]:
    """Return the specs by key, each compiled once as a check; and the queries with UNDER, by their names in errors."""
    wanted, with_under = {}, []
    for spec in specs:
        if not spec.key:
            raise ValueError("a query needs a key")
        query = spec.compile()
        if query.hierarchies:
            with_under.append((f"query '{spec.key}'", query))
        wanted[spec.key] = spec
    return wanted, with_under


def _refuse_missing(connection: Connection, with_under: Sequence[tuple[str, Query]]) -> None:
    from tamis.query.hierarchy import refuse_missing

    if with_under:
        refuse_missing(with_under, valid_hierarchies(connection))


def _imported(revision: Revision, specs: Sequence[QuerySpec]) -> ImportCounts:
    changed = put_queries(revision, specs)
    replaced = sum(before is not None for before, _ in changed)
    return ImportCounts(len(changed) - replaced, replaced, len(specs) - len(changed))


def put_queries(revision: Revision, specs: Sequence[QuerySpec]) -> list[tuple[QueryRecord | None, QuerySpec]]:
    """Make each spec the valid version of its key; equal ones do not change.

    Args:
        revision: the revision of the change, with the file of the specs.
        specs: the specs, which were compiled before.

    Returns:
        The changes: the record before, or None, and the spec.

    Raises:
        StoreError: a query belongs to another file, with other content.
        NotAllowedError: a query is not the acting owner's, or would not be.
    """
    current = _current(revision.connection, [spec.key for spec in specs])
    changed: list[tuple[QueryRecord | None, QuerySpec]] = []
    adopted = []
    for spec in specs:
        before = current.get(spec.key)
        is_same = before is not None and _same(spec, before)
        if before is not None and (not is_same or revision.origin not in (None, before.origin)):
            revision.refuse_others(f"query '{spec.key}'", before.origin)
            revision.refuse_strangers(spec.key, before.owner)
            adopted += [spec.key] * is_same
        if not is_same:
            revision.refuse_strangers(spec.key, spec.owner)
            changed.append((before, spec))
    if changed:
        _insert_versions(revision, [spec for _, spec in changed])
    _set_origin(revision, adopted)
    return changed


def end_queries(revision: Revision, keys: Iterable[str]) -> None:
    """End the valid versions of some queries."""
    rows = [{"ended": key} for key in keys]
    if rows:
        end = update(query_versions).where(_q.key == bindparam("ended"), _VALID_NOW)
        revision.connection.execute(end.values(to_revision=revision.number), rows)


def _end_by_hand(revision: Revision, key: str) -> None:
    """End one query, unless a file or another owner has it."""
    record = _current(revision.connection, [key])[key]
    revision.refuse_others(f"query '{key}'", record.origin)
    revision.refuse_strangers(key, record.owner)
    end_queries(revision, [key])


def queries_of_file(connection: Connection, origin: str) -> list[QueryRecord]:
    """Return the valid queries that stand in a file."""
    return _select(connection, _VALID_NOW, _q.origin == origin)


def origins_of_queries(connection: Connection) -> set[str]:
    """Return the files in which valid queries stand."""
    return set(connection.execute(select(_q.origin).where(_VALID_NOW, _q.origin.is_not(None)).distinct()).scalars())


def _set_origin(revision: Revision, keys: Sequence[str]) -> None:
    if keys:
        of_key = update(query_versions).where(_q.key == bindparam("adopted"), _VALID_NOW)
        revision.connection.execute(of_key.values(origin=revision.origin), [{"adopted": key} for key in keys])


def _same(spec: QuerySpec, record: QueryRecord) -> bool:
    return content_of(spec) == content_of(record)


def content_of(query: QueryRecord | QuerySpec) -> dict[str, Any]:
    """Return the fields of `CONTENT`, with tuples for lists."""
    content = {name: getattr(query, name) for name in CONTENT}
    return content | {name: tuple(content[name]) for name in ("tags", "deliveries")}


def _insert_versions(revision: Revision, specs: Sequence[QuerySpec]) -> None:
    connection = revision.connection
    keys = [spec.key for spec in specs]
    versions, positions = _last_versions(connection, keys), _positions(connection, keys)
    end_queries(revision, positions)
    next_position = connection.execute(select(func.coalesce(func.max(_q.position), 0))).scalar_one() + 1
    rows: list[dict[str, Any]] = []
    for index, spec in enumerate(specs):
        rows.append(
            {
                "key": spec.key,
                "version": versions.get(spec.key, 0) + 1,
                "position": positions.get(spec.key, next_position + index),
                "text": spec.text,
                "language": spec.language,
                "owner": spec.owner,
                "tags": list(spec.tags),
                "deliveries": list(spec.deliveries),
                "paused": spec.paused,
                "expires_at": spec.expires_at,
                "created_at": revision.now,
                "from_revision": revision.number,
                "origin": revision.origin,
            }
        )
    connection.execute(insert(query_versions), rows)


def _former(connection: Connection, key: str) -> QueryRecord | None:
    """Return what was valid before the last change of a query, or None if nothing was.

    Raises:
        KeyError: there never was such a query.
    """
    spans = select(_q.version, _q.from_revision, _q.to_revision).where(_q.key == key).order_by(_q.version.desc())
    rows = connection.execute(spans.limit(2)).all()
    if not rows:
        raise KeyError(key)
    last, *earlier = rows
    if last.to_revision is not None:
        version = last.version
    elif earlier and earlier[0].to_revision == last.from_revision:
        version = earlier[0].version
    else:
        return None
    return _select(connection, _q.key == key, _q.version == version)[0]


def _last_versions(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    """Return the highest version that each key ever had."""
    versions: dict[str, int] = {}
    for some in chunks(keys):
        statement = select(_q.key, func.max(_q.version)).where(_q.key.in_(some)).group_by(_q.key)
        versions.update((key, version) for key, version in connection.execute(statement))
    return versions


def _positions(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    """Return the position in the order of adding of each key that is valid now."""
    positions: dict[str, int] = {}
    for some in chunks(keys):
        statement = select(_q.key, _q.position).where(_q.key.in_(some), _VALID_NOW)
        positions.update((key, position) for key, position in connection.execute(statement))
    return positions


def _current(connection: Connection, keys: Sequence[str]) -> dict[str, QueryRecord]:
    """Return the valid version of each of `keys` that has one."""
    records: dict[str, QueryRecord] = {}
    for some in chunks(keys):
        records.update((record.key, record) for record in _select(connection, _q.key.in_(some), _VALID_NOW))
    return records


_COLUMNS = [_q[field.name] for field in fields(QueryRecord)]


def _select(connection: Connection, *conditions: ColumnElement[bool]) -> list[QueryRecord]:
    return [_record(row) for row in connection.execute(select(*_COLUMNS).where(*conditions).order_by(_q.position))]


def _record(row: Row[*tuple[Any, ...]]) -> QueryRecord:
    values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in row]
    return QueryRecord(*values)
