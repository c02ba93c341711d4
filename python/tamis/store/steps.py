"""Keeps the log of deliveries: every step that was decided about one, when and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, insert, literal, select

from tamis.store.database import Database, chunks
from tamis.store.models import deliveries, delivery_steps
from tamis.store.records import DeliveryStep, Outcome, StepKind

_d, _s = deliveries.c, delivery_steps.c


class Steps(Database):
    """The part of the store that tells what happened to each delivery."""

    def delivery_steps(self, notification_ids: Sequence[str]) -> list[DeliveryStep]:
        """Return the steps of the deliveries of some notifications, oldest first."""
        columns = (_d.notification_id, _d.name.label("delivery"), _s.at, _s.step, _s.reason)
        joined = select(_s.id, *columns).join(deliveries, _d.id == _s.delivery_id)
        found: list[tuple[int, DeliveryStep]] = []
        with self._read() as connection:
            for some in chunks(notification_ids):
                rows = connection.execute(joined.where(_d.notification_id.in_(some)))
                found += [(row.id, DeliveryStep(*row[1:])) for row in rows]
        return [step for _, step in sorted(found, key=lambda pair: pair[0])]


def log_outcomes(connection: Connection, outcomes: Sequence[Outcome], now: datetime) -> None:
    """Add one step for each outcome, in the transaction that records it."""
    rows = [
        {"delivery_id": outcome.delivery_id, "at": now, "step": outcome.step, "reason": outcome.reason}
        for outcome in outcomes
    ]
    connection.execute(insert(delivery_steps), rows)


def log_all(
    connection: Connection, wanted: ColumnElement[bool], step: StepKind, reason: str | None, now: datetime
) -> None:
    """Add the same step for every delivery that `wanted` selects."""
    at = literal(now, delivery_steps.c.at.type)
    chosen = select(_d.id, at, literal(step), literal(reason, delivery_steps.c.reason.type)).where(wanted)
    connection.execute(insert(delivery_steps).from_select(["delivery_id", "at", "step", "reason"], chosen))
