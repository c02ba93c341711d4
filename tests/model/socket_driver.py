"""Drives a broker process through its sockets, as `driver` drives the data plane. Time is real: programs have none."""

from __future__ import annotations

import select
from pathlib import Path
from typing import Any

from tests.control_socket import ask
from tests.faults.amqp import Client
from tests.faults.broker_process import BrokerProcess
from tests.model import frames
from tests.model.driver import ADMIN, Driver
from tests.model.program import Program

QUIET_S = 0.01


class SocketDriver(Driver):
    """A broker process over a folder, and the clients of a program, each with a socket."""

    patience_s = 5.0

    def __init__(self, program: Program, folder: Path) -> None:
        settings = "" if program.queues_max is None else f"[limits]\nqueues_per_user = {program.queues_max}\n"
        self._process = BrokerProcess(folder / "data", f"{settings}[journal]\nsync = false\n")
        self._sockets: dict[int, Client] = {}
        super().__init__(program, folder)

    def _open(self) -> None:
        self._process.start()
        self.broker: Any = Console(self._process.data)
        self._readers = {}
        for client in (ADMIN, *range(len(self._program.clients))):
            self.connect(client)

    def connect(self, client: int) -> None:
        """Connect a client, with its channel open."""
        self._sockets[client] = Client(self._process.port)
        self._readers[client] = frames.Reader(client)
        self.select_mode(client)

    def disconnect(self, client: int) -> None:
        """Close a client's socket; it is gone until `connect`."""
        self._sockets.pop(client).close()

    def call(self, client: int, data: bytes) -> None:
        """Send bytes of a client."""
        self._sockets[client].send_bytes(data)

    def tick(self) -> None:
        """Do nothing: the broker has its own clock."""

    def _round(self) -> bool:
        """Read what has come. Returns whether there was anything."""
        ready, _, _ = select.select(list(self._sockets.values()), [], [], QUIET_S)
        for client, it in self._sockets.items():
            self._readers[client].feed(it.receive_bytes(0.0))
        return bool(ready)

    def unread(self) -> list[int]:
        """Return nothing: a client that is not read gets no answer."""
        return []

    def stop(self) -> None:
        """Send SIGTERM to the broker."""
        assert self._process.stop() == 0, self._process.said()
        self._hang_up()

    def kill(self) -> None:
        """Send SIGKILL to the broker."""
        self._process.kill()
        self._hang_up()

    def _hang_up(self) -> None:
        for client in self._sockets.values():
            client.close()
        self._sockets.clear()


class Console:
    """What the data plane tells about itself, through the control socket."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def rows(self, kind: str, offset: int, limit: int) -> tuple[list[dict[str, Any]], int]:
        """Return the same as the data plane."""
        result = ask(self._data, kind, offset=offset, limit=limit)
        return result["rows"], result["total_count"]

    def metrics(self) -> dict[str, int]:
        """Return the same as the data plane."""
        return dict(ask(self._data, "metrics"))
