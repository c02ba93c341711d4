"""Gives a thread real-time priority, so that what it waits for is not the load beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

THROTTLE = Path("/proc/sys/kernel/sched_rt_runtime_us")
"""The microseconds of each second that real-time threads may run; -1: all."""


def become_real_time() -> bool:
    """Make the calling thread a real-time thread; what it starts has the usual priority. Return whether it may be one.

    A higher usual priority (`nice`) is not enough: where the kernel groups processes by session, it counts only among
    those of a session. A real-time thread that rests less than a twentieth of each second is stopped for as long."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(10))
    except PermissionError:
        return False
    return True


@contextmanager
def without_rest() -> Iterator[bool]:
    """Let real-time threads run without a rest meanwhile, where this process may say so. Return whether it may.

    Otherwise the kernel stops one that is always busy for 50 ms of each second."""
    try:
        before = THROTTLE.read_text(encoding="ascii")
        THROTTLE.write_text("-1", encoding="ascii")
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        THROTTLE.write_text(before, encoding="ascii")
