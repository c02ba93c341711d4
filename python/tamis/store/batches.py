"""Stores batches: the revision of the queries that each matches with, and its results, exactly once.

The rows of a batch are written in pieces, so that other writers get their turn in between. Nobody sees them until the
last transaction records that the batch is done. Then the notifications are fanned out to the deliveries, in pieces
again; the batch remembers how far, so that a crash loses none."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Connection, Row, Table, and_, case, delete, func, insert, literal, select, update

from tamis.errors import StoreError
from tamis.store.database import Database, chunks
from tamis.store.dialect import elements, insert_new
from tamis.store.models import UtcDateTime, batches, dead_letters, deliveries, messages, outbox, query_versions
from tamis.store.records import BatchCounts, BatchResult, DeadLetter, MessageRow, Notification
from tamis.store.retention import without_pruned
from tamis.store.revisions import revision_now
from tamis.store.seen import SeenBatch, add_seen
from tamis.store_place import Place, ServerUrl

PIECE_ROWS = 2_000
"""Maximum number of notifications, or of deliveries' notifications, that one transaction writes."""

SERVER_PIECE_ROWS = 20_000
"""The number of deliveries per transaction in a store on a server, where readers do not wait for it."""

PIECE_CHARACTERS = 4_000_000
"""Number of characters of messages after which a piece ends."""

_PAUSE_S = 0.005  # the pause between two pieces, in which other writers get their turn

_NO_COUNTS = {"read_count": 0, "matched_count": 0, "notification_count": 0, "dead_count": 0}

_b, _o = batches.c, outbox.c


