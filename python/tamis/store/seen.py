"""Notes when and where each message was read, whether it matched or not; the oldest notes make room for new ones.

A note is added in the transaction that records that its batch is done, so that a replay adds none. There is no index:
notes are added at the end and deleted at the beginning, and who looks for one reads them all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select

from tamis.store.database import Database
from tamis.store.dialect import is_postgres
from tamis.store.models import seen

MESSAGE_ID_CHARACTERS = 998
"""Maximum length of a Message-ID in a note: a line of a mail has no more (RFC 5322)."""

_PIECE = 10_000  # notes of one transaction

_s = seen.c


class SeenMessage(NamedTuple):
    """A message of a batch: its place, its Message-ID if it has one, and the number of queries that it matched."""

    partition: str
    offset: int
    digest: str
    message_id: str | None
    matches: int


@dataclass(frozen=True)
class SeenBatch:
    """The messages of a batch that could be read.

    Attributes:
        source: the adapter's name.
        messages: the messages; asked for once.
        kept: the number of notes that the store keeps, of all batches.
    """

    source: str
    messages: Iterable[SeenMessage]
    kept: int


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """One reading of a message.

    Attributes:
        seq: the number of the note.
        at: when its batch was done, UTC.
        batch_id: the number of the batch.
        source: the adapter's name.
        partition: the file.
        offset: where the message begins in it.
        digest: see `tamis.adapters.rows.Row`.
        message_id: its Message-ID; None if it has none.
        matches: the number of queries that it matched.
    """

    seq: int
    at: datetime
    batch_id: int
    source: str
    partition: str
    offset: int
    digest: str
    message_id: str | None
    matches: int


class SeenMessages(Database):
    """The part of the store that notes which messages were read."""

    def keep_seen(self, kept: int) -> None:
        """Delete all notes but for the last `kept`, in pieces, so that another writer waits for one piece only.

        Cost: 18 µs per note; of all of them (`kept` is 0) under 1 µs, in one piece.
        """
        if not kept:
            with self._write() as connection:
                connection.execute(delete(seen))  # without a condition, a file drops whole pages
            return
        while self._forget_piece(kept):
            pass

    def _forget_piece(self, kept: int) -> int:
        with self._write() as connection:
            first, last = connection.execute(select(func.min(_s.seq), func.max(_s.seq))).one()
            if first is None:
                return 0
            until = min(last - kept, first + _PIECE - 1)
            return int(connection.execute(delete(seen).where(_s.seq <= until)).rowcount)

    def prune_seen(self, before: datetime) -> int:
        """Delete at most 10,000 notes of messages that were read before a time.

        Args:
            before: an aware time.

        Returns:
            The number of notes; 0 when there are no more.
        """
        with self._write() as connection:
            oldest = select(_s.seq, _s.at).order_by(_s.seq).limit(_PIECE).subquery()
            last = select(func.max(oldest.c.seq)).where(oldest.c.at < before).scalar_subquery()
            return int(connection.execute(delete(seen).where(_s.seq <= last)).rowcount)


def add_seen(connection: Connection, batch_id: int, batch: SeenBatch) -> None:
    """Add a note for each message, and delete those for which there is no more room.

    Cost: 2 µs per message in a file."""
    now = datetime.now(UTC)
    messages = iter(batch.messages)
    while piece := list(itertools.islice(messages, _PIECE)):
        if is_postgres(connection):
            same = {"at": now, "batch_id": batch_id, "source": batch.source}
            connection.execute(insert(seen), [same | message._asdict() for message in piece])
        else:
            # SQLAlchemy would take four times as long for the same.
            at = now.replace(tzinfo=None).isoformat(" ", "microseconds")
            connection.exec_driver_sql(_INSERT, [(at, batch_id, batch.source, *message) for message in piece])
    forget_beyond(connection, batch.kept)


def forget_beyond(connection: Connection, kept: int) -> None:
    """Delete all notes but for the last `kept`."""
    last = select(func.max(_s.seq)).scalar_subquery()
    connection.execute(delete(seen).where(_s.seq <= last - kept))


_INSERT = """
INSERT INTO seen (at, batch_id, source, partition, "offset", digest, message_id, matches)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
