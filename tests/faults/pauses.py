"""Stops a process for a moment, again and again: the planted fault of tests that measure how long others wait."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from typing import Protocol


class Permission(Protocol):
    """What says when a process may be stopped, such as an event of `threading` or of `multiprocessing`."""

    def wait(self, timeout: float) -> bool:
        """Return whether it may be now, after waiting at most `timeout` seconds for it."""


class Pauses(threading.Thread):
    """Stops a process again and again while it may, until `seconds` have passed or `stop` is called."""

    def __init__(self, pid: int, may_stop: Permission, *, seconds: float, pause_s: float = 0.1) -> None:
        super().__init__(daemon=True)
        self._pid, self._may_stop, self._pause_s = pid, may_stop, pause_s
        self._until = time.monotonic() + seconds

    def run(self) -> None:
        """Stop it and let it go on."""
        while time.monotonic() < self._until:
            if self._may_stop.wait(0.05):
                with suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGSTOP)
                    time.sleep(self._pause_s)
                    os.kill(self._pid, signal.SIGCONT)
                time.sleep(0.05)

    def stop(self) -> None:
        """End it."""
        self._until = 0.0
        self.join(10)
