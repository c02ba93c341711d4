"""Stores when deliveries to people are sent: alone, or later in a digest with others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import and_, bindparam, func, insert, select, update

from tamis.store.database import Database
from tamis.store.models import batches, deliveries, delivery_steps, outbox, query_versions
from tamis.store.outbox import TO_BATCH, TO_QUERY, due_query, due_records
from tamis.store.records import DueDelivery, Hold, Undecided

_d = deliveries.c
_PENDING = _d.state == "pending"
_HELD = _d.digest > ""


class Digests(Database):
    """The part of the store that keeps digests."""

    def undecided(self, name: str, limit: int) -> list[Undecided]:
        """Return up to `limit` pending deliveries of the channel `name` without a decided time, the oldest first."""
        columns = (_d.id, query_versions.c.owner, outbox.c.query_key, batches.c.committed_at)
        joined = select(*columns).join(outbox, outbox.c.notification_id == _d.notification_id)
        joined = joined.join(query_versions, TO_QUERY).join(batches, TO_BATCH)
        wanted = joined.where(_d.name == name, _PENDING, _d.digest.is_(None)).order_by(_d.id).limit(limit)
        with self._read() as connection:
            return [Undecided(*row) for row in connection.execute(wanted)]

    def hold(self, holds: Sequence[Hold]) -> None:
        """Record what was decided about some deliveries; the log has a step for each that waits."""
        now = datetime.now(UTC)
        waiting = [hold for hold in holds if hold.until is not None]
        with self._write() as connection:
            if holds:
                connection.execute(_HOLD, [_row(hold) for hold in holds])
            if waiting:
                steps = [
                    {"delivery_id": hold.delivery_id, "at": now, "step": hold.step, "reason": hold.reason}
                    for hold in waiting
                ]
                connection.execute(insert(delivery_steps), steps)

    def sent_alone(self, name: str, owner: str, query_key: str | None, since: datetime) -> int:
        """Return how many notifications, made from `since` on, are delivered alone to the owner of their queries.

        Args:
            name: the channel.
            owner: whose.
            query_key: of which query; None: of all.
            since: the committing of the first batch that counts; aware.
        """
        count = select(func.count()).select_from(deliveries)
        count = count.join(outbox, outbox.c.notification_id == _d.notification_id)
        count = count.join(query_versions, TO_QUERY).join(batches, TO_BATCH)
        if query_key is not None:
            count = count.where(outbox.c.query_key == query_key)
        of_owner = and_(query_versions.c.owner == owner, batches.c.committed_at >= since)
        count = count.where(of_owner, _d.name == name, _d.digest == "")
        with self._read() as connection:
            return int(connection.execute(count).scalar_one())

    def due_digests(self, name: str, now: datetime) -> list[str]:
        """Return the digests of the channel `name` whose time has come; at most 500."""
        due = and_(_d.name == name, _PENDING, _HELD, _d.next_attempt_at <= now)
        digests = select(_d.digest).where(due).distinct().order_by(_d.digest).limit(500)
        with self._read() as connection:
            return [digest for (digest,) in connection.execute(digests) if digest]

    def due_digest(self, name: str, digest: str, limit: int, now: datetime) -> list[DueDelivery]:
        """Return up to `limit` deliveries of one digest whose time has come, the oldest first, as `due_deliveries`."""
        due = and_(_d.name == name, _PENDING, _d.digest == digest, _d.next_attempt_at <= now)
        with self._read() as connection:
            return due_records(connection, due_query(due, limit, _d.id))


_HOLD = (
    update(deliveries)
    .where(_d.id == bindparam("delivery_id"), _PENDING)
    .values(
        digest=bindparam("of_digest"),
        reason=bindparam("new_reason"),
        next_attempt_at=func.coalesce(bindparam("until", type_=_d.next_attempt_at.type), _d.next_attempt_at),
    )
)


def _row(hold: Hold) -> dict[str, object]:
    known = {"delivery_id": hold.delivery_id, "of_digest": hold.digest}
    return known | {"new_reason": hold.reason, "until": hold.until}
