"""Asks the operating system about the broker's process, and tells it: open files, priority, memory."""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tamis._core import give_memory_back

KEPT_MS = 1_000
"""How long the core keeps what is freed. What is kept longer is there when it is needed again, and counts meanwhile."""
NICENESS = 10
"""Niceness of threads that verify passwords. With more, one that holds the interpreter's lock would wait too long."""
CGROUPS = Path("/sys/fs/cgroup")
"""The directory of control groups, of version 2 or with one directory per controller."""
FAST_BYTES_MAX, TRIM_THRESHOLD, MMAP_THRESHOLD = 1, -1, -3
"""The names of these options in malloc.h: `M_MXFAST` is the first."""
MMAP_BYTES_MIN = 512 * 1024
"""Allocations of this size are mapped, so that they grow without copying and go back to the system when freed. Smaller
ones, such as a piece of output, are not: to map and unmap one takes longer than to fill it."""
TRIM_BYTES_MIN = 4 * 1024 * 1024
"""Free memory at the end of the heap that goes back to the system at once. Less would give back every piece written."""
FILES_KEPT_FREE = 384
"""Number of files that connections and streams may not use: the journal, readers of streams, entries of queues on disk
and the control socket need them."""


def allow_files(connections: int, streams: int = 0, existing_streams: int = 0) -> tuple[int, int]:
    """Raise the limit of open files; return how many connections and how many streams the system allows.

    Args:
        connections: how many there may be; each needs a file.
        streams: how many there may be; each needs a file. Where there are too few for all, they get a quarter.
        existing_streams: how many there are. They are opened whatever is allowed.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    streams = max(streams, existing_streams)
    wanted = connections + streams + FILES_KEPT_FREE
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections, streams
    limit = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    allowed = max(soft, limit) - FILES_KEPT_FREE
    streams = min(streams, max(allowed // 4, allowed - connections, existing_streams))
    return max(min(connections, allowed - streams), 1), streams


def be_nice() -> None:
    """Lower the priority of this thread: messages are more urgent than logins."""
    if sys.platform == "linux":  # elsewhere it would change the whole process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def core_wait_s() -> float:
    """Return how long this thread has been ready without having a core; 0 where the system does not tell it."""
    try:
        return int(_status(f"task/{threading.get_native_id()}/schedstat").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def memory_bytes() -> int:
    """Return the resident memory of the process; its maximum so far where the system does not tell the current one."""
    try:
        pages = int(_status("statm").split()[1])
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return pages * os.sysconf("SC_PAGE_SIZE")


def _status(name: str) -> bytes:
    """Return what the system says in this file about the process: it is short, and asked for many times a second.

    The file stays open, and the interpreter's lock stays with this thread. Otherwise each question would wait until
    whoever has got the lock meanwhile gives it back: 0.1 to 0.3 ms while the log is written, and up to 5 ms.
    """
    text = ctypes.create_string_buffer(256)
    _pread()(_status_file(f"/proc/{os.getpid()}/{name}"), text, len(text) - 1, 0)
    return text.value


@functools.cache
def _status_file(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


@functools.cache
def _pread() -> Callable[[int, ctypes.Array[ctypes.c_char], int, int], int]:
    """Return the system call, which keeps the interpreter's lock."""
    pread: Callable[[int, ctypes.Array[ctypes.c_char], int, int], int] = ctypes.PyDLL(None).pread
    pread.argtypes = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long  # type: ignore[attr-defined]
    return pread


def memory_limit_bytes(cgroups: Path = CGROUPS, of_process: Path = Path("/proc/self/cgroup")) -> int:
    """Return the memory that this process may use: the machine's, or less where a control group allows less.

    Args:
        cgroups: where the system shows control groups.
        of_process: the file that names those of this process.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_cgroup_limits(cgroups, of_process)])


def default_memory_bytes() -> int:
    """Return what the broker takes when nobody says otherwise: half of the limit, and at least 16 MiB."""
    return max(memory_limit_bytes() // 2, 16 * 1024 * 1024)


def _cgroup_limits(cgroups: Path, of_process: Path) -> list[int]:
    """Return the limits of the control groups of this process and of the groups around them."""
    try:
        lines = of_process.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = cgroups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = cgroups / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = root / path.lstrip("/")
        # In a container, the path may be one that only the host has; then the root is the container's own group.
        limits += [_limit(folder / name) for folder in (group, *group.parents) if folder.is_relative_to(root)]
    return [limit for limit in limits if limit is not None]


def _limit(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such group, or "max"
        return None


def let_memory_go_back() -> None:
    """Let the allocators give back what is freed, without a stop.

    That of the core has a thread for it. That of Python, where it is glibc's, maps large allocations one by one, and
    joins small ones as soon as they are freed. Otherwise it joins them all later, hundreds of thousands at a time,
    which takes 2 ms and more.
    """
    give_memory_back(KEPT_MS)
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if mallopt := getattr(libc, "mallopt", None):
        mallopt(FAST_BYTES_MAX, 0)
        mallopt(MMAP_THRESHOLD, MMAP_BYTES_MIN)
        mallopt(TRIM_THRESHOLD, TRIM_BYTES_MIN)
