"""Watches the memory of the process: tells the data plane what it has, and gives back what it does not need any more.

The allocator keeps what is freed. That is right for a moment and wrong for an hour, so it is told to give it back."""

from __future__ import annotations

import time

from tamis._core import Broker
from tamis.broker import system

CHECK_S = 1.0
"""Time between two looks at the memory."""
UNUSED_BYTES_MIN = 64 * 1024 * 1024
"""Memory that is worth giving back. Giving it back takes about 10 ms."""
PAUSE_PER_S = 100
"""Pause after giving memory back, in multiples of the time that it took: the event loop waits meanwhile."""
PAUSE_S_MAX = 60.0
"""Maximum pause."""


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
        self._due_s = 0.0
        self._kept_bytes = 0

    def check(self, now_s: float) -> None:
        """Give back what is free, when it is much more than the last time that nothing more could be given back.

        What the process still has is the data plane's to judge, at every call.
        """
        resident = system.memory_bytes()
        self._broker.note_process_memory(max(resident - self._at_first_bytes, 0))
        if now_s >= self._due_s:
            self._due_s = now_s + CHECK_S
            self._give_back(now_s, resident)

    def _give_back(self, now_s: float, resident: int) -> None:
        unused = resident - self._broker.memory_counted_bytes()
        self._kept_bytes = min(self._kept_bytes, unused) if self._kept_bytes else unused
        if unused - self._kept_bytes < UNUSED_BYTES_MIN:
            return
        began_s = time.perf_counter()
        system.give_memory_back()
        took_s = time.perf_counter() - began_s
        self._kept_bytes = system.memory_bytes() - self._broker.memory_counted_bytes()
        self._due_s = now_s + min(max(CHECK_S, took_s * PAUSE_PER_S), PAUSE_S_MAX)
