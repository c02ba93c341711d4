"""Prunes what is old and settled: notifications, the messages behind them, dead letters, batches and versions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    ScalarSelect,
    Table,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    union_all,
    update,
)

from tamis.store.database import Database, chunks
from tamis.store.dialect import insert_new
from tamis.store.models import (
    batches,
    dead_letters,
    deliveries,
    delivery_steps,
    hierarchy_versions,
    messages,
    outbox,
    pruned_notifications,
    query_versions,
    revisions,
)
from tamis.store.outbox import TO_BATCH, TO_MESSAGE

_PIECE = 500  # rows of one transaction: about 20 ms, so that no batch waits for long
_d, _o = deliveries.c, outbox.c

VERSIONS_KEPT = 20
"""Number of versions of each query and hierarchy that stay, whatever their age."""
PRUNED_BATCH = -1
"""The number of the row in which each stream has the sums of its batches that were pruned."""

_COUNTS = ("read_count", "matched_count", "notification_count", "dead_count")
_SPAN = ("from_revision", "to_revision")


class Retention(Database):
    """The part of the store that deletes old rows."""

    def prune(self, before: datetime) -> int:
        """Delete at most 500 notifications that were settled before a time, and at most 500 dead letters.

        A notification is deleted with its deliveries if all of them ended before that time. Its id is kept, so that
        the same message is not notified again. A message is deleted with its last notification.

        Args:
            before: an aware time; younger rows stay.

        Returns:
            The number of notifications and dead letters; 0 when there are no more.
        """
        with self._write() as connection:
            self._lock_rows(connection)
            ids = _old_notifications(connection, before)
            if ids:
                _forget(connection, ids)
            return len(ids) + _delete_letters(connection, before)

    def prune_history(self, before: datetime) -> int:
        """Delete at most 500 old rows of each kind of history. The totals do not change.

        These are batches without notifications, but for the last one of each stream; versions of queries and
        hierarchies that ended before that time, that no notification is about, and that are not among the last 20 of
        their key; and revisions that nothing refers to. What an unfinished batch needs stays.

        Args:
            before: an aware time; younger rows stay.

        Returns:
            The number of rows; 0 when there are no more.
        """
        with self._read() as connection:
            old_batches = _old_batches(connection, before)
            old_queries = _old_versions(connection, before, query_versions, _of_no_notification())
            old_hierarchies = _old_versions(connection, before, hierarchy_versions)
            old_revisions = _old_revisions(connection, before)
        found = (old_batches, old_queries, old_hierarchies, old_revisions)
        if any(found):
            with self._write() as connection:
                _count_pruned(connection, old_batches)
                for table, rows in zip((batches, query_versions, hierarchy_versions, revisions), found, strict=True):
                    _delete_rows(connection, table, rows)
        return sum(map(len, found))


def without_pruned(connection: Connection, notification_ids: Sequence[str]) -> set[str]:
    """Return the given notifications that were never pruned."""
    wanted, p = set(notification_ids), pruned_notifications.c.notification_id
    if connection.execute(select(p).limit(1)).first() is None:
        return wanted
    for some in chunks(notification_ids):
        wanted.difference_update(connection.execute(select(p).where(p.in_(some))).scalars())
    return wanted


def _old_notifications(connection: Connection, before: datetime) -> list[str]:
    of_it = _d.notification_id == _o.notification_id
    unsettled = select(_d.id).where(of_it, or_(_d.state == "pending", _d.updated_at >= before)).exists()
    statement = select(_o.notification_id).join(batches, TO_BATCH)
    statement = statement.where(batches.c.committed_at < before, ~unsettled).order_by(_o.seq).limit(_PIECE)
    return list(connection.execute(statement).scalars())


def _forget(connection: Connection, ids: Sequence[str]) -> None:
    """Delete notifications, children first, and the messages that no other one is about."""
    about = select(messages.c.source, messages.c.partition, messages.c.offset, messages.c.digest)
    keys = connection.execute(about.join(outbox, TO_MESSAGE).where(_o.notification_id.in_(ids)).distinct()).all()
    of_them = select(_d.id).where(_d.notification_id.in_(ids))
    connection.execute(delete(delivery_steps).where(delivery_steps.c.delivery_id.in_(of_them)))
    connection.execute(delete(deliveries).where(_d.notification_id.in_(ids)))
    connection.execute(delete(outbox).where(_o.notification_id.in_(ids)))
    connection.execute(insert(pruned_notifications), [{"notification_id": one} for one in ids])
    others = select(_o.seq).where(TO_MESSAGE).correlate(messages).exists()
    for key in keys:
        place = and_(*(messages.c[name] == value for name, value in key._mapping.items()))
        connection.execute(delete(messages).where(place, ~others))


def _delete_letters(connection: Connection, before: datetime) -> int:
    names = ("source", "partition", "offset", "digest")
    old = select(*(dead_letters.c[name] for name in names)).where(dead_letters.c.created_at < before).limit(_PIECE)
    keys = connection.execute(old).all()
    for key in keys:
        connection.execute(delete(dead_letters).where(*(dead_letters.c[name] == key._mapping[name] for name in names)))
    return len(keys)


def _old_batches(connection: Connection, before: datetime) -> Sequence[Row[*tuple[Any, ...]]]:
    b, later = batches.c, batches.alias()
    of_stream = select(func.max(later.c.batch_id)).where(later.c.stream == b.stream, later.c.done == 1)
    last = of_stream.correlate(batches).scalar_subquery()
    about = select(_o.seq).where(_o.stream == b.stream, _o.batch_id == b.batch_id).correlate(batches).exists()
    done = and_(b.done == 1, b.fanned_out_seq.is_(None), b.committed_at < before)
    counts = (b.read_count, b.matched_count, b.notification_count, b.dead_count)
    old = select(b.stream, b.batch_id, *counts).where(done, b.batch_id > PRUNED_BATCH, b.batch_id < last, ~about)
    return connection.execute(old.limit(_PIECE)).all()


def _count_pruned(connection: Connection, rows: Sequence[Row[*tuple[Any, ...]]]) -> None:
    """Add the counts of batches that go to a row of their stream that stays."""
    b, now = batches.c, datetime.now(UTC)
    for row in rows:
        total = {"stream": row.stream, "batch_id": PRUNED_BATCH, "revision": 0, "done": 1, "pinned_at": now}
        zero = dict.fromkeys(_COUNTS, 0) | {"committed_at": now}
        connection.execute(insert_new(connection, batches), [total | zero])
        is_total = and_(b.stream == row.stream, b.batch_id == PRUNED_BATCH)
        added = {name: b[name] + getattr(row, name) for name in _COUNTS}
        connection.execute(update(batches).where(is_total).values(**added))


def _of_no_notification() -> ColumnElement[bool]:
    v = query_versions.c
    about = select(_o.seq).where(_o.query_key == v.key, _o.query_version == v.version)
    return ~about.correlate(query_versions).exists()


def _old_versions(
    connection: Connection, before: datetime, table: Table, *conditions: ColumnElement[bool]
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Return the keys and versions of a table of versions that are not needed."""
    key, version = list(table.primary_key)
    other = table.alias()
    last = select(func.max(other.c.version)).where(other.c[key.key] == key).correlate(table).scalar_subquery()
    ended = table.c.to_revision.in_(select(revisions.c.revision).where(revisions.c.created_at < before))
    unneeded = table.c.to_revision <= _first_needed()
    statement = select(key, version).where(ended, unneeded, version <= last - VERSIONS_KEPT, *conditions)
    return connection.execute(statement.limit(_PIECE)).all()


