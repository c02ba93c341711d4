"""Turns SIGINT and SIGTERM into one call that stops a run, made in a thread of its own.

Python runs a signal's handler between two steps of the main thread, which may hold any lock at that moment, such as
that of the event it waits for. So the handler takes no lock: it only puts the signal's number into a queue."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

NUMBERS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Passes the first SIGINT or SIGTERM on while it is entered; a second SIGINT interrupts at once.

    Outside the main thread it does nothing, because Python handles signals in that one only.

    Args:
        stop: called once with the name of the signal, in a thread of its own.
    """

    def __init__(self, stop: Callable[[str], None]) -> None:
        self._stop = stop
        self._is_main = threading.current_thread() is threading.main_thread()
        self._before = {number: signal.getsignal(number) for number in NUMBERS}
        self._came = False
        self._numbers: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._pass_on, name="tamis-signals", daemon=True)

    def __enter__(self) -> StopSignals:
        """Handle the signals from now on."""
        self._thread.start()
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the handlers of before."""
        if self._is_main:
            for number, handler in self._before.items():
                signal.signal(number, handler)
        self._numbers.put(None)
        self._thread.join()

    def take(self) -> None:
        """Handle the signals again, after a library has installed its own handlers."""
        if self._is_main:
            for number in NUMBERS:
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._came and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._came = True
        self._numbers.put(number)  # may be called at any moment

    def _pass_on(self) -> None:
        number = self._numbers.get()
        if number is not None:
            self._stop(signal.Signals(number).name)
