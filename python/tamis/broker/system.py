"""Asks the operating system about the broker's process: open files, priority, memory."""

from __future__ import annotations

import os
import resource
import sys
import threading
from pathlib import Path

NICENESS = 10
"""Niceness of threads that verify passwords. With more, one that holds the interpreter's lock would wait too long."""
FILES_KEPT_FREE = 256
"""Number of files that connections may not use: the journal and the control socket need them."""


def allow_files(connections: int) -> int:
    """Raise the limit of open files for `connections` clients; return how many clients the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + FILES_KEPT_FREE
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    limit = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    return min(connections, max(soft, limit) - FILES_KEPT_FREE)


def be_nice() -> None:
    """Lower the priority of this thread: messages are more urgent than logins."""
    if sys.platform == "linux":  # elsewhere it would change the whole process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def memory_bytes() -> int:
    """Return the resident memory of the process; its maximum so far where the system does not tell the current one."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return pages * os.sysconf("SC_PAGE_SIZE")
