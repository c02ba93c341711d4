"""Runs a real broker for tests: `tamis serve` in a separate process, on free ports."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from tests.control_socket import ask

START_S, STOP_S = 60, 20
"""These limits detect broken brokers, not slow ones, because machines are shared."""


class RunningBroker:
    """`tamis serve` in a folder of its own, where its tamis.toml is and its log goes; with HTTP only where told so."""

    def __init__(
        self, folder: Path, *options: str, config: str = "", python: tuple[str, ...] = ("-m", "tamis")
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log_path = folder / "log.jsonl"
        (folder / "tamis.toml").write_text(config if "http" in config else f"http = false\n{config}")
        self._options = options
        self._python_options = python
        self._connections: list[pika.BlockingConnection] = []
        self.process: subprocess.Popen[bytes]
        self.port = self.tls_port = 0
        self.start()

    def start(self) -> None:
        """Start it and wait until it listens; a second start uses the same port."""
        before = len(self.log())
        arguments = ("serve", "--data", str(self.data), "--amqp-port", str(self.port), *self._options)
        with self.log_path.open("ab") as log:
            command = [sys.executable, *self._python_options, *arguments]
            self.process = subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder)
        ready = self.wait_for_log("ready", START_S, skip=before)
        for address in ready["addresses"]:
            if found := re.fullmatch(r"(amqps?)://.*:(\d+)", address):
                if found[1] == "amqp":
                    self.port = int(found[2])
                else:
                    self.tls_port = int(found[2])

    def log(self) -> list[dict[str, Any]]:
        """Return all logged events, oldest first."""
        if not self.log_path.exists():
            return []
        return [json.loads(line) for line in self.log_path.read_text().splitlines() if line.startswith("{")]

    def wait_for_log(self, event: str, timeout_s: float = 20, skip: int = 0) -> dict[str, Any]:
        """Wait for an event of this name, and return the first after `skip` others."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            for found in self.log()[skip:]:
                if found["event"] == event:
                    return found
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"no '{event}' in the log:\n{self.log_path.read_text()}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(STOP_S)
        self._hang_up()
        return code

    def kill(self) -> None:
        """Kill it, as a crash would."""
        self.process.kill()
        self.process.wait(STOP_S)
        self._hang_up()

    def _hang_up(self) -> None:
        """Let clients notice that the broker has ended, so that they close their sockets."""
        for connection in self._connections:
            with suppress(AMQPError):
                connection.close()
        self._connections.clear()

    def ask(self, op: str, **fields: Any) -> Any:
        """Return the answer of the control socket."""
        return ask(self.data, op, **fields)

    @property
    def url(self) -> str:
        """Its address, without a user."""
        return f"amqp://127.0.0.1:{self.port}/"

    def parameters(self, user: str = "guest", password: str = "guest", **options: Any) -> pika.ConnectionParameters:
        """Return the parameters of a connection for pika."""
        credentials = pika.PlainCredentials(user, password)
        return pika.ConnectionParameters("127.0.0.1", self.port, credentials=credentials, **options)

    def connect(self, **options: Any) -> pika.BlockingConnection:
        """Return a new pika connection."""
        self._connections.append(pika.BlockingConnection(self.parameters(**options)))
        return self._connections[-1]

    def socket(self) -> socket.socket:
        """Return a plain socket, for bytes that no client would send."""
        connected = socket.create_connection(("127.0.0.1", self.port))
        connected.settimeout(20)
        return connected


StartBroker = Callable[..., RunningBroker]


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Start brokers with given options; they are killed at the end."""
    started: list[RunningBroker] = []

    def start(*options: str, **others: Any) -> RunningBroker:
        folder = tmp_path / f"broker{len(started)}"
        folder.mkdir()
        started.append(RunningBroker(folder, *options, **others))
        return started[-1]

    yield start
    for broker in started:
        broker.kill()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Return one broker for all tests that leave it unchanged."""
    running = RunningBroker(tmp_path_factory.mktemp("broker"))
    yield running
    assert running.process.poll() is None, running.log_path.read_text()
    running.kill()


@pytest.fixture
def connection(broker: RunningBroker) -> Iterator[pika.BlockingConnection]:
    """Return a pika connection to the shared broker."""
    made = broker.connect()
    yield made
    if made.is_open:
        made.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    """Return a pika channel to the shared broker."""
    return connection.channel()
