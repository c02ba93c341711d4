"""Whatever takes memory counts towards the limit: in a small container, a client can fill none of it to the end.

`TAMIS_LONG=1 pytest tests/faults/test_broker_memory_use.py` is the long form. Each test has a broker with default
settings in a memory cgroup of 512 MiB, and the negative control one that believes that it has more."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands

from tests.faults.amqp import BrokerClosedError, BrokerGoneError, Client, marshal
from tests.faults.broker_process import BrokerProcess
from tests.faults.promises import times
from tests.faults.test_broker_memory import memory_limit, peak_mib

pytestmark = [pytest.mark.serial, pytest.mark.timeout(1_200)]

LIMIT_MIB = 512
BOUND_MIB = LIMIT_MIB / 2 * 1.25
"""memory_bytes is half of what the container has, and the process stays within a quarter more."""
QUEUES = 1_000
MESSAGES = times("TAMIS_FANNED_OUT", 6_000, 20_000)
UNACKNOWLEDGED = times("TAMIS_UNACKNOWLEDGED", 150_000, 1_000_000)
DEFINITIONS = times("TAMIS_DEFINITIONS", 150_000, 1_000_000)
QUERIES = times("TAMIS_EXPENSIVE_QUERIES", 300, 3_000)
CONNECTIONS = times("TAMIS_CONNECTIONS", 300, 4_000)
CHANNELS = times("TAMIS_CHANNELS", 20_000, 100_000)
CHANNELS_EACH = 2_000
READERS = times("TAMIS_STOPPED_READERS", 200, 1_000)
KEPT_MAX, SPARE_MIB = 0.3, 64
"""What the process may keep of the memory of queries, channels and connections that are gone: a part, or as much as is
not worth giving back."""
READER_KIB_MAX = 256
"""What the process may hold for each of many clients that do not read."""
BLOCKED_S_MAX = 1.0


class SmallBroker(BrokerProcess):
    """A broker in a memory cgroup, which answers questions about its memory."""

    def metrics(self) -> dict[str, Any]:
        """Return the numbers of its data plane."""
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(30)
            control.connect(str(self.data / "control.sock"))
            control.sendall(json.dumps({"id": 1, "op": "metrics"}).encode() + b"\n")
            answer = control.makefile("rb").readline()
        return dict(json.loads(answer)["result"])

    @property
    def peak_mib(self) -> float:
        """Return the highest resident memory of the process so far."""
        return peak_mib(self.pid)


@contextlib.contextmanager
def small_broker(folder: Path, settings: str = "") -> Iterator[SmallBroker]:
    """Start a broker in a cgroup of its own."""
    with memory_limit(f"tamis-use-{os.getpid()}", LIMIT_MIB) as group:
        join = (group / "cgroup.procs").open("wb", buffering=0)
        broker = SmallBroker(folder / "data", settings, preexec=lambda: join.write(b"0"))
        with join, broker.start():
            yield broker


class Bystander(threading.Thread):
    """A client that only declares one queue again and again, and notes how long the answers take."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._client = Client(port)
        self._stopping = threading.Event()
        self.waited_s_max = 0.0

    def run(self) -> None:
        """Ask until it is stopped, or the broker is gone."""
        while not self._stopping.wait(0.01):
            began = time.monotonic()
            try:
                self._client.call(commands.Queue.Declare(queue="bystander", exclusive=True), "Queue.DeclareOk", 120)
            except (BrokerGoneError, TimeoutError):
                return
            self.waited_s_max = max(self.waited_s_max, time.monotonic() - began)

    def stop(self) -> float:
        """End it; return the longest wait."""
        self._stopping.set()
        self.join(150)
        return self.waited_s_max


def bind_queues(client: Client, count: int, *, durable: bool = False) -> list[str]:
    """Declare queues that amq.fanout fills."""
    names = [f"unread.{number}" for number in range(count)]
    for name in names:
        client.send(commands.Queue.Declare(queue=name, durable=durable, nowait=True))
        client.send(commands.Queue.Bind(queue=name, exchange="amq.fanout", nowait=True))
    client.call(commands.Queue.Declare(queue=names[-1], passive=True), "Queue.DeclareOk", 120)
    return names


