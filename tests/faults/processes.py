"""Kills a process with everything that it started, and nothing else: it leads a separate session."""

from __future__ import annotations

import os
import re
import signal
import subprocess


def kill_group(child: subprocess.Popen[str]) -> None:
    """Send SIGKILL to the child and what it started: Java, and Spark's workers, which are in a separate group."""
    for pid in session_members(child.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    child.wait()


def kill_part(child: subprocess.Popen[str], part: str) -> bool:
    """Send SIGKILL to one part of a pipeline's run, and to nothing else; return false if it is not there now.

    Args:
        child: the run, which leads a session.
        part: ``driver``, ``java``, ``worker`` or ``source``: Spark's Python worker and its runner of a source.
    """
    if part == "driver":
        child.kill()
        return True
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,ppid=,args=", "--sid", str(child.pid)], capture_output=True, text=True, check=False
    )
    found = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    ours = [(int(pid), int(parent)) for pid, parent, arguments in found if _PARTS[part].search(arguments)]
    parents = {parent for _, parent in ours}
    leaves = [pid for pid, _ in ours if pid not in parents]  # the daemon of the workers is none of them
    if not leaves:
        return False
    try:
        os.kill(leaves[-1], signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


_PARTS = {
    "java": re.compile(r"/java "),
    "worker": re.compile(r"pyspark\.daemon pyspark\.worker$"),
    "source": re.compile("python_streaming_source_runner"),
}


def session_members(session_id: int) -> list[int]:
    """Return the processes of a session, the leader first, since it is the one that writes."""
    listed = subprocess.run(["ps", "-o", "pid=", "--sid", str(session_id)], capture_output=True, text=True, check=False)
    return sorted(map(int, listed.stdout.split()), key=lambda pid: pid != session_id)
