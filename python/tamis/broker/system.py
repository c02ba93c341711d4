"""What the broker asks of the operating system about its own process."""

from __future__ import annotations

import os
import resource
import sys
import threading
from pathlib import Path

NICENESS = 10
"""More would let a thread that holds the interpreter's lock wait too long for a processor."""
FILES_KEPT_FREE = 256


def allow_files(connections: int) -> int:
    """Ask the system for as many open files as there may be connections; how many of these it allows.

    Some files are kept free of connections: the journal and the control socket must not fail because of many clients.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + FILES_KEPT_FREE
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    return min(connections, max(soft, most) - FILES_KEPT_FREE)


def be_nice() -> None:
    """Let this thread come after others where processors are short: messages before logins."""
    if sys.platform == "linux":  # elsewhere it would mean the whole process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def memory_bytes() -> int:
    """What the process has in memory; the most that it ever had where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return pages * os.sysconf("SC_PAGE_SIZE")