class Flood:
    """Publishes to amq.fanout until it is told to stop, or for some number of messages."""

    def __init__(self, broker: SmallBroker) -> None:
        self._broker = broker
        self._client = Client(broker.port)
        self.blocked_at: float | None = None
        self.over_at: float | None = None
        self.published = 0

    def run(self, count: int, **properties: Any) -> None:
        """Publish `count` messages of 100 bytes, as fast as the socket takes them."""
        messages = marshal("amq.fanout", "", b"m" * 100, **properties) * 20
        while self.published < count and self.blocked_at is None:
            self._client.send_bytes(messages)
            self.published += 20
            self._look()
        self._wait()

    def _look(self) -> None:
        numbers = self._broker.metrics()
        if self.over_at is None and numbers["memory_counted_bytes"] > numbers["memory_limit_bytes"]:
            self.over_at = time.monotonic()
        for value in self._client.frames(0):
            if getattr(value, "name", "") == "Connection.Blocked":
                self.blocked_at = time.monotonic()

    def _wait(self) -> None:
        """Wait until the broker has taken what was sent, or has said that it takes no more."""
        end = time.monotonic() + 120
        while time.monotonic() < end and self.blocked_at is None:
            self._look()
            if self._broker.metrics()["published"] >= self.published:
                return
            time.sleep(0.05)


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def check_given_back(broker: SmallBroker, before_mib: float) -> None:
    """The memory of what is gone goes back to the system, within some seconds."""
    taken_mib, end = resident_mib(broker.pid) - before_mib, time.monotonic() + 20
    kept_mib = taken_mib
    while time.monotonic() < end and kept_mib > max(taken_mib * KEPT_MAX, SPARE_MIB):
        time.sleep(0.2)
        kept_mib = resident_mib(broker.pid) - before_mib
    print(f"{kept_mib:.0f} of {taken_mib:.0f} MiB are kept")
    assert kept_mib <= max(taken_mib * KEPT_MAX, SPARE_MIB)


def check(broker: SmallBroker, told: str) -> None:
    """The broker lives, within the bound."""
    assert broker.running(), f"killed for its memory: {broker.said()}"
    numbers = broker.metrics()
    parts = {name: value >> 20 for name, value in numbers.items() if name.startswith("memory_") and value >> 20}
    print(f"{told}: peak {broker.peak_mib:.0f} of {BOUND_MIB:.0f} MiB; counted MiB {parts}")
    assert broker.peak_mib <= BOUND_MIB


@pytest.mark.parametrize("persistent", [False, True], ids=["transient", "persistent"])
def test_a_fan_out_to_unread_queues_stays_within_the_limit(tmp_path: Path, persistent: bool) -> None:
    with small_broker(tmp_path) as broker:
        bind_queues(Client(broker.port), QUEUES, durable=persistent)
        bystander = Bystander(broker.port)
        bystander.start()
        flood = Flood(broker)
        flood.run(MESSAGES, delivery_mode=2 if persistent else 1)
        waited_s = bystander.stop()
        told = f"{flood.published} messages to {QUEUES} queues, blocked {flood.blocked_at is not None}"
        check(broker, f"{told}, bystander waited {waited_s * 1000:.0f} ms")
        if flood.over_at is not None:
            assert flood.blocked_at is not None
            assert flood.blocked_at - flood.over_at <= BLOCKED_S_MAX
        assert waited_s < 1.0


def test_a_broker_that_believes_in_more_memory_is_killed(tmp_path: Path) -> None:
    """The negative control of these tests: the same messages, and a limit far above the cgroup's."""
    with small_broker(tmp_path, f"[limits]\nmemory_bytes = {8 << 30}\n") as broker:
        bind_queues(Client(broker.port), QUEUES)
        with contextlib.suppress(BrokerGoneError, BrokerClosedError, OSError, ValueError):
            Flood(broker).run(40_000)
        time.sleep(0.5)
        assert not broker.running()


def read_until_gone(reader: Client) -> None:
    """Read deliveries and acknowledge none, until the broker is gone."""
    with contextlib.suppress(BrokerGoneError, OSError, ValueError):
        while True:
            for _ in reader.deliveries(0.2):
                pass