class Batches(Database):
    """The part of the store that keeps batches and their results.

    `stream` names one checkpoint. A stream whose checkpoint was deleted begins again with batch 0 and must have
    another name, or its new batches would count as done; the pipeline puts the checkpoint's id into the name.
    """

    def __init__(self, path: Place, *, create: bool = True, migrate: bool = True) -> None:
        """Open the file, as `Database` does."""
        super().__init__(path, create=create, migrate=migrate)
        self._turn = threading.Lock()  # batches are written one after another, so that the outbox grows in their order

    def pin_batch(self, stream: str, batch_id: int) -> int:
        """Return the revision of the queries that this batch matches with. The first call decides it.

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
            revision = revision_now(connection)
            values = {"stream": stream, "batch_id": batch_id, "revision": revision, "done": 0} | _NO_COUNTS
            connection.execute(insert(batches).values(pinned_at=datetime.now(UTC), **values))
            return revision

    def commit_batch(
        self,
        stream: str,
        batch_id: int,
        result: BatchResult | Iterable[BatchResult],
        default_deliveries: Sequence[str] = (),
        seen: SeenBatch | None = None,
    ) -> BatchCounts:
        """Write a batch's messages, notifications, pending deliveries and dead letters, and record that it is done.

        The rows are written in pieces that nobody sees; the last transaction shows them all. Another writer waits for
        one piece, about 0.1 s. After a crash the replay writes the rows again that were not shown. A replay of a batch
        that is done changes nothing. A notification, message or dead letter that exists (from another stream over the
        same source) is not added again. Threads write one after another.

        Cost: about 0.1 s for 2,000 messages with one notification each.

        Args:
            stream: see the class.
            batch_id: the number that Spark gives it.
            result: the result of matching, whole or in parts; a part must contain the message of each of its
                notifications. Only one piece of the parts, and all dead letters, are in memory at a time.
            default_deliveries: the deliveries of queries that name none.
            seen: the messages that were read; None notes none.

        Returns:
            The counts on record for the batch.

        Raises:
            KeyError: the batch was never pinned.
            StoreError: the disk is full, or cannot be written; nothing of the batch counts.
        """
        with self._turn:
            counts = self._begin_batch(stream, batch_id)
            if counts is None:
                remaining = _Remaining([result] if isinstance(result, BatchResult) else result)
                for piece in _pieces(remaining):
                    self._write_piece(stream, batch_id, piece)
                    time.sleep(_PAUSE_S)
                counts = self._finish_batch(stream, batch_id, remaining, default_deliveries, seen)
        self.fan_out()
        return counts

    def fan_out(self) -> None:
        """Make the pending deliveries of batches that are done, in pieces; what a crash has left is made, too."""
        while self._fan_out_piece():
            time.sleep(_PAUSE_S)

    def record_batch(self, stream: str, batch_id: int, counts: BatchCounts, tables: Path) -> BatchCounts:
        """Record that a batch is done whose rows are kept elsewhere. Nothing changes if it was done before.

        Args:
            stream: see the class.
            batch_id: the number of the batch.
            counts: its counts.
            tables: the folder of the Delta tables with its rows.

        Returns:
            The counts on record.

        Raises:
            KeyError: the batch was never pinned.
            StoreError: the store cannot be written.
        """
        with self._write() as connection:
            known = counts_if_done(connection, stream, batch_id)
            if known is None:
                record_done(connection, stream, batch_id, counts, ())
                connection.execute(update(batches).where(_is_batch(stream, batch_id)).values(tables=str(tables)))
        self.fan_out()
        return known or counts

    def batch_counts(self, stream: str, batch_id: int) -> BatchCounts | None:
        """Return the counts of a batch that is done; None if it is not."""
        with self._read() as connection:
            row = _batch(connection, stream, batch_id)
        return _counts(row) if row is not None and row.done else None

    def _begin_batch(self, stream: str, batch_id: int) -> BatchCounts | None:
        """Begin to write the batch; return its counts if it is done."""
        with self._write() as connection:
            counts = counts_if_done(connection, stream, batch_id)
            if counts is None:
                connection.execute(update(batches).where(_is_batch(stream, batch_id)).values(contested=0))
            return counts

    def _write_piece(self, stream: str, batch_id: int, piece: _Piece) -> None:
        with self._write() as connection:
            new = _never_pruned(connection, piece.notifications)
            _take_over(connection, stream, batch_id, [notification.id for notification in new])
            _insert_new(connection, messages, (message._asdict() for message in piece.messages.values()))
            _insert_new(connection, outbox, _outbox_rows(stream, batch_id, new))

    def _finish_batch(
        self,
        stream: str,
        batch_id: int,
        remaining: _Remaining,
        default_deliveries: Sequence[str],
        seen: SeenBatch | None,
    ) -> BatchCounts:
        """Show the batch to everybody. The time of the commit is taken last, so that nothing is seen before it."""
        with self._write() as connection:
            row = _batch(connection, stream, batch_id)
            if row is None or row.contested:
                raise StoreError(
                    f"{self.path}: another process took over notifications of batch {batch_id} of '{stream}' while it "
                    "was being written; end one of the two, then start again"
                )
            now = datetime.now(UTC)
            letters = (letter._asdict() | {"created_at": now} for letter in remaining.dead_letters)
            dead = _insert_new(connection, dead_letters, letters)
            if seen is not None:
                add_seen(connection, batch_id, seen)
            of_batch = and_(_o.stream == stream, _o.batch_id == batch_id)
            written = connection.execute(select(func.count()).select_from(outbox).where(of_batch)).scalar_one()
            counts = BatchCounts(remaining.read_count, remaining.matched_count, written, dead)
            record_done(connection, stream, batch_id, counts, default_deliveries)
            return counts

    def _fan_out_piece(self) -> bool:
        """Make the deliveries of one piece of a batch; return false if no batch has any left."""
        unfinished = select(batches).where(_b.fanned_out_seq.is_not(None)).order_by(_b.committed_at).limit(1)
        with self._read() as connection:
            if connection.execute(unfinished).first() is None:
                return False
        with self._write() as connection:
            row = connection.execute(unfinished).first()
            if row is None:
                return False
            first = and_(_o.stream == row.stream, _o.batch_id == row.batch_id, _o.seq > row.fanned_out_seq)
            piece_rows = SERVER_PIECE_ROWS if isinstance(self.path, ServerUrl) else PIECE_ROWS
            piece = select(_o.seq).where(first).order_by(_o.seq).limit(piece_rows).subquery()
            last = connection.execute(select(func.max(piece.c.seq))).scalar_one()
            if last is not None:
                _insert_deliveries(connection, and_(first, _o.seq <= last), row.default_deliveries or [])
            of_batch = _is_batch(row.stream, row.batch_id)
            connection.execute(update(batches).where(of_batch).values(fanned_out_seq=last))
            return True


@dataclass
class _Piece:
    """The rows of one transaction: notifications, and by their places the messages that they are about."""

    messages: dict[tuple[object, ...], MessageRow] = field(default_factory=dict)
    notifications: list[Notification] = field(default_factory=list)
    characters: int = 0

    def add(self, notification: Notification, message: MessageRow | None) -> None:
        """Add a notification; without its message the store refuses it."""
        self.notifications.append(notification)
        place = notification[3:]
        if message is not None and place not in self.messages:
            self.messages[place] = message
            self.characters += sum(len(text or "") for text in (message.properties, message.body, message.xml))

    def is_full(self) -> bool:
        return len(self.notifications) >= PIECE_ROWS or self.characters >= PIECE_CHARACTERS


class _Remaining:
    """Iterates the parts of a result, and keeps what the last transaction of the batch needs of them."""

    def __init__(self, parts: Iterable[BatchResult]) -> None:
        self._parts = parts
        self.read_count = self.matched_count = 0
        self.dead_letters: list[DeadLetter] = []

    def __iter__(self) -> Iterator[BatchResult]:
        for part in self._parts:
            self.read_count += part.read_count
            self.matched_count += part.matched_count
            self.dead_letters += part.dead_letters
            yield part


def _pieces(parts: Iterable[BatchResult]) -> Iterator[_Piece]:
    """Cut, or join, the parts to pieces; each has the messages of its notifications, so that none is pruned before."""
    piece = _Piece()
    for part in parts:
        by_place = {message[:4]: message for message in part.messages}
        for notification in part.notifications:
            piece.add(notification, by_place.get(notification[3:]))
            if piece.is_full():
                yield piece
                piece = _Piece()
    if piece.notifications:
        yield piece


def _is_batch(stream: str, batch_id: int) -> Any:
    return and_(_b.stream == stream, _b.batch_id == batch_id)


def _batch(connection: Connection, stream: str, batch_id: int) -> Row[*tuple[Any, ...]] | None:
    return connection.execute(select(batches).where(_is_batch(stream, batch_id))).one_or_none()


def counts_if_done(connection: Connection, stream: str, batch_id: int) -> BatchCounts | None:
    """Return the counts of a batch that is done; None if it is not.

    Raises:
        KeyError: it was never pinned.
    """
    row = _batch(connection, stream, batch_id)
    if row is None:
        raise KeyError(f"batch {batch_id} of '{stream}' was never pinned")
    return _counts(row) if row.done else None


def _counts(row: Row[*tuple[Any, ...]]) -> BatchCounts:
    return BatchCounts(row.read_count, row.matched_count, row.notification_count, row.dead_count)


def record_done(
    connection: Connection, stream: str, batch_id: int, counts: BatchCounts, default_deliveries: Sequence[str]
) -> None:
    """Record that the batch is done: the last statement of its transaction, so that its time is that of the commit."""
    connection.execute(
        update(batches)
        .where(_is_batch(stream, batch_id))
        .values(
            done=1,
            read_count=counts.read,
            matched_count=counts.matched,
            notification_count=counts.notifications,
            dead_count=counts.dead,
            committed_at=datetime.now(UTC),
            fanned_out_seq=0 if counts.notifications else None,
            default_deliveries=list(default_deliveries),
        )
    )


def _insert_new(connection: Connection, table: Table, rows: Iterable[dict[str, Any]]) -> int:
    """Insert the rows that do not exist yet; return their number."""
    values = list(rows)
    if not values:
        return 0
    statement = insert_new(connection, table).execution_options(preserve_rowcount=True)
    return int(connection.execute(statement, values).rowcount)


def _take_over(connection: Connection, stream: str, batch_id: int, notification_ids: Sequence[str]) -> None:
    """Delete those notifications that a batch has left unfinished, this one at an earlier try or another one.

    So they come after all that was shown until now, and whoever is quicker shows them. Another batch learns of it: if
    it still writes, it fails and is replayed."""
    its_batch = and_(_b.stream == _o.stream, _b.batch_id == _o.batch_id)
    unfinished = select(_b.done).where(its_batch, _b.done == 0).correlate(outbox).exists()
    for some in chunks(notification_ids):
        taken = delete(outbox).where(_o.notification_id.in_(some), unfinished).returning(_o.stream, _o.batch_id)
        for other in {tuple(row) for row in connection.execute(taken)} - {(stream, batch_id)}:
            connection.execute(update(batches).where(_is_batch(*other)).values(contested=1))


def _never_pruned(connection: Connection, notifications: Sequence[Notification]) -> list[Notification]:
    wanted = without_pruned(connection, [notification.id for notification in notifications])
    return [notification for notification in notifications if notification.id in wanted]


def _outbox_rows(stream: str, batch_id: int, notifications: Iterable[Notification]) -> Iterator[dict[str, Any]]:
    for notification in notifications:
        row = notification._asdict()
        row["notification_id"] = row.pop("id")
        row.update(stream=stream, batch_id=batch_id)
        yield row


def _insert_deliveries(connection: Connection, wanted: Any, defaults: Sequence[str]) -> None:
    """Insert a pending delivery for each wanted notification and each delivery that its query names, or the default."""
    v, now = query_versions.c, literal(datetime.now(UTC), UtcDateTime())
    named = case((func.json_array_length(v.deliveries) == 0, literal(list(defaults), JSON())), else_=v.deliveries)
    name = elements(named)
    rows = (
        select(_o.notification_id, name.c.value, literal("pending"), literal(0), now, now, literal({}, JSON()))
        .select_from(outbox)
        .join(query_versions, and_(v.key == _o.query_key, v.version == _o.query_version))
        .where(wanted)
        .order_by(_o.seq, name.c.id)
    )
    columns = ["notification_id", "name", "state", "attempts", "next_attempt_at", "updated_at", "recipients"]
    connection.execute(insert_new(connection, deliveries).from_select(columns, rows))
