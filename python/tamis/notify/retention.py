"""Deletes what is older than the pipeline keeps, one piece at a time, while deliveries go on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from tamis.notify.dispatch import DeliveryCounts, Now
from tamis.store import Store

_INTERVAL = timedelta(hours=1)


class RetentionDispatcher:
    """Prunes once an hour. It has the form of a `Dispatcher`, so that a thread of its own runs and stops it.

    Args:
        keep: what is older goes.
        store: which to prune.
        now: the clock.
    """

    name = "retention"

    def __init__(self, keep: timedelta, store: Store, now: Now) -> None:
        self._keep, self._store, self._now = keep, store, now
        self._until = now()

    def deliver(self, limit: int, stopped: Callable[[], bool] = lambda: False) -> DeliveryCounts:
        """Prune what is old now, if an hour has passed; nothing is delivered."""
        del limit
        if self._until <= self._now():
            self._until = self._now() + _INTERVAL
            before = self._now() - self._keep
            pieces = (self._store.prune, self._store.prune_history, self._store.prune_seen)
            while not stopped() and any(prune(before) for prune in pieces):
                pass
        return DeliveryCounts()

    def interrupt(self) -> None:
        """Do nothing: a piece takes no time worth waiting for."""
