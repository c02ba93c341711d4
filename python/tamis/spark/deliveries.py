"""Delivers what the outbox holds while the pipeline runs, in a thread of the driver."""

from __future__ import annotations

import threading
from typing import Protocol

from tamis.notify.engine import DeliveryCounts
from tamis.spark.progress import Tally

LIMIT = 500
"""Maximum number of deliveries per call: few enough to stop within a second or two."""

_IDLE_S = 1.0


class Notifier(Protocol):
    """The part of the notification engine that is used here."""

    def deliver_pending(self, limit: int) -> DeliveryCounts:
        """Try up to `limit` deliveries that are due."""


class DeliveryThread:
    """Calls the notification engine after every batch with results, and once per second for retries.

    Args:
        notifier: the notification engine; used from this thread alone.
        tally: counts the deliveries.

    Attributes:
        failure: the exception that ended the thread, or None.
        troubles: delivery -> why its channel cannot be used now.
    """

    def __init__(self, notifier: Notifier, tally: Tally) -> None:
        self._notifier, self._tally = notifier, tally
        self._wake, self._finish, self._abandon = threading.Event(), threading.Event(), threading.Event()
        self.failure: Exception | None = None
        self.troubles: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name="tamis-deliveries", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Say that there may be something to deliver."""
        self._wake.set()

    def close(self, *, drain: bool) -> None:
        """End the thread: after everything that is due now if `drain` is true, else after the call in progress."""
        (self._finish if drain else self._abandon).set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._abandon.is_set():
                finishing = self._finish.is_set()  # read before the last look, which then covers all that came earlier
                self._drain()
                if finishing:
                    return
                self._wake.wait(_IDLE_S)
                self._wake.clear()
        except Exception as error:  # noqa: BLE001 - handed over to the thread that runs the pipeline
            self.failure = error

    def _drain(self) -> None:
        while not self._abandon.is_set():
            counts = self._notifier.deliver_pending(LIMIT)
            self.troubles = dict(counts.troubles)
            self._tally.add_deliveries(counts.delivered, counts.dead)
            if counts.delivered + counts.dead + counts.retried == 0:
                return
