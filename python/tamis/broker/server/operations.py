"""Carries out the operations of the control socket that go beyond the data plane."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tamis import __version__
from tamis.broker import system
from tamis.broker.server.connections import Connections
from tamis.broker.server.data_plane import now_us
from tamis.broker.server.listeners import Listeners
from tamis.broker.server.ticker import Ticker


class Operations:
    """The operations that `tamis.broker.control.RunningBroker` names."""

    def __init__(
        self,
        data: Path,
        connections: Connections,
        listeners: Listeners,
        ticker: Ticker,
        reload_users: Callable[[], None],
    ) -> None:
        self.reload_users = reload_users
        self._data = data
        self._connections = connections
        self._listeners = listeners
        self._ticker = ticker
        self._started_s = time.time()

    def about(self) -> dict[str, Any]:
        """Return version, addresses, start time, memory, and stalls of the event loop."""
        longest, recent = self._ticker.longest, self._ticker.recent()
        return {
            "version": __version__,
            "pid": os.getpid(),
            "addresses": self._listeners.addresses,
            "data": str(self._data),
            "started_s": self._started_s,
            "now_us": now_us(),
            "sockets": self._connections.sockets_count,
            "sockets_max": self._connections.sockets_max,
            "stall_s_max": longest.seconds,
            "stall_s_max_cause": longest.cause,
            "stall_s_max_cpu_s": longest.cpu_s,
            "stall_s_max_core_wait_s": longest.core_wait_s,
            "stall_s_recent": recent.seconds,
            "stall_s_recent_cause": recent.cause,
            "stall_s_recent_cpu_s": recent.cpu_s,
            "stall_s_recent_core_wait_s": recent.core_wait_s,
            "cpu_s": time.process_time(),
            "memory_bytes": system.memory_bytes(),
        }

    def health(self) -> dict[str, Any]:
        """Return whether the broker takes connections and messages."""
        if self._connections.is_stopping:
            return {"status": "stopping"}
        return {"status": "blocked" if self._connections.plane.broker.metrics()["blocked"] else "ok"}

    def close_connection(self, number: int, reason: str) -> bool:
        """Close a connection with 320; return whether it was open."""
        plane = self._connections.plane
        if number not in plane.clients:
            return False
        plane.close(number, reason)
        plane.flush()
        return True
