"""Stores deliveries: which are due, the outcome of each try, and how much of an appended file is delivered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, bindparam, func, literal, or_, select, update

from tamis.store.database import Database, chunks
from tamis.store.dialect import insert_or_update
from tamis.store.hierarchies import valid_hierarchies
from tamis.store.models import batches, deliveries, delivery_files, messages, outbox, query_versions
from tamis.store.records import (
    DeliveryRecord,
    DeliveryState,
    DueDelivery,
    MessageRow,
    NotificationRecord,
    Outcome,
    Which,
)
from tamis.store.steps import log_all, log_outcomes

TO_MESSAGE = and_(*(messages.c[name] == outbox.c[name] for name in ("source", "partition", "offset", "digest")))
TO_BATCH = and_(batches.c.stream == outbox.c.stream, batches.c.batch_id == outbox.c.batch_id, batches.c.done == 1)
TO_QUERY = and_(query_versions.c.key == outbox.c.query_key, query_versions.c.version == outbox.c.query_version)
"""The join of the outbox with the messages, with the batches that are done, and with the queries.

What a batch that is not done has written does not count yet: whoever reads the outbox joins it with `TO_BATCH`."""

_ABOUT = select(outbox.c.seq).where(TO_MESSAGE).correlate(messages)
_SHOWN = select(outbox.c.seq).join(batches, TO_BATCH).where(TO_MESSAGE).correlate(messages)
IS_SHOWN = or_(_SHOWN.exists(), ~_ABOUT.exists())
"""Whether a message counts: a batch that is done has told of it, or it was found again, so nobody is told twice."""

PAGE_CHARACTERS = 64 << 20
"""The size of the messages with which a page of due deliveries ends."""
_LONG = ("properties", "body", "xml")
"""The columns of a message that may be long."""

_d = deliveries.c
_PENDING = _d.state == "pending"


class Outbox(Database):
    """The part of the store that keeps deliveries."""

    def due_deliveries(
        self, name: str, limit: int, now: datetime | None = None, which: Which = "all"
    ) -> list[DueDelivery]:
        """Return up to `limit` pending deliveries of the channel `name` whose time has come, the longest due first.

        They end with the one that makes their messages as large as `PAGE_CHARACTERS`.

        Args:
            name: the channel.
            limit: the maximum number of notifications.
            now: the time; default: the clock's.
            which: ``alone`` leaves out deliveries of digests; ``decided`` also those without a decision.
        """
        due = and_(_d.name == name, _PENDING, _d.next_attempt_at <= (now or datetime.now(UTC)))
        if which != "all":
            due = and_(due, _d.digest == "" if which == "decided" else or_(_d.digest.is_(None), _d.digest == ""))
        with self._read() as connection:
            return due_records(connection, due_query(due, limit, _d.next_attempt_at, _d.id))

    def record_outcomes(self, outcomes: Iterable[Outcome], file_size: tuple[str, Path, int] | None = None) -> None:
        """Record the outcomes of some tries in one transaction.

        Args:
            outcomes: one per try.
            file_size: (delivery, file, bytes) if they were appended to a file: its size afterwards. For a folder of
                numbered files, the number of the last one.
        """
        now = datetime.now(UTC)
        tries = list(outcomes)
        with self._write() as connection:
            if tries:
                connection.execute(_OUTCOME, [_outcome_row(outcome, now) for outcome in tries])
                log_outcomes(connection, tries, now)
            if file_size is not None:
                _set_file_size(connection, *file_size)

    def mark_delivered(
        self, name: str, notification_ids: Sequence[str], reason: str, file_size: tuple[str, Path, int]
    ) -> None:
        """Record that pending deliveries of the channel `name` are in a file already, in one transaction.

        Args:
            name: the channel.
            notification_ids: the ids of the notifications.
            reason: the reason in the log.
            file_size: see `record_outcomes`.
        """
        numbers: list[int] = []
        with self._read() as connection:
            for some in chunks(notification_ids):
                statement = select(_d.id).where(_d.name == name, _PENDING, _d.notification_id.in_(some))
                numbers.extend(connection.execute(statement).scalars())
        self.record_outcomes([Outcome(number, "delivered", reason) for number in numbers], file_size)

    def file_size(self, name: str, path: Path) -> int | None:
        """Return the number of bytes that `name` has delivered into the file `path`; None if there is no record."""
        f = delivery_files.c
        with self._read() as connection:
            statement = select(f.size_bytes).where(f.name == name, f.path == str(path))
            return connection.execute(statement).scalar_one_or_none()

    def pending_among(self, name: str, notification_ids: Sequence[str]) -> set[str]:
        """Return the given notifications whose delivery through the channel `name` is pending."""
        pending: set[str] = set()
        with self._read() as connection:
            for some in chunks(notification_ids):
                statement = select(_d.notification_id).where(_d.name == name, _PENDING, _d.notification_id.in_(some))
                pending.update(connection.execute(statement).scalars())
        return pending

    def pending_delivery_names(self) -> list[str]:
        """Return the channels with pending deliveries. Cost: one index look-up for each, whatever the backlog."""
        with self._read() as connection:
            return _pending_names(connection)

    def note_pending(self, name: str, reason: str) -> None:
        """Record why the pending deliveries of the channel `name` wait; they stay due, and no try is counted.

        The log gets a line for each that did not wait for a reason before, so that a long trouble does not fill it.
        """
        of_name = and_(_d.name == name, _PENDING, func.coalesce(_d.digest, "") == "")  # a digest has its own reason
        unsaid = _d.reason.is_distinct_from(reason)
        with self._write() as connection:
            log_all(connection, and_(of_name, _d.reason.is_(None)), "waiting", reason, datetime.now(UTC))
            connection.execute(update(deliveries).where(of_name, unsaid).values(reason=reason))

    def retry_dead(
        self, name: str | None = None, notification_id: str | None = None, *, query_key: str | None = None
    ) -> int:
        """Make dead deliveries pending again with all their tries: of one channel, notification or query, or of all.

        Returns:
            The number of deliveries.
        """
        of_name = [] if name is None else [_d.name == name]
        of_name += [] if notification_id is None else [_d.notification_id == notification_id]
        of_query = select(outbox.c.notification_id).where(outbox.c.query_key == query_key)
        of_name += [] if query_key is None else [_d.notification_id.in_(of_query)]
        now = datetime.now(UTC)
        revived = {"state": "pending", "attempts": 0, "next_attempt_at": now, "updated_at": now}
        dead = and_(_d.state == "dead", *of_name)
        with self._write() as connection:
            log_all(connection, dead, "revived", "asked for by hand", now)
            return connection.execute(update(deliveries).where(dead).values(revived)).rowcount

    def next_attempt_at(self) -> datetime | None:
        """Return when the next pending delivery of any channel is due; None if nothing is pending."""
        with self._read() as connection:
            first = select(func.min(_d.next_attempt_at)).where(_PENDING)
            times = [
                connection.execute(first.where(_d.name == name)).scalar_one() for name in _pending_names(connection)
            ]
        return min(times, default=None)

    def deliveries(
        self,
        limit: int = 100,
        *,
        state: DeliveryState | None = None,
        name: str | None = None,
        query_key: str | None = None,
        notification_id: str | None = None,
    ) -> list[DeliveryRecord]:
        """Return the log of deliveries, newest first: the decision for each, and its reason."""
        wanted = [
            column == value
            for column, value in (
                (_d.state, state),
                (_d.name, name),
                (outbox.c.query_key, query_key),
                (_d.notification_id, notification_id),
            )
            if value is not None
        ]
        statement = (
            select(
                _d.notification_id,
                outbox.c.query_key,
                _d.name.label("delivery"),
                _d.state,
                _d.attempts,
                _d.next_attempt_at,
                _d.reason,
                _d.updated_at,
                _d.recipients,
            )
            .join(outbox, outbox.c.notification_id == _d.notification_id)
            .where(*wanted)
            .order_by(_d.id.desc())
            .limit(limit)
        )
        with self._read() as connection:
            return [DeliveryRecord(**row._asdict()) for row in connection.execute(statement)]


def due_query(due: ColumnElement[bool], limit: int, *order: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    """Return a SELECT of the first `limit` deliveries that `due` selects, with their notifications, in this order.

    They are fewer where their messages are large: they end with the one that makes them as large as `PAGE_CHARACTERS`.
    """
    columns = (_d.id, _d.attempts, _d.recipients, _d.notification_id, _d.next_attempt_at)
    first = select(*columns).where(due).order_by(*order).limit(limit).subquery()
    names = [column.key for column in order if column.key]
    size = sum((func.coalesce(func.length(messages.c[name]), 0) for name in _LONG), literal(0))
    before = func.sum(size).over(order_by=[first.c[name] for name in names], rows=(None, -1))
    sizes = select(first, func.coalesce(before, 0).label("before"))
    sizes = sizes.join(outbox, outbox.c.notification_id == first.c.notification_id)
    page = sizes.join(messages, TO_MESSAGE).join(batches, TO_BATCH).subquery()
    more = (page.c.id.label("delivery_id"), page.c.attempts, page.c.recipients, query_versions.c.owner)
    statement = notification_query(*more).join(page, page.c.notification_id == outbox.c.notification_id)
    return statement.where(page.c.before < PAGE_CHARACTERS).order_by(*(page.c[name] for name in names))


def due_records(connection: Connection, due: Select[*tuple[Any, ...]]) -> list[DueDelivery]:
    """Return the rows of `due_query` as records."""
    rows = connection.execute(due).all()
    return [
        DueDelivery(row.delivery_id, row.attempts, record, row.recipients, row.owner)
        for row, record in zip(rows, notification_records(connection, rows), strict=True)
    ]


def notification_query(*more: Any) -> Select[*tuple[Any, ...]]:
    """Return a SELECT of notifications with their message and query, and the columns `more`."""
    q, m, b = query_versions, messages, batches
    return (
        select(
            outbox.c.seq,
            outbox.c.notification_id.label("id"),
            outbox.c.query_key,
            outbox.c.query_version,
            q.c.text.label("query_text"),
            q.c.language.label("query_language"),
            b.c.committed_at.label("created_at"),
            *(m.c[name] for name in MessageRow._fields),
            *more,
        )
        .select_from(outbox)
        .join(q, TO_QUERY)
        .join(m, TO_MESSAGE)
        .join(b, TO_BATCH)
    )


_FIELD_COUNT = len(fields(NotificationRecord)) - 1  # without the hierarchies


def notification_records(connection: Connection, rows: Iterable[Row[*tuple[Any, ...]]]) -> list[NotificationRecord]:
    """Return rows of `notification_query` as records, with the hierarchies that their queries may ask for."""
    records = [NotificationRecord(*row[:_FIELD_COUNT]) for row in rows]
    if not any(record.asks_hierarchies for record in records):
        return records
    valid = valid_hierarchies(connection).values()
    hierarchies = json.dumps({record.attribute: dict(record.parents) for record in valid})
    return [replace(it, hierarchies=hierarchies) if it.asks_hierarchies else it for it in records]


_OUTCOME = (
    update(deliveries)
    .where(_d.id == bindparam("delivery_id"))
    .values(
        state=bindparam("new_state"),
        reason=bindparam("new_reason"),
        attempts=_d.attempts + bindparam("tries"),
        next_attempt_at=func.coalesce(bindparam("next_at", type_=_d.next_attempt_at.type), _d.next_attempt_at),
        updated_at=bindparam("now", type_=_d.updated_at.type),
        recipients=bindparam("done_with", type_=_d.recipients.type),
    )
)


def _outcome_row(outcome: Outcome, now: datetime) -> dict[str, Any]:
    return {
        "delivery_id": outcome.delivery_id,
        "new_state": outcome.state,
        "new_reason": outcome.reason,
        "tries": int(outcome.counted),
        "next_at": outcome.next_attempt_at,
        "now": now,
        "done_with": dict(outcome.recipients),
    }


def _set_file_size(connection: Connection, name: str, path: Path, size_bytes: int) -> None:
    row = {"name": name, "path": str(path), "size_bytes": size_bytes}
    connection.execute(insert_or_update(connection, delivery_files, row, ["size_bytes"]))


def _pending_names(connection: Connection) -> list[str]:
    names: list[str] = []
    while (name := _next_pending_name(connection, names[-1] if names else "")) is not None:
        names.append(name)
    return names


def _next_pending_name(connection: Connection, after: str) -> str | None:
    statement = select(_d.name).where(_PENDING, _d.name > after).order_by(_d.name).limit(1)
    return connection.execute(statement).scalar_one_or_none()