def _old_revisions(connection: Connection, before: datetime) -> Sequence[Row[*tuple[Any, ...]]]:
    r = revisions.c.revision
    used = union_all(
        *(select(table.c[name]) for table in (query_versions, hierarchy_versions) for name in _SPAN),
        select(batches.c.revision).where(batches.c.done == 0),
    ).subquery()
    (column,) = used.c
    named = select(column).where(column.is_not(None))
    newest = select(func.max(revisions.alias().c.revision)).scalar_subquery()
    old = select(r).where(revisions.c.created_at < before, r < newest, r.not_in(named))
    return connection.execute(old.limit(_PIECE)).all()


def _first_needed() -> ScalarSelect[int]:
    """Return the first revision that an unfinished batch matches with; if there is none, the newest."""
    unfinished = select(func.min(batches.c.revision)).where(batches.c.done == 0).scalar_subquery()
    newest = select(func.max(revisions.alias().c.revision)).scalar_subquery()
    return select(func.coalesce(unfinished, newest)).scalar_subquery()


def _delete_rows(connection: Connection, table: Table, rows: Sequence[Row[*tuple[Any, ...]]]) -> None:
    """Delete rows by their primary keys."""
    keys = list(table.primary_key)
    for row in rows:
        connection.execute(delete(table).where(*(column == row._mapping[column.key] for column in keys)))
