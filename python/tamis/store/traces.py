"""Finds what the store knows of one message: where it was read, its notifications, and whether it could not be read."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, LargeBinary, Table, and_, false, literal, or_, select

from tamis.store.database import Database
from tamis.store.dialect import Find, row_number
from tamis.store.models import batches, dead_letters, messages, outbox, seen
from tamis.store.outbox import IS_SHOWN, TO_MESSAGE, notification_query, notification_records
from tamis.store.records import DeadLetterRecord, MessageRow, NotificationRecord
from tamis.store.seen import MESSAGE_ID_CHARACTERS, SeenRecord

_LIMIT = 100  # places of one message, its dead letters, and how often it was read
_OFFSET_MAX = 2**63
_PLACE = ("source", "partition", "offset", "digest")

_m, _s = messages.c, seen.c


@dataclass(frozen=True, slots=True)
class Trace:
    """The record of one message.

    Attributes:
        places: the places of the message, if it matched, the first one first. A copy at a later place is not notified
            again.
        notifications: the notifications about it, in order of creation.
        dead_letters: the dead letters that have its id among their bytes.
        seen: each reading of it that is noted, matched or not, in their order.
    """

    places: tuple[MessageRow, ...] = ()
    notifications: tuple[NotificationRecord, ...] = ()
    dead_letters: tuple[DeadLetterRecord, ...] = ()
    seen: tuple[SeenRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """What a trace can find.

    Attributes:
        since: when the oldest message was read whose reading is noted, UTC; None if none is.
        tables: the folders of Delta tables to which the results of batches went instead.
    """

    since: datetime | None
    tables: tuple[str, ...]


class Traces(Database):
    """The part of the store that follows one message."""

    def trace(self, message_id: str) -> Trace:
        """Return the record of a message.

        Args:
            message_id: its Message-ID with or without angle brackets, its digest, its place as ``file:offset``, or the
                id of a notification about it.

        Returns:
            The record, empty if the store does not know the message. It has at most 100 places.

        Cost: reads the properties of every message that matched, about 1 s for a million of them, and the notes of all
        that were read, 0.2 s for a million.
        """
        bare = _without_brackets(message_id)
        if not bare:
            return Trace()
        with self._read() as connection:
            bare = _own_id(connection, bare)
            places = list(_places(connection, bare))
            found = [record for place in places for record in _notifications(connection, place)]
            letters = tuple(_dead_letters(connection, bare))
            return Trace(tuple(places), tuple(found), letters, tuple(_seen(connection, bare, places)))

    def memory(self) -> Memory:
        """Return what a trace can find."""
        b = batches.c
        with self._read() as connection:
            since = connection.execute(select(_s.at).order_by(_s.seq).limit(1)).scalar_one_or_none()
            tables = select(b.tables).where(b.tables.is_not(None)).distinct().order_by(b.tables)
            return Memory(since, tuple(connection.execute(tables).scalars()))


def _own_id(connection: Connection, bare: str) -> str:
    """Return the Message-ID of the message that is at a place, so that its other places are found, too."""
    row = connection.execute(select(_s.message_id).where(_at(seen, bare)).limit(1)).first() if ":" in bare else None
    return bare if row is None or row.message_id is None else _without_brackets(row.message_id)


def _without_brackets(message_id: str) -> str:
    return message_id.strip().removeprefix("<").removesuffix(">")


def _places(connection: Connection, bare: str) -> Iterator[MessageRow]:
    """Yield the message at every place at which it was found, the first one first."""
    written = json.dumps(bare, ensure_ascii=False)[1:-1]
    about = select(outbox.c.seq).where(outbox.c.notification_id == bare, TO_MESSAGE).correlate(messages).exists()
    told = or_(about, _at(messages, bare))
    maybe = or_(Find(_m.properties, written) > 0, _m.digest == bare, told)
    statement = select(messages, told.label("told")).where(maybe, IS_SHOWN).order_by(row_number(messages))
    found = (
        message
        for *values, is_told in connection.execute(statement)
        if bare in ((message := MessageRow(*values)).digest, _message_id(message)) or is_told
    )
    yield from itertools.islice(found, _LIMIT)


def _seen(connection: Connection, bare: str, places: Iterable[MessageRow]) -> Iterator[SeenRecord]:
    """Yield each noted reading of the message, the first one first."""
    names = [name[:MESSAGE_ID_CHARACTERS] for name in (bare, f"<{bare}>")]
    at_places = (and_(*_same_place(seen, place)) for place in places)
    wanted = or_(_s.message_id.in_(names), _s.digest == bare, _at(seen, bare), *at_places)
    for row in connection.execute(select(seen).where(wanted).order_by(_s.seq).limit(_LIMIT)):
        yield SeenRecord(**row._asdict())


def _at(table: Table, place: str) -> ColumnElement[bool]:
    """Return whether a row is of a place that is written as ``file:offset``."""
    partition, _, offset = place.rpartition(":")
    if not (partition and offset.isascii() and offset.isdecimal() and int(offset) < _OFFSET_MAX):
        return false()
    return and_(table.c.partition == partition, table.c.offset == int(offset))


def _same_place(table: Table, message: MessageRow) -> list[ColumnElement[bool]]:
    return [table.c[name] == getattr(message, name) for name in _PLACE]


def _message_id(message: MessageRow) -> str | None:
    """Return the Message-ID without its brackets; None if there is none."""
    try:
        value = json.loads(message.properties).get("message_id")
    except (ValueError, AttributeError):
        return None
    return _without_brackets(value) if isinstance(value, str) else None


def _notifications(connection: Connection, message: MessageRow) -> Iterator[NotificationRecord]:
    rows = connection.execute(notification_query().where(and_(*_same_place(outbox, message))).order_by(outbox.c.seq))
    yield from notification_records(connection, rows)


def _dead_letters(connection: Connection, bare: str) -> Iterator[DeadLetterRecord]:
    """Yield the messages that could not be read and have the id among their bytes."""
    rowid = row_number(dead_letters)
    bytes_ = literal(bare.encode(), LargeBinary)
    has_it = or_(Find(dead_letters.c.raw, bytes_) > 0, dead_letters.c.digest == bare, _at(dead_letters, bare))
    rows = connection.execute(select(rowid.label("number"), dead_letters).where(has_it).order_by(rowid).limit(_LIMIT))
    for row in rows:
        yield DeadLetterRecord(**row._asdict())
