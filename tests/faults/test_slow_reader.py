"""One reader of a stream that has stopped hurts no other reader, and has everything when it goes on."""

from __future__ import annotations

import selectors
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands

from tests.broker.conftest import RunningBroker
from tests.faults.amqp import PAD, Client
from tests.faults.pauses import Pauses
from tests.faults.promises import LONG, times
from tests.faults.stream_reader import Reading, StreamReader

FAST = times("TAMIS_FAST_READERS", 20, 1_000)
MESSAGES = times("TAMIS_SLOW_READER_MESSAGES", 200, 600)
ROUNDS = times("TAMIS_SLOW_READER_ROUNDS", 1, 3)
DELIVERIES_PER_S = 10_000
RATE_MAX = 100.0
MORE_MEMORY_BYTES_MAX = 64 << 20
TIMES_MAX = 1.2
BODY_BYTES = 256
LIMIT_S = 120
STREAM: dict[str, Any] = {"x-queue-type": "stream"}


class FastReaders:
    """Readers without acknowledgement, whose messages say when they were published."""

    def __init__(self, port: int, stream: str) -> None:
        self._selector = selectors.DefaultSelector()
        self.bodies: list[list[str]] = []
        self.delays_ns: list[int] = []
        for number in range(FAST):
            client = Client(port)
            client.call(commands.Basic.Consume(queue=stream, no_ack=True), "Basic.ConsumeOk")
            self._selector.register(client, selectors.EVENT_READ, (number, client))
            self.bodies.append([])

    def take(self, timeout_s: float) -> None:
        """Note what has come."""
        for key, _ in self._selector.select(timeout_s):
            number, client = key.data
            for _, body in client.deliveries(0):
                self.delays_ns.append(time.monotonic_ns() - int(body.split()[1]))
                self.bodies[number].append(body)

    def close(self) -> None:
        """Close their sockets."""
        for key in list(self._selector.get_map().values()):
            key.data[1].close()
        self._selector.close()


def publish_at_a_rate(publisher: Client, readers: FastReaders, stream: str) -> list[str]:
    """Publish at a steady rate while the readers read, until they have everything; return the bodies."""
    interval_s = 1 / min(RATE_MAX, DELIVERIES_PER_S / FAST)
    sent: list[str] = []
    begin = time.monotonic()
    while len(sent) < MESSAGES or any(len(bodies) < MESSAGES for bodies in readers.bodies):
        assert time.monotonic() < begin + MESSAGES * interval_s + LIMIT_S, "the fast readers have not everything"
        due_s = begin + len(sent) * interval_s - time.monotonic()
        if len(sent) < MESSAGES and due_s <= 0:
            sent.append(f"{len(sent)} {time.monotonic_ns()} ".ljust(BODY_BYTES, PAD))
            publisher.publish("", stream, sent[-1].encode())
        else:
            readers.take(min(max(due_s, 0), 0.05) if len(sent) < MESSAGES else 0.05)
    return sent


@contextmanager
def running(folder: Path) -> Iterator[RunningBroker]:
    broker = RunningBroker(folder)
    try:
        yield broker
    finally:
        broker.kill()


def resident_bytes(broker: RunningBroker) -> int:
    return int(Path(f"/proc/{broker.process.pid}/statm").read_text(encoding="ascii").split()[1]) * 4096


def measure(broker: RunningBroker, stream: str, *, with_stopped: bool) -> float:
    """Return the p99 of the delays in us; with a stopped reader, see that it has everything afterwards."""
    publisher = Client(broker.port)
    publisher.call(commands.Queue.Declare(queue=stream, durable=True, arguments=STREAM), "Queue.DeclareOk")
    readers = FastReaders(broker.port, stream)
    reading = Reading()
    stopped = StreamReader(broker.port, stream, reading) if with_stopped else None  # it takes nothing
    before = resident_bytes(broker)
    sent = publish_at_a_rate(publisher, readers, stream)
    assert resident_bytes(broker) - before < MORE_MEMORY_BYTES_MAX
    assert all(bodies == sent for bodies in readers.bodies)
    readers.close()
    if stopped is not None:
        until = time.monotonic() + LIMIT_S
        while len(reading.seen) < MESSAGES and time.monotonic() < until:
            stopped.take(1)
        assert [number for number, _ in reading.seen] == list(range(1, MESSAGES + 1))
        assert [body for _, body in reading.seen] == [body.rstrip(PAD) for body in sent]
        assert reading.disorder == []
        stopped.close()
    publisher.close()
    return statistics.quantiles(readers.delays_ns, n=100)[98] / 1e3


@pytest.mark.timeout(300 + 4 * LIMIT_S * ROUNDS)
def test_a_reader_that_has_stopped_hurts_nobody_and_reads_everything_afterwards(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        alone, beside = [], []
        for number in range(ROUNDS):
            alone.append(measure(broker, f"alone{number}", with_stopped=False))
            beside.append(measure(broker, f"beside{number}", with_stopped=True))
    p99, p99_beside = statistics.median(alone), statistics.median(beside)
    print(f"{FAST} readers, p99: {p99:.0f} us, beside a stopped one {p99_beside:.0f} us")
    if LONG:
        assert p99_beside <= TIMES_MAX * p99


@pytest.mark.timeout(300 + 12 * LIMIT_S)
def test_control_a_broker_that_stands_still_at_times_is_caught(tmp_path: Path) -> None:
    """The machine may stand still, too, while the readers are alone: then there is another round."""
    with running(tmp_path) as broker:
        assert any(is_caught(broker, number) for number in range(3))


def is_caught(broker: RunningBroker, number: int) -> bool:
    """Return whether the readers' p99 is larger while the broker is stopped at times."""
    p99 = measure(broker, f"alone{number}", with_stopped=False)
    always = threading.Event()
    always.set()
    pauses = Pauses(broker.process.pid, always, seconds=LIMIT_S)
    pauses.start()
    p99_beside = measure(broker, f"beside{number}", with_stopped=True)
    pauses.stop()
    return p99_beside > TIMES_MAX * p99
