"""Delivers what the outbox holds while the pipeline runs, in threads of the driver, one per delivery."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from tamis.errors import StoreUnavailableError
from tamis.notify.dispatch import Dispatcher
from tamis.spark.progress import RunTally

LIMIT = 500
"""Maximum number of deliveries per call, after which they are counted."""

GRACE_S = 2.0
"""Time that a delivery under way has when the pipeline is stopped; then it is given up, and tried again later."""

_IDLE_S = 1.0
_LOOK_S = 0.1


class DeliveryThreads:
    """Runs the deliveries after every batch with results, and once per second for retries.

    A way out that hangs, such as a mail server that does not answer, keeps neither the others nor the end waiting.

    Args:
        dispatchers: they are used from these threads alone.
        tally: counts the deliveries.
    """

    def __init__(self, dispatchers: Iterable[Dispatcher], tally: RunTally) -> None:
        self._finish, self._abandon = threading.Event(), threading.Event()
        self._threads = [_DeliveryThread(dispatcher, tally, self._finish, self._abandon) for dispatcher in dispatchers]

    @property
    def failure(self) -> Exception | None:
        """The first exception that ended a thread, or None."""
        return next((thread.failure for thread in self._threads if thread.failure is not None), None)

    @property
    def troubles(self) -> dict[str, str]:
        """Delivery -> why its channel cannot be used now."""
        return {name: reason for thread in self._threads for name, reason in thread.troubles.items()}

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Wake the threads: there may be something to deliver."""
        for thread in self._threads:
            thread.wake.set()

    def close(self, *, drain: bool, stop: threading.Event) -> None:
        """End the threads: after everything that is due now if `drain` is true, else after what is under way.

        Args:
            drain: see above.
            stop: ends the draining, too, when it is set.
        """
        (self._finish if drain else self._abandon).set()
        self.wake()
        interrupt_at = None if drain else time.monotonic() + GRACE_S
        while alive := [thread for thread in self._threads if thread.is_alive()]:
            if interrupt_at is None and stop.is_set():
                self._abandon.set()
                interrupt_at = time.monotonic() + GRACE_S
            if interrupt_at is not None and time.monotonic() >= interrupt_at:
                for thread in alive:
                    thread.dispatcher.interrupt()
            alive[0].join(_LOOK_S)


class _DeliveryThread(threading.Thread):
    """Runs one delivery until it is told to finish or to give up."""

    def __init__(
        self, dispatcher: Dispatcher, tally: RunTally, finish: threading.Event, abandon: threading.Event
    ) -> None:
        super().__init__(name=f"tamis-delivery-{dispatcher.name}", daemon=True)
        self.dispatcher, self._tally = dispatcher, tally
        self._finish, self._abandon = finish, abandon
        self.wake = threading.Event()
        self.failure: Exception | None = None
        self.troubles: dict[str, str] = {}

    def run(self) -> None:
        try:
            while not self._abandon.is_set():
                finishing = self._finish.is_set()  # read before the last look, which then covers all that came earlier
                self._drain()
                if finishing:
                    return
                self.wake.wait(_IDLE_S)
                self.wake.clear()
        except Exception as error:  # noqa: BLE001 - handed over to the thread that runs the pipeline
            self.failure = error

    def _drain(self) -> None:
        while not self._abandon.is_set():
            try:
                counts = self.dispatcher.deliver(LIMIT, self._abandon.is_set)
            except StoreUnavailableError as error:  # it is tried again after a while
                self.troubles = {self.dispatcher.name: str(error)}
                return
            self.troubles = dict(counts.troubles)
            self._tally.add_deliveries(counts.delivered, counts.dead)
            if counts.tried == 0:
                return
