"""Reads what processes and all that they have started use: CPU time and memory, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(roots: list[int]) -> set[int]:
    """The processes with these pids, and all that they have started and that are still there."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _fields(int(entry.name))):
            parents[int(entry.name)] = int(fields[1])
    wanted, more = set(roots), set(roots)
    while more:
        more = {pid for pid, parent in parents.items() if parent in more} - wanted
        wanted |= more
    return wanted


def cpu_s(roots: list[int]) -> float:
    """CPU time of processes and all that they have started, in seconds."""
    return sum(sum(map(int, fields[11:15])) for pid in tree(roots) if (fields := _fields(pid))) / _TICKS


def own_cpu_s() -> float:
    """CPU time of this process alone, in seconds."""
    used = os.times()
    return used.user + used.system


def memory_mib(pids: set[int], name: str) -> float:
    """Memory of those of the processes that have this name, in MiB; pages that several of them share count in part."""
    return sum(_shared_kib(pid) for pid in pids if _name(pid).startswith(name)) / 1024


def own_memory_mib() -> float:
    """Memory of this process, in MiB."""
    return _shared_kib(os.getpid()) / 1024


def _fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name; none if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _shared_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
