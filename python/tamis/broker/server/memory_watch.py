"""Watches the memory of the process: tells the data plane what it has, and gives back what it does not need any more.

The allocator keeps what is freed. That is right for a moment and wrong for an hour, so it is told to give it back."""

from __future__ import annotations

import time

from tamis._core import Broker
from tamis.broker import system

UNUSED_BYTES_MIN = 12 * 1024 * 1024
"""Memory that is worth giving back. The event loop waits meanwhile: 2 to 7 ms for so much, 30 ms and more for 100 MiB.
So it is done as soon as there is so much."""
LOOK_S = 0.02
"""Minimum time between two looks while the data plane works: it frees about so much in that time."""
SHARE = 0.01
"""The share of the time that giving memory back may take."""
AT_ONCE_S = 0.2
"""The time that it may take at once, after a time without it: that of about 0.5 GiB."""


def room_bytes(limit: int) -> int:
    """Return what the data plane may take: `limit` bytes for the whole process, less what it takes before it begins.

    Half of the limit is left to it in any case, so that a very low limit does not stop every publisher.

    Args:
        limit: the setting `memory_bytes`.
    """
    return max(limit - system.memory_bytes(), limit // 2)


class MemoryWatch:
    """Tells the data plane how much memory the process has, and gives memory back when much of it is unused.

    Args:
        broker: the data plane.
        at_first_bytes: the memory of the process before there was a data plane.
    """

    def __init__(self, broker: Broker, at_first_bytes: int) -> None:
        self._broker = broker
        self._at_first_bytes = at_first_bytes
        self._looked_s = 0.0
        self._left_s = AT_ONCE_S
        self._kept_bytes = 0

    def check_again(self, now_s: float) -> None:
        """Check if the last look was some time ago; the data plane has done a piece of its work."""
        if now_s - self._looked_s >= LOOK_S:
            self.check(now_s)

    def check(self, now_s: float) -> None:
        """Give back what is free, when it is much more than the last time that nothing more could be given back.

        What the process still has is the data plane's to judge, at every call.
        """
        self._left_s = min(AT_ONCE_S, self._left_s + (now_s - self._looked_s) * SHARE)
        self._looked_s = now_s
        resident = system.memory_bytes()
        self._broker.note_process_memory(max(resident - self._at_first_bytes, 0))
        unused = resident - self._broker.memory_counted_bytes()
        self._kept_bytes = min(self._kept_bytes, unused) if self._kept_bytes else unused
        if unused - self._kept_bytes >= UNUSED_BYTES_MIN and self._left_s > 0:
            self._give_back()

    def _give_back(self) -> None:
        began_s = time.perf_counter()
        system.give_memory_back()
        self._left_s -= time.perf_counter() - began_s
        self._kept_bytes = system.memory_bytes() - self._broker.memory_counted_bytes()
