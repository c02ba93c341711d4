"""Finds what the store knows of one message: its places, its notifications, and whether it could not be read."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

from sqlalchemy import ColumnElement, Connection, LargeBinary, and_, literal, or_, select

from tamis.store.database import Database
from tamis.store.dialect import Find, row_number
from tamis.store.models import dead_letters, messages, outbox
from tamis.store.outbox import IS_SHOWN, TO_MESSAGE, notification_query, notification_records
from tamis.store.records import DeadLetterRecord, MessageRow, NotificationRecord, Trace

_LIMIT = 100  # places of one message, and its dead letters

_m = messages.c


class Traces(Database):
    """The part of the store that follows one message."""

    def trace(self, message_id: str) -> Trace:
        """Return the record of a message.

        Args:
            message_id: its Message-ID with or without angle brackets, its digest, or the id of a notification about it.

        Returns:
            The record, empty if the store does not know the message. It has at most 100 places.

        Cost: reads the properties of every message; about 1 s for a million of them.
        """
        bare = message_id.strip().removeprefix("<").removesuffix(">")
        if not bare:
            return Trace()
        with self._read() as connection:
            places = list(_places(connection, bare))
            found = [record for place in places for record in _notifications(connection, place)]
            return Trace(tuple(places), tuple(found), tuple(_dead_letters(connection, bare)))


def _places(connection: Connection, bare: str) -> Iterator[MessageRow]:
    """Yield the message at every place at which it was found, the first one first."""
    written = json.dumps(bare, ensure_ascii=False)[1:-1]
    about = select(outbox.c.seq).where(outbox.c.notification_id == bare, TO_MESSAGE).correlate(messages).exists()
    maybe = or_(Find(_m.properties, written) > 0, _m.digest == bare, about)
    statement = select(messages, about.label("about")).where(maybe, IS_SHOWN).order_by(row_number(messages))
    found = (
        message
        for *values, is_about in connection.execute(statement)
        if bare in ((message := MessageRow(*values)).digest, _message_id(message)) or is_about
    )
    yield from itertools.islice(found, _LIMIT)


def _of(message: MessageRow) -> list[ColumnElement[bool]]:
    return [outbox.c[name] == getattr(message, name) for name in ("source", "partition", "offset", "digest")]


def _message_id(message: MessageRow) -> str | None:
    """Return the Message-ID without its brackets; None if there is none."""
    try:
        value = json.loads(message.properties).get("message_id")
    except (ValueError, AttributeError):
        return None
    return value.strip().removeprefix("<").removesuffix(">") if isinstance(value, str) else None


def _notifications(connection: Connection, message: MessageRow) -> Iterator[NotificationRecord]:
    rows = connection.execute(notification_query().where(and_(*_of(message))).order_by(outbox.c.seq))
    yield from notification_records(connection, rows)


def _dead_letters(connection: Connection, bare: str) -> Iterator[DeadLetterRecord]:
    """Yield the messages that could not be read and have the id among their bytes."""
    rowid = row_number(dead_letters)
    bytes_ = literal(bare.encode(), LargeBinary)
    has_it = or_(Find(dead_letters.c.raw, bytes_) > 0, dead_letters.c.digest == bare)
    rows = connection.execute(select(rowid.label("number"), dead_letters).where(has_it).order_by(rowid).limit(_LIMIT))
    for row in rows:
        yield DeadLetterRecord(**row._asdict())
