"""Summarizes the store: totals, matches per query, timelines, recent notifications and dead letters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, FromClause, func, select

from tamis.store.database import Database
from tamis.store.dialect import JsonMember, Minute, row_number
from tamis.store.models import batches, dead_letters, deliveries, messages, outbox, query_versions
from tamis.store.outbox import IS_SHOWN, TO_BATCH, TO_MESSAGE, notification_query, notification_records
from tamis.store.records import Counts, DeadLetterRecord, MessageRow, NotificationRecord, QueryMatches
from tamis.store.revisions import current_revision

Bucket = Literal["minute", "hour", "day", "month", "year"]
_PREFIX_CHARACTERS: dict[Bucket, int] = {"minute": 16, "hour": 13, "day": 10, "month": 7, "year": 4}
_EPOCH = "0001-01-01 00:00"
_PAGE_ROWS = 500


class Summaries(Database):
    """The part of the store that summarizes all of it, without writing."""

    def counts(self) -> Counts:
        """Return totals of the whole store at one moment."""
        b = batches.c
        kept = func.count().filter(b.batch_id >= 0)
        totals = (kept, func.sum(b.read_count), func.sum(b.matched_count), func.sum(b.notification_count))
        with self._read() as connection:
            batch_count, read, matched, notifications = connection.execute(select(*totals).where(b.done == 1)).one()
            states = _delivery_states(connection)
            return Counts(
                revision=current_revision(connection),
                queries=_count(connection, query_versions.c.to_revision.is_(None)),
                batches=batch_count,
                read=read or 0,
                matched=matched or 0,
                notifications=notifications or 0,
                dead_letters=connection.execute(select(func.count()).select_from(dead_letters)).scalar_one(),
                deliveries_pending=states.get("pending", 0),
                deliveries_delivered=states.get("delivered", 0),
                deliveries_dead=states.get("dead", 0),
            )

    def delivery_counts(self) -> dict[str, dict[str, int]]:
        """Return delivery -> state -> number of notifications."""
        d = deliveries.c
        counts: dict[str, dict[str, int]] = defaultdict(dict)
        with self._read() as connection:
            for name, state, count in connection.execute(
                select(d.name, d.state, func.count()).group_by(d.name, d.state)
            ):
                counts[name][state] = count
        return dict(counts)

    def query_matches(self, bucket: Bucket = "minute", by: Literal["match", "date"] = "match") -> list[QueryMatches]:
        """Return every valid query with the matches of all its versions, in the order of adding.

        Args:
            bucket: the step of the timelines.
            by: ``match`` counts a match at the time of matching, ``date`` at the date of its message; messages without
                a readable date are left out of the timelines.
        """
        with self._read() as connection:
            timelines = _timelines(connection, bucket, by)
            totals = {row.query_key: row for row in connection.execute(_TOTALS)}
            subjects = {row[0]: row[1] for row in connection.execute(_FIRST_SUBJECTS)}
            rows = connection.execute(_VALID_QUERIES).all()
        return [
            QueryMatches(
                row.key,
                row.version,
                row.text,
                row.language,
                totals[row.key].matches if row.key in totals else 0,
                subjects.get(row.key),
                totals[row.key].last_match_at if row.key in totals else None,
                tuple(timelines.get(row.key, ())),
            )
            for row in rows
        ]

    def timeline(
        self, bucket: Bucket = "minute", by: Literal["match", "date"] = "match", query_key: str | None = None
    ) -> list[tuple[datetime, int]]:
        """Return the number of notifications per step of time, of one query or of all, without empty steps."""
        with self._read() as connection:
            timelines = _timelines(connection, bucket, by)
        if query_key is not None:
            return timelines.get(query_key, [])
        total: dict[datetime, int] = defaultdict(int)
        for steps in timelines.values():
            for start, count in steps:
                total[start] += count
        return sorted(total.items())

    def notifications(
        self, limit: int | None = 100, query_key: str | None = None, after: int = 0, newest_first: bool = True
    ) -> list[NotificationRecord]:
        """Return notifications with their messages.

        Args:
            limit: maximum number; None for all.
            query_key: only notifications of this query, over all its versions.
            after: only those with a larger `seq`; to follow the outbox, pass the last one you read.
            newest_first: otherwise the oldest come first.
        """
        wanted = [outbox.c.seq > after]
        if query_key is not None:
            wanted.append(outbox.c.query_key == query_key)
        order = outbox.c.seq.desc() if newest_first else outbox.c.seq
        with self._read() as connection:
            rows = connection.execute(notification_query().where(*wanted).order_by(order).limit(limit))
            return notification_records(connection, rows)

    def messages(self) -> Iterator[tuple[str, MessageRow]]:
        """Yield every message that a query matched, with its adapter, oldest first."""
        last = 0
        rowid = row_number(messages)
        while True:
            page = select(rowid.label("number"), messages).where(rowid > last, IS_SHOWN).order_by(rowid)
            page = page.limit(_PAGE_ROWS)
            with self._read() as connection:
                rows = connection.execute(page).all()
            if not rows:
                return
            last = rows[-1].number
            for row in rows:
                known = row._asdict()
                yield known["source"], MessageRow(**{name: known[name] for name in MessageRow._fields})

    def find_notification(self, beginning: str) -> NotificationRecord:
        """Return the notification whose id begins with this text.

        Raises:
            KeyError: there is none.
            ValueError: there are several.
        """
        found = outbox.c.notification_id.startswith(beginning, autoescape=True)
        with self._read() as connection:
            rows = notification_records(connection, connection.execute(notification_query().where(found).limit(2)))
        if not rows:
            raise KeyError(beginning)
        if len(rows) > 1:
            raise ValueError(f"several notifications begin with '{beginning}'; give more of the id")
        return rows[0]

    def notification_ids(self) -> set[str]:
        """Return the ids of all notifications, which tests compare with those of the oracle."""
        with self._read() as connection:
            return set(connection.execute(select(outbox.c.notification_id).join(batches, TO_BATCH)).scalars())

    def dead_letters(
        self, limit: int | None = 100, source: str | None = None, number: int | None = None
    ) -> list[DeadLetterRecord]:
        """Return the messages that could not be read, newest first, with the reason and the bytes.

        Args:
            limit: maximum number; None for all.
            source: only dead letters of this adapter.
            number: only the dead letter with this number.
        """
        rowid = row_number(dead_letters)
        wanted = [] if source is None else [dead_letters.c.source == source]
        wanted += [] if number is None else [rowid == number]
        statement = select(rowid.label("number"), dead_letters).where(*wanted).order_by(rowid.desc()).limit(limit)
        with self._read() as connection:
            return [DeadLetterRecord(**row._asdict()) for row in connection.execute(statement)]


def _count(connection: Connection, condition: ColumnElement[bool]) -> int:
    return int(connection.execute(select(func.count()).where(condition)).scalar_one())


def _delivery_states(connection: Connection) -> dict[str, int]:
    statement = select(deliveries.c.state, func.count()).group_by(deliveries.c.state)
    return {row[0]: row[1] for row in connection.execute(statement)}


_o = outbox.c
_valid = query_versions.c
_VALID_QUERIES = select(query_versions).where(_valid.to_revision.is_(None)).order_by(_valid.position)
_TOTALS = (
    select(_o.query_key, func.count().label("matches"), func.max(batches.c.committed_at).label("last_match_at"))
    .select_from(outbox.join(batches, TO_BATCH))
    .group_by(_o.query_key)
)
_FIRST = select(func.min(_o.seq)).join(batches, TO_BATCH).group_by(_o.query_key)
_FIRST_SUBJECTS = (
    select(_o.query_key, JsonMember(messages.c.properties, "subject"))
    .select_from(outbox)
    .join(messages, TO_MESSAGE)
    .where(_o.seq.in_(_FIRST))
)


def _timelines(connection: Connection, bucket: Bucket, by: str) -> dict[str, list[tuple[datetime, int]]]:
    """Return query -> (start of the step, number of notifications), ascending."""
    source: FromClause = outbox.join(batches, TO_BATCH)
    moment: ColumnElement[Any] = batches.c.committed_at
    if by == "date":
        source = source.join(messages, TO_MESSAGE)
        moment = JsonMember(messages.c.properties, "date")
    # Both are ISO 8601 in UTC, so that a step of time is a prefix of the text.
    step = func.substr(Minute(moment), 1, _PREFIX_CHARACTERS[bucket])
    statement = select(_o.query_key, step, func.count()).select_from(source).where(step.is_not(None))
    timelines: dict[str, list[tuple[datetime, int]]] = defaultdict(list)
    for key, start, count in connection.execute(statement.group_by(_o.query_key, step).order_by(_o.query_key, step)):
        timelines[key].append((datetime.fromisoformat(start + _EPOCH[len(start) :]).replace(tzinfo=UTC), count))
    return timelines
