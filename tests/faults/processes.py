"""Kills a process with everything that it started, and nothing else: it leads a separate session."""

from __future__ import annotations

import os
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


def session_members(session_id: int) -> list[int]:
    """Return the processes of a session, the leader first, since it is the one that writes."""
    listed = subprocess.run(["ps", "-o", "pid=", "--sid", str(session_id)], capture_output=True, text=True, check=False)
    return sorted(map(int, listed.stdout.split()), key=lambda pid: pid != session_id)
