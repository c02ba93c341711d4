"""Gives a thread real-time priority, so that what it waits for is not the load beside it."""

from __future__ import annotations

import os


def become_real_time() -> bool:
    """Make the calling thread a real-time thread; what it starts has the usual priority. Return whether it may be one.

    A higher usual priority (`nice`) is not enough: where the kernel groups processes by session, it counts only among
    those of a session. A real-time thread that rests less than a twentieth of each second is stopped for as long."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(10))
    except PermissionError:
        return False
    return True
