"""Prunes what is old and settled: notifications with their deliveries, the messages behind them, and dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, and_, delete, insert, or_, select

from tamis.store.database import Database, chunks
from tamis.store.models import batches, dead_letters, deliveries, delivery_steps, messages, outbox, pruned_notifications
from tamis.store.outbox import TO_BATCH, TO_MESSAGE

_PIECE = 500  # rows of one transaction: about 20 ms, so that no batch waits for long
_d, _o = deliveries.c, outbox.c


class Retention(Database):
    """The part of the store that deletes what is old."""

    def prune(self, before: datetime) -> int:
        """Delete a piece of what was settled before a time: at most 500 notifications, and 500 dead letters.

        A notification goes with its deliveries when all of them ended before that time; what is pending stays. Its id
        is kept, so that the same message, read again, tells nobody twice. A message goes with its last notification.

        Args:
            before: aware; what is younger stays.

        Returns:
            The number of notifications and dead letters; 0 when there are no more.
        """
        with self._write() as connection:
            self._lock_rows(connection)
            ids = _old_notifications(connection, before)
            if ids:
                _forget(connection, ids)
            return len(ids) + _delete_letters(connection, before)


def without_pruned(connection: Connection, notification_ids: Sequence[str]) -> set[str]:
    """Those of some notifications that were never pruned."""
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
