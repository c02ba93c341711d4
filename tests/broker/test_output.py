"""One call returns output for all connections, within a bound, and none for sockets that take no bytes."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from tamis._core import Broker, amqp_encode_method
from tamis.broker.rules import Rules
from tamis.broker.server import data_plane
from tamis.broker.server.data_plane import DataPlane
from tamis.broker.users.access import Access
from tamis.broker.users.user import ALL, Limits, User

BODY = b"x" * 100_000
CONSUMERS = 20
AT_ONCE = 1024 * 1024 + 256 * 1024
"""Maximum bytes per call: the bound, plus the output of one connection."""


def method(name: str, **fields: object) -> bytes:
    return amqp_encode_method(1, name, fields)


def frame(kind: int, payload: bytes) -> bytes:
    return bytes([kind, 0, 1]) + len(payload).to_bytes(4, "big") + payload + b"\xce"


def publish() -> bytes:
    header = b"\x00\x3c\x00\x00" + len(BODY).to_bytes(8, "big") + b"\x00\x00"
    return method("basic.publish", exchange="amq.fanout") + frame(2, header) + frame(3, BODY)


def connected(broker: Broker) -> int:
    number = broker.connect(
        user="ann",
        vhost="/",
        frame_max=131072,
        channel_max=10,
        heartbeat_s=0,
        peer="127.0.0.1",
        client_name="a test",
        knows_blocked=True,
        knows_cancel=True,
        qos_is_for_channel=False,
        now_us=0,
    )
    broker.receive(number, method("channel.open"), 0)
    return number


def fanned_out() -> tuple[Broker, int, list[int]]:
    """Return a broker, a publisher, and consumers that all get its messages."""
    access = Access({"ann": User("ann").permitted("/", ALL)}, ("/",), Limits(), True)
    broker = Broker(
        Rules(access, None),
        frame_max=131072,
        channel_max=10,
        message_bytes_max=1 << 20,
        memory_bytes_max=1 << 26,
        seed=1,
        now_us=0,
        wall_us=0,
    )
    publisher, consumers = connected(broker), [connected(broker) for _ in range(CONSUMERS)]
    for number in consumers:
        queue = f"q{number}"
        broker.receive(number, method("queue.declare", queue=queue), 0)
        broker.receive(number, method("queue.bind", queue=queue, exchange="amq.fanout"), 0)
        broker.receive(number, method("basic.consume", queue=queue, no_ack=True), 0)
    return broker, publisher, consumers


def test_output_comes_in_bounded_pieces_until_there_is_no_more() -> None:
    broker, publisher, consumers = fanned_out()
    delivered = dict.fromkeys(consumers, 0)
    outputs, has_more, *_ = broker.receive(publisher, publish(), 1)
    calls = 1
    while True:
        assert sum(len(data) for _, data, _, _ in outputs) <= AT_ONCE
        for number, data, is_open, wants_input in outputs:
            assert is_open
            assert wants_input
            delivered[number] += data.count(BODY)
        if not has_more:
            break
        outputs, has_more, *_ = broker.take_output()
        calls += 1
    assert calls > 1
    assert delivered == dict.fromkeys(consumers, 1)
    assert broker.take_output() == ([], False, False, None)


def test_who_has_no_room_gets_the_output_when_there_is_some() -> None:
    broker, publisher, consumers = fanned_out()
    assert broker.receive(publisher, publish(), 1, 0)[:2] == ([], True)
    assert broker.work(1, 0)[:2] == ([], True)
    seen: list[int] = []
    has_more = True
    while has_more:
        outputs, has_more, *_ = broker.take_output(1)
        assert len(outputs) == 1
        seen += [number for number, data, _, _ in outputs if BODY in data]
    assert sorted(seen) == sorted(consumers)


def test_a_socket_that_takes_no_bytes_gets_none_until_it_does() -> None:
    broker, publisher, (paused, *others) = fanned_out()
    broker.set_writable(paused, False)
    outputs, has_more, *_ = broker.receive(publisher, publish(), 1)
    while has_more:
        further, has_more, *_ = broker.take_output()
        outputs += further
    assert {number for number, data, _, _ in outputs if data} == set(others)
    broker.set_writable(paused, True)
    outputs, *_ = broker.take_output()
    assert {(number, is_open) for number, _, is_open, _ in outputs} == {(paused, True)}
    assert sum(data.count(BODY) for _, data, _, _ in outputs) == 1


def test_an_end_is_told_once() -> None:
    broker, publisher, _ = fanned_out()
    ((number, data, is_open, _),), has_more, *_ = broker.receive(publisher, b"no frame at all", 1)
    assert (number, is_open, has_more) == (publisher, False, False)
    assert data  # connection.close
    assert broker.take_output() == ([], False, False, None)


class FailingTransport:
    def __init__(self) -> None:
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


class FakeClient:
    def __init__(self, fails: bool) -> None:
        self.transport, self.fails, self.written = FailingTransport(), fails, b""

    def write(self, data: bytes, is_open: bool, wants_input: bool) -> None:
        if self.fails:
            raise MemoryError("no room")
        self.written += data


def plane_of(broker: Broker | None, clients: dict[int, FakeClient]) -> DataPlane:
    plane = DataPlane.__new__(DataPlane)
    plane.clients = clients  # type: ignore[assignment]
    if broker is not None:
        plane.broker = broker
    plane._is_writing = plane._is_flush_wanted = plane._is_work_scheduled = plane._is_turn_scheduled = False
    plane._room_bytes, plane._alarm = data_plane.TURN_BYTES_MAX, None
    return plane


def test_a_turn_of_the_event_loop_hands_over_so_much_and_the_next_ones_the_remainder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(data_plane, "TURN_BYTES_MAX", 500_000)
    broker, publisher, consumers = fanned_out()
    clients = {number: FakeClient(fails=False) for number in (publisher, *consumers)}
    plane = plane_of(broker, clients)
    turns: list[int] = []

    async def write() -> None:
        plane.receive(publisher, publish())
        while not turns or turns[-1] < sum(len(client.written) for client in clients.values()):
            turns.append(sum(len(client.written) for client in clients.values()))
            await asyncio.sleep(0)

    asyncio.run(write())
    assert all(after - before <= 500_000 + len(BODY) + 1_000 for before, after in pairwise([0, *turns]))
    assert [clients[number].written.count(BODY) for number in consumers] == [1] * CONSUMERS


def test_a_client_whose_write_fails_costs_the_others_nothing() -> None:
    failing, well = FakeClient(fails=True), FakeClient(fails=False)
    plane = plane_of(None, {1: failing, 2: well})
    reported: list[dict[str, object]] = []

    async def write() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        assert not plane._write_round(([(1, b"lost", True, True), (2, b"kept", True, True)], False, False, None))

    asyncio.run(write())
    assert failing.transport.is_aborted
    assert well.written == b"kept"
    assert [str(context["exception"]) for context in reported] == ["no room"]
