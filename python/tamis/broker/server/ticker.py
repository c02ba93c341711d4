"""Calls a function ten times a second, and measures how late the event loop was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

INTERVAL_S = 0.1


class Ticker:
    """A timer.

    Attributes:
        stall_s_max: the longest time that a call was late.
    """

    def __init__(self, on_tick: Callable[[float], None]) -> None:
        self.stall_s_max = 0.0
        self._on_tick = on_tick
        self._due_s = 0.0

    def start(self) -> None:
        """Schedule the first call."""
        self._schedule(asyncio.get_running_loop())

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self.stall_s_max = max(self.stall_s_max, now_s - self._due_s)
        self._schedule(loop)
        self._on_tick(now_s)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due_s = loop.time() + INTERVAL_S
        loop.call_at(self._due_s, self._tick)
