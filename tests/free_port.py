"""Finds a port for a server that a test stops and starts again."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOWEST, HIGHEST = 20_000, 32_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_given: set[int] = set()


def free_port() -> int:
    """Return a port that nobody listens on, and that no outgoing connection is given later.

    The system takes the ports of outgoing connections from a range of its own. A port of that range can
    be taken while a test's server is down, and the server cannot start again.
    """
    highest = HIGHEST
    if _RANGE.exists():
        highest = max(min(HIGHEST, int(_RANGE.read_text().split()[0]) - 1), LOWEST + 1_000)
    candidates = [port for port in range(LOWEST, highest) if port not in _given]
    for port in random.SystemRandom().sample(candidates, len(candidates)):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise RuntimeError(f"every port from {LOWEST} to {highest} is taken")
