"""Calls a function ten times a second, and measures how long the event loop was held, and by what."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tamis.broker import system

INTERVAL_S = 0.1
RECENT_S = 60.0
"""Time for which a stall is a recent one."""
SHELL = "shell"
"""The cause of a stall that no call of the data plane explains."""
TICK = "shell tick"
"""The cause of one that the function itself explains: files are looked at, say."""


@dataclass(frozen=True)
class Stall:
    """A time in which the event loop did one thing only.

    Attributes:
        seconds: how long it was.
        cause: what it did: a call of the data plane with its last method, as in ``receive queue.bind``.
        cpu_s: how much of it, at most, was work of the loop's thread.
        core_wait_s: how much of it, at most, the thread waited for a core. What remains of `seconds` beside both is
            waiting for something else: a lock, a disk, memory.
    """

    seconds: float = 0.0
    cause: str = ""
    cpu_s: float = 0.0
    core_wait_s: float = 0.0


class Ticker:
    """A timer.

    Args:
        on_tick: called with the time of the event loop, in seconds.
        longest_call: returns the microseconds of the data plane's longest call since it was last asked, and its cause.

    Attributes:
        longest: the longest stall since the start.
    """

    def __init__(self, on_tick: Callable[[float], None], longest_call: Callable[[], tuple[int, str]]) -> None:
        self.longest = Stall()
        self._recent: deque[tuple[float, Stall]] = deque()
        self._on_tick = on_tick
        self._longest_call = longest_call
        self._due_s = 0.0
        self._cpu_s = self._core_wait_s = 0.0

    def start(self) -> None:
        """Schedule the first call, of the thread that calls."""
        self._times_since_last()
        self._schedule(asyncio.get_running_loop())

    def recent(self) -> Stall:
        """Return the longest stall of the last minute."""
        return max((stall for _, stall in self._recent), key=_seconds, default=Stall())

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self._note(now_s, now_s - self._due_s, SHELL)
        self._schedule(loop)
        began_s = time.perf_counter()
        self._on_tick(now_s)
        self._note(now_s, time.perf_counter() - began_s, TICK)

    def _note(self, now_s: float, late_s: float, otherwise: str) -> None:
        """Note a stall: the longest call since the last note, or what took `late_s`, caused by `otherwise` then."""
        call_us, cause = self._longest_call()
        call_s = call_us / 1e6
        # A call that explains half of it is its cause: a tick is late by the whole stall at most.
        seconds, cpu_s, core_wait_s = max(call_s, late_s), *self._times_since_last()
        cause = cause if call_s * 2 >= late_s else otherwise
        # Both times are of all that happened since the last note, and the stall is a part of that.
        stall = Stall(seconds, cause, min(cpu_s, seconds), min(core_wait_s, seconds))
        self.longest = max(self.longest, stall, key=_seconds)
        while self._recent and self._recent[0][0] < now_s - RECENT_S:
            self._recent.popleft()
        # Only what may yet be the longest of the last minute: the stalls in it descend.
        while self._recent and self._recent[-1][1].seconds <= stall.seconds:
            self._recent.pop()
        self._recent.append((now_s, stall))

    def _times_since_last(self) -> tuple[float, float]:
        """Return how long this thread worked, and how long it waited for a core, since the last question."""
        before, now = (self._cpu_s, self._core_wait_s), (time.thread_time(), system.core_wait_s())
        self._cpu_s, self._core_wait_s = now
        return now[0] - before[0], now[1] - before[1]

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due_s = loop.time() + INTERVAL_S
        loop.call_at(self._due_s, self._tick)


def _seconds(stall: Stall) -> float:
    return stall.seconds