def test_deliveries_that_nobody_acknowledges_stay_within_the_limit(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        (queue,) = bind_queues(Client(broker.port), 1)
        reader = Client(broker.port)
        reader.send(commands.Basic.Consume(queue=queue))
        threading.Thread(target=read_until_gone, args=(reader,), daemon=True).start()
        publisher = Client(broker.port)
        message = marshal("amq.fanout", "", b"m" * 100)
        sent, is_blocked = 0, False
        while sent < UNACKNOWLEDGED and not is_blocked:
            publisher.send_bytes(message * 1_000)
            sent += 1_000
            is_blocked = any(getattr(value, "name", "") == "Connection.Blocked" for value in publisher.frames(0))
        time.sleep(2)
        out = broker.metrics()["messages_unacknowledged"]
        check(broker, f"{out} of {sent} deliveries are not acknowledged, blocked {is_blocked}")
        assert is_blocked or out >= sent * 0.9


def definition(what: str, number: int) -> Any:
    """Return the method that makes one of many queues or bindings."""
    if what == "queues":
        return commands.Queue.Declare(queue=f"q.{number}", nowait=True)
    return commands.Queue.Bind(queue="bound", exchange="amq.topic", routing_key=f"a.{number}.*", nowait=True)


@pytest.mark.parametrize("what", ["queues", "bindings"])
def test_definitions_stay_within_the_limit(tmp_path: Path, what: str) -> None:
    with small_broker(tmp_path) as broker:
        client = Client(broker.port)
        client.call(commands.Queue.Declare(queue="bound"), "Queue.DeclareOk")
        made, refused = 0, ""
        while made < DEFINITIONS and not refused:
            try:
                for number in range(made, made + 1_000):
                    client.send(definition(what, number))
                made += 1_000
                client.call(commands.Queue.Declare(queue="bound", passive=True), "Queue.DeclareOk", 120)
            except (BrokerClosedError, BrokerGoneError) as error:
                refused = str(error)
        check(broker, f"{made} {what}, refused {refused!r}")
        assert made >= DEFINITIONS or refused


def expensive(number: int) -> dict[str, Any]:
    """Return the arguments of a binding with one of many queries that take much memory."""
    return {"x-query": rf"REGEX(body, '\w{{7}}x{number}')", "x-query-body": "text"}


def bind_expensive(port: int, begin: int) -> tuple[Client, int, str]:
    """Bind until a query is refused, or all are bound. Return the client, how many it has bound, and the reason."""
    client = Client(port)
    client.call(commands.Queue.Declare(queue="", exclusive=True), "Queue.DeclareOk")
    for number in range(begin, QUERIES):
        bind = commands.Queue.Bind(exchange="amq.topic", routing_key="#", arguments=expensive(number))
        try:
            client.call(bind, "Queue.BindOk", 60)
        except BrokerClosedError as error:
            return client, number - begin, str(error)
    return client, QUERIES - begin, ""


def test_expensive_queries_stay_within_the_limit_and_are_given_back(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        before_mib, bound, reasons = resident_mib(broker.pid), 0, set()
        clients, count = [], 1
        while bound < QUERIES and count > 0:
            client, count, reason = bind_expensive(broker.port, bound)
            bound += count
            clients.append(client)
            reasons.add(reason)
        check(broker, f"{bound} expensive queries over {len(clients)} connections, {reasons - {''}}")
        assert any("406" in reason or "506" in reason for reason in reasons), "all were bound"
        for client in clients:
            client.close()
        check_given_back(broker, before_mib)


def open_connections(port: int) -> tuple[list[Client], str]:
    """Open connections until one is refused."""
    clients: list[Client] = []
    try:
        while len(clients) < CONNECTIONS:
            clients.append(Client(port))
    except (BrokerClosedError, BrokerGoneError, TimeoutError) as error:
        return clients, str(error)
    return clients, ""


def open_channels(port: int) -> tuple[list[Client], str]:
    """Open channels, over some connections, until one is refused."""
    clients: list[Client] = []
    try:
        while len(clients) * CHANNELS_EACH < CHANNELS:
            clients.append(Client(port))
            for number in range(2, CHANNELS_EACH + 2):
                clients[-1].send(commands.Channel.Open(), number)
            clients[-1].call(commands.Queue.Declare(queue="", exclusive=True), "Queue.DeclareOk", 60)
    except (BrokerClosedError, BrokerGoneError, TimeoutError) as error:
        return clients, str(error)
    return clients, ""


@pytest.mark.parametrize("opened", [open_connections, open_channels])
def test_connections_and_channels_stay_within_the_limit_and_are_given_back(
    tmp_path: Path, opened: Callable[[int], tuple[list[Client], str]]
) -> None:
    with small_broker(tmp_path) as broker:
        before_mib = resident_mib(broker.pid)
        clients, refused = opened(broker.port)
        numbers = broker.metrics()
        told = f"{numbers['connections']} connections, {numbers['channels']} channels, refused {refused!r}"
        check(broker, told)
        assert refused or len(clients) >= min(CONNECTIONS, CHANNELS // CHANNELS_EACH)
        for client in clients:
            client.close()
        check_given_back(broker, before_mib)


def test_what_slow_readers_have_waiting_stays_within_the_limit(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        before = peak_mib(broker.pid)
        readers = [Client(broker.port) for _ in range(READERS)]
        for reader in readers:
            reader.call(commands.Queue.Declare(queue="", exclusive=True), "Queue.DeclareOk")
            reader.send(commands.Queue.Bind(queue="", exchange="amq.fanout", nowait=True))
            reader.send(commands.Basic.Consume(queue="", no_ack=True))
        publisher = Client(broker.port)
        for _ in range(3_000):
            publisher.publish("amq.fanout", "", b"m" * 4_000)
            if any(getattr(value, "name", "") == "Connection.Blocked" for value in publisher.frames(0)):
                break
        time.sleep(2)
        numbers = broker.metrics()
        each_kib = (broker.peak_mib - before) * 1024 / READERS
        check(broker, f"{READERS} readers that do not read, {each_kib:.0f} KiB each, {numbers['blocked']} blocked")
        assert numbers["memory_buffers_bytes"] > 0
        assert each_kib <= READER_KIB_MAX
