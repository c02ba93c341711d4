"""Nobody can put out a face of the broker: not by silence on every port, nor by wrong logins from many addresses."""

from __future__ import annotations

import base64
import os
import resource
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pika
import pytest

from tamis._core import amqp_encode_method
from tamis.broker.login.handshake import PROTOCOL_HEADER
from tests.broker.conftest import RunningBroker
from tests.faults.promises import times

pytestmark = [pytest.mark.serial, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

SILENT = 1000
ADDRESSES = times("TAMIS_WRONG_ADDRESSES", 100, 300)
ANSWER_S_MAX = 1.0
"""The promised maximum; on a shared machine, what a quiet broker takes is added several times."""


class Faces:
    """What must be answered at any time: health, metrics, and a login that the broker has not seen yet."""

    def __init__(self, broker: RunningBroker) -> None:
        self._broker = broker
        addresses = broker.wait_for_log("ready")["addresses"]
        self.url = next(address for address in addresses if address.startswith("http"))
        self._password = (broker.data / "admin-password").read_text().strip()

    def health(self) -> None:
        with urllib.request.urlopen(f"{self.url}/health", timeout=60) as answer:
            assert answer.status == 200

    def metrics(self) -> None:
        request = urllib.request.Request(f"{self.url}/metrics")
        credentials = base64.b64encode(f"admin:{self._password}".encode()).decode()
        request.add_header("Authorization", f"Basic {credentials}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert b"tamis_up 1.0" in answer.read()

    def login(self) -> None:
        pika.BlockingConnection(self._broker.parameters("admin", self._password)).close()

    def slowest(self) -> tuple[str, float]:
        """Return the face that took longest, and its seconds."""
        taken: dict[str, float] = {}
        for face in (self.health, self.metrics, self.login):
            taken[face.__name__] = seconds(face)
        print(taken)
        return max(taken.items(), key=lambda it: it[1])


def seconds(work: Callable[[], None]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


@pytest.fixture
def quiet_s(tmp_path: Path) -> float:
    """Return what the slowest face of a broker takes that nobody attacks."""
    (tmp_path / "quiet").mkdir()
    quiet = RunningBroker(tmp_path / "quiet", config="http_port = 0\n")
    try:
        return Faces(quiet).slowest()[1]
    finally:
        quiet.kill()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 3 * SILENT)), hard))
    running = RunningBroker(tmp_path, config="http_port = 0\n")
    yield running
    running.kill()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def is_kept(took_s: float, quiet_s: float) -> bool:
    """Return whether an answer came in time."""
    return took_s < ANSWER_S_MAX + 3 * quiet_s


def test_control_a_broker_that_stands_still_is_caught(broker: RunningBroker, quiet_s: float) -> None:
    faces = Faces(broker)
    os.kill(broker.process.pid, signal.SIGSTOP)
    again = threading.Timer(1.1 * ANSWER_S_MAX + 3 * quiet_s, os.kill, (broker.process.pid, signal.SIGCONT))
    again.start()
    _, took_s = faces.slowest()
    again.join()
    assert not is_kept(took_s, quiet_s)


def test_silence_on_every_port_puts_out_no_face(broker: RunningBroker, quiet_s: float) -> None:
    faces = Faces(broker)
    ports = (broker.port, int(faces.url.rpartition(":")[2]))
    silent = [socket.create_connection(("127.0.0.1", port)) for port in ports for _ in range(SILENT)]
    try:
        face, took_s = faces.slowest()
        assert is_kept(took_s, quiet_s), face
    finally:
        for wire in silent:
            wire.close()


class Flood(threading.Thread):
    """Logs in with wrong passwords, from one address after the other, and waits for no answer."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._is_over = threading.Event()
        self.count = 0

    def run(self) -> None:
        wires: list[socket.socket] = []
        fields = {"client_properties": {}, "mechanism": "PLAIN", "response": b"\x00admin\x00wrong", "locale": "en_US"}
        wrong = PROTOCOL_HEADER + amqp_encode_method(0, "connection.start-ok", fields)
        while not self._is_over.wait(1 / 50):
            address = f"127.0.{1 + self.count % ADDRESSES // 250}.{1 + self.count % ADDRESSES % 250}"
            with suppress(OSError):
                wires.append(socket.create_connection(("127.0.0.1", self._port), source_address=(address, 0)))
                wires[-1].sendall(wrong)
            self.count += 1
        for wire in wires:
            wire.close()

    def stop(self) -> None:
        self._is_over.set()
        self.join(30)


def test_wrong_logins_from_many_addresses_hold_up_no_right_one(broker: RunningBroker, quiet_s: float) -> None:
    flood = Flood(broker.port)
    flood.start()
    while flood.count < 2 * ADDRESSES:  # every address has failed by now
        time.sleep(0.1)
    face, took_s = Faces(broker).slowest()
    flood.stop()
    assert is_kept(took_s, quiet_s), face
    assert broker.wait_for_log("login refused")
