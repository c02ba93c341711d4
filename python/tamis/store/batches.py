"""Stores batches: the revision of the queries that each matches with, and its results, exactly once.

Replays are harmless because the results of a batch and the record that it is done are one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Table, insert, select, update
from sqlalchemy.dialects import sqlite

from tamis.store.database import Database, chunks
from tamis.store.models import batches, dead_letters, deliveries, messages, outbox, query_versions
from tamis.store.records import BatchCounts, BatchResult, Notification
from tamis.store.retention import without_pruned
from tamis.store.revisions import current_revision

_NO_COUNTS = {"read_count": 0, "matched_count": 0, "notification_count": 0, "dead_count": 0}


class Batches(Database):
    """The part of the store that keeps batches and their results.

    `stream` names one checkpoint. A stream whose checkpoint was deleted begins again with batch 0 and must have
    another name, or its new batches would count as done; the pipeline puts the checkpoint's id into the name.
    """

    def pin_batch(self, stream: str, batch_id: int) -> int:
        """The revision of the queries that this batch matches with; the first call decides it for ever.

        It is on disk when the call returns, so that a replay after a crash sees the same queries.
        """
        with self._read() as connection:
            row = _batch(connection, stream, batch_id)
        if row is not None:
            return int(row.revision)
        with self._write() as connection:
            row = _batch(connection, stream, batch_id)
            if row is not None:
                return int(row.revision)
            revision = current_revision(connection)
            values = {"stream": stream, "batch_id": batch_id, "revision": revision, "done": 0} | _NO_COUNTS
            connection.execute(insert(batches).values(pinned_at=datetime.now(UTC), **values))
            return revision

    def commit_batch(
        self, stream: str, batch_id: int, result: BatchResult, default_deliveries: Sequence[str] = ()
    ) -> BatchCounts:
        """Write a batch's messages, notifications, pending deliveries and dead letters, and record that it is done.

        All in one transaction. A replay changes nothing, since a batch that is done is left as it is. A notification,
        message or dead letter that exists (from another stream over the same source) is kept and not doubled.

        Cost: about 0.1 s for 2,000 messages with one notification each.

        Args:
            stream: see the class.
            batch_id: as Spark numbers it.
            result: the result of matching; it must contain the message of every notification.
            default_deliveries: the deliveries of queries that name none.

        Returns:
            The counts on record for the batch.

        Raises:
            KeyError: the batch was never pinned.
            StoreError: the disk is full, or cannot be written; nothing was written.
        """
        with self._write() as connection:
            row = _batch(connection, stream, batch_id)
            if row is None:
                raise KeyError(f"batch {batch_id} of '{stream}' was never pinned")
            if row.done:
                return _counts(row)
            now = datetime.now(UTC)
            _insert_new(connection, messages, _message_rows(result))
            new = _never_pruned(connection, result.notifications)
            notifications = _insert_new(connection, outbox, _outbox_rows(stream, batch_id, new))
            _insert_new(connection, deliveries, _delivery_rows(connection, new, default_deliveries, now))
            dead = _insert_new(
                connection, dead_letters, (letter._asdict() | {"created_at": now} for letter in result.dead_letters)
            )
            counts = BatchCounts(result.read_count, result.matched_count, notifications, dead)
            _finish(connection, stream, batch_id, counts)
            return counts

    def batch_counts(self, stream: str, batch_id: int) -> BatchCounts | None:
        """The counts of a batch that is done; None if it is not."""
        with self._read() as connection:
            row = _batch(connection, stream, batch_id)
        return _counts(row) if row is not None and row.done else None


def _batch(connection: Connection, stream: str, batch_id: int) -> Row[*tuple[Any, ...]] | None:
    statement = select(batches).where(batches.c.stream == stream, batches.c.batch_id == batch_id)
    return connection.execute(statement).one_or_none()


def _counts(row: Row[*tuple[Any, ...]]) -> BatchCounts:
    return BatchCounts(row.read_count, row.matched_count, row.notification_count, row.dead_count)


def _finish(connection: Connection, stream: str, batch_id: int, counts: BatchCounts) -> None:
    """Record that the batch is done: the last statement of its transaction, so that its time is that of the commit."""
    connection.execute(
        update(batches)
        .where(batches.c.stream == stream, batches.c.batch_id == batch_id)
        .values(
            done=1,
            read_count=counts.read,
            matched_count=counts.matched,
            notification_count=counts.notifications,
            dead_count=counts.dead,
            committed_at=datetime.now(UTC),
        )
    )


def _insert_new(connection: Connection, table: Table, rows: Iterable[dict[str, Any]]) -> int:
    """Insert the rows that do not exist yet; return their number."""
    values = list(rows)
    if not values:
        return 0
    statement = sqlite.insert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    return int(connection.execute(statement, values).rowcount)


def _never_pruned(connection: Connection, notifications: Sequence[Notification]) -> list[Notification]:
    wanted = without_pruned(connection, [notification.id for notification in notifications])
    return [notification for notification in notifications if notification.id in wanted]


def _message_rows(result: BatchResult) -> Iterable[dict[str, Any]]:
    return (message._asdict() for message in result.messages)


def _outbox_rows(stream: str, batch_id: int, notifications: Iterable[Notification]) -> Iterable[dict[str, Any]]:
    for notification in notifications:
        row = notification._asdict()
        row["notification_id"] = row.pop("id")
        row.update(stream=stream, batch_id=batch_id)
        yield row


def _delivery_rows(
    connection: Connection, notifications: Sequence[Notification], defaults: Sequence[str], now: datetime
) -> Iterable[dict[str, Any]]:
    named = _named_deliveries(connection, {notification.query_key for notification in notifications})
    for notification in notifications:
        names = named.get((notification.query_key, notification.query_version)) or defaults
        for name in dict.fromkeys(names):
            yield {
                "notification_id": notification.id,
                "name": name,
                "state": "pending",
                "attempts": 0,
                "next_attempt_at": now,
                "updated_at": now,
                "recipients": {},
            }


def _named_deliveries(connection: Connection, keys: Iterable[str]) -> dict[tuple[str, int], Sequence[str]]:
    """(key, version) -> the deliveries that it names."""
    v = query_versions.c
    deliveries_of: dict[tuple[str, int], Sequence[str]] = {}
    for some in chunks(sorted(keys)):
        rows = connection.execute(select(v.key, v.version, v.deliveries).where(v.key.in_(some)))
        deliveries_of.update(((key, version), names) for key, version, names in rows)
    return deliveries_of
