"""Stores hierarchies with their versions, and which of them were valid at each revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, insert, or_, select, update

from tamis.errors import ConfigError
from tamis.query import QuerySpec
from tamis.query.hierarchy import HierarchySpec, Parents, checked_parents, refuse_missing
from tamis.store.database import Database
from tamis.store.models import hierarchy_versions, query_versions
from tamis.store.records import HierarchyRecord
from tamis.store.revisions import Revision

_h = hierarchy_versions.c
_VALID_NOW = _h.to_revision.is_(None)


class Hierarchies(Database):
    """The part of the store that keeps hierarchies. A change counts for every query from the next batch on."""

    def set_hierarchy(self, attribute: str, parents: Parents) -> HierarchyRecord:
        """Replace the hierarchy of an attribute; an equal one changes nothing.

        Args:
            attribute: the name of the property.
            parents: value -> its parent, or None for a root.

        Returns:
            The version that is valid now.

        Raises:
            ConfigError: the attribute is empty, there is a cycle, or a parent is not a value of the hierarchy.
            StoreError: the hierarchy belongs to a file, which the text names.
        """
        if not attribute:
            raise ConfigError("a hierarchy needs an attribute: the name of a property")
        spec = HierarchySpec(attribute, checked_parents(parents, f"the hierarchy of '{attribute}'"))
        with self._write() as connection:
            put_hierarchies(Revision(connection), [spec])
            return valid_hierarchies(connection)[attribute]

    def remove_hierarchy(self, attribute: str) -> None:
        """End the hierarchy of an attribute. Its versions stay on record.

        Raises:
            KeyError: there is none.
            ConfigError: a query needs it.
            StoreError: it belongs to a file, which the text names.
        """
        with self._write() as connection:
            current = valid_hierarchies(connection).get(attribute)
            if current is None:
                raise KeyError(attribute)
            revision = Revision(connection)
            revision.refuse_others(f"the hierarchy of '{attribute}'", current.origin)
            end_hierarchies(revision, [attribute])
            refuse_under_without_hierarchy(connection)

    def list_hierarchies(self) -> list[HierarchyRecord]:
        """Return the valid hierarchies, by attribute."""
        with self._read() as connection:
            return list(valid_hierarchies(connection).values())

    def hierarchy_history(self, attribute: str) -> list[HierarchyRecord]:
        """Return every version that the hierarchy of an attribute ever had, oldest first; empty if it never had one."""
        with self._read() as connection:
            return _select(connection, _h.attribute == attribute)

    def hierarchies_at(self, revision: int) -> dict[str, Parents]:
        """Return attribute -> hierarchy, of those valid at `revision`."""
        valid = (_h.from_revision <= revision, or_(_h.to_revision.is_(None), _h.to_revision > revision))
        with self._read() as connection:
            return {record.attribute: record.parents for record in _select(connection, *valid)}


def valid_hierarchies(connection: Connection) -> dict[str, HierarchyRecord]:
    """Return attribute -> the valid version of its hierarchy, by attribute."""
    return {record.attribute: record for record in _select(connection, _VALID_NOW)}


def put_hierarchies(
    revision: Revision, specs: Iterable[HierarchySpec]
) -> list[tuple[HierarchyRecord | None, HierarchySpec]]:
    """Make each spec the valid hierarchy of its attribute; equal ones do not change.

    Returns:
        The changes: the record before, or None, and the spec.
    """
    current, changed = valid_hierarchies(revision.connection), []
    for spec in specs:
        before = current.get(spec.attribute)
        if before is not None and dict(before.parents) == dict(spec.parents):
            _adopt(revision, before)
            continue
        if before is not None:
            revision.refuse_others(f"the hierarchy of '{spec.attribute}'", before.origin)
            end_hierarchies(revision, [spec.attribute])
        _insert(revision, spec)
        changed.append((before, spec))
    return changed


def end_hierarchies(revision: Revision, attributes: Iterable[str]) -> None:
    """End the valid hierarchies of some attributes."""
    for attribute in attributes:
        ended = update(hierarchy_versions).where(_h.attribute == attribute, _VALID_NOW)
        revision.connection.execute(ended.values(to_revision=revision.number))


def refuse_under_without_hierarchy(connection: Connection) -> None:
    """Refuse a valid query that uses UNDER on an attribute without a hierarchy.

    Raises:
        ConfigError: there is one; the text names the query and the attribute.

    Cost: compiles the queries with the word UNDER.
    """
    q = query_versions.c
    with_under = select(q.key, q.text, q.language).where(q.to_revision.is_(None), q.text.icontains("under"))
    rows = connection.execute(with_under.order_by(q.position)).all()
    queries = ((f"query '{row.key}'", QuerySpec(*row).compile()) for row in rows)
    refuse_missing(queries, valid_hierarchies(connection))


def _adopt(revision: Revision, record: HierarchyRecord) -> None:
    """Note that a hierarchy, unchanged, belongs to the file that is applied."""
    if revision.origin is not None and record.origin != revision.origin:
        revision.refuse_others(f"the hierarchy of '{record.attribute}'", record.origin)
        of_record = update(hierarchy_versions).where(_h.attribute == record.attribute, _VALID_NOW)
        revision.connection.execute(of_record.values(origin=revision.origin))


def _insert(revision: Revision, spec: HierarchySpec) -> None:
    last = select(func.coalesce(func.max(_h.version), 0)).where(_h.attribute == spec.attribute)
    row: Mapping[str, Any] = {
        "attribute": spec.attribute,
        "version": revision.connection.execute(last).scalar_one() + 1,
        "parents": dict(spec.parents),
        "created_at": revision.now,
        "from_revision": revision.number,
        "origin": revision.origin,
    }
    revision.connection.execute(insert(hierarchy_versions), row)


_COLUMNS = (_h.attribute, _h.version, _h.parents, _h.created_at, _h.origin, _h.to_revision)


def _select(connection: Connection, *conditions: ColumnElement[bool]) -> list[HierarchyRecord]:
    statement = select(*_COLUMNS).where(*conditions).order_by(_h.attribute, _h.version)
    return [_record(row) for row in connection.execute(statement)]


def _record(row: Row[*tuple[Any, ...]]) -> HierarchyRecord:
    attribute, version, parents, created_at, origin, to_revision = row
    return HierarchyRecord(attribute, version, parents, created_at, origin, to_revision is None)
