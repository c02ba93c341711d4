"""Mutated frames on live sockets neither kill the broker nor delay a bystander.

A connection ends with the first frame that breaks it, so that there are many connections with a few frames each. When
a client has sent all, it sends no more: the broker's end of the stream is its answer, and may take no longer than a
second. `make faults` sends a million frames; a failure prints its seed, and `TAMIS_SEED` runs that one again."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands, frame, header
from pamqp.body import ContentBody

from tests.faults.amqp import BrokerClosedError, BrokerGoneError, Client
from tests.faults.broker_process import BrokerProcess
from tests.faults.promises import times

pytestmark = pytest.mark.serial

FRAMES = times("TAMIS_FRAMES", 6_000, 1_000_000)
SEED = int(os.environ.get("TAMIS_SEED", random.SystemRandom().randrange(2**32)))
ATTACKERS = 3
FRAMES_MAX = 8
"""Maximum number of frames per connection."""
ANSWER_S_MAX = 1.0
CLOSE_CODES = {320, 402, 403, 404, 405, 406, 501, 502, 503, 504, 505, 506, 530, 540}
"""Codes that a close may have; 541, an error of the broker itself, is not among them."""

TABLE: dict[str, Any] = {
    "x-query": "price > 3 AND region IN ('EU', 'US')",
    "list": [1, "two", {"three": 3.5}],
    "deep": {"a": {"b": 1}},
}
HANDSHAKE = [
    b"AMQP\x00\x00\x09\x01",
    frame.marshal(commands.Connection.StartOk({"product": "a client"}, "PLAIN", "\0guest\0guest", "en_US"), 0),
    frame.marshal(commands.Connection.TuneOk(100, 131072, 0), 0),
    frame.marshal(commands.Connection.Open("/"), 0),
]
OPENED = [frame.marshal(commands.Channel.Open(), channel) for channel in (1, 2)]
METHODS = [
    commands.Exchange.Declare(exchange="e", exchange_type="topic", arguments=TABLE),
    commands.Exchange.Bind(destination="e", source="amq.topic", routing_key="a.#"),
    commands.Exchange.Delete(exchange="e"),
    commands.Queue.Declare(queue="q", arguments={"x-max-length": 50}),
    commands.Queue.Declare(queue="kept", durable=True, arguments={"x-max-length": 50, "x-message-ttl": 1000}),
    commands.Queue.Declare(exclusive=True, arguments=TABLE),
    commands.Queue.Bind(queue="q", exchange="e", routing_key="a.*.#", arguments=TABLE),
    commands.Queue.Unbind(queue="q", exchange="e", routing_key="a.*.#", arguments=TABLE),
    commands.Queue.Purge(queue="q"),
    commands.Basic.Qos(prefetch_count=3),
    commands.Basic.Consume(queue="q", consumer_tag="c", arguments={"x-query": "price > 3"}),
    commands.Basic.Cancel(consumer_tag="c"),
    commands.Basic.Get(queue="q"),
    commands.Basic.Ack(delivery_tag=1, multiple=True),
    commands.Basic.Nack(delivery_tag=1, multiple=True, requeue=True),
    commands.Basic.Reject(delivery_tag=1, requeue=False),
    commands.Basic.Recover(requeue=True),
    commands.Confirm.Select(),
    commands.Tx.Select(),
    commands.Tx.Commit(),
    commands.Tx.Rollback(),
    commands.Channel.Flow(active=True),
    commands.Channel.Close(200, "", 0, 0),
    commands.Connection.Close(200, "", 0, 0),
]


def content(exchange: str, key: str, size: int, **properties: Any) -> list[bytes]:
    """Return the frames of a message."""
    of = commands.Basic.Properties(headers={"price": 5, "region": "EU", **TABLE}, **properties)
    return [
        frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=key, mandatory=True), 1),
        frame.marshal(header.ContentHeader(0, size, of), 1),
        frame.marshal(ContentBody(b"x" * size), 1),
    ]


VALID = [
    *([frame.marshal(method, 1)] for method in METHODS),
    content("", "q", 20),
    content("e", "a.b.c", 300, content_type="text/plain", priority=3, timestamp=None),
    content("", "kept", 40, delivery_mode=2, expiration="100", message_id="m"),
    [b"\x08\x00\x00\x00\x00\x00\x00\xce"],
]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return the frame with one mistake somewhere."""
    changed = bytearray(data)
    at = chance.randrange(len(changed) + 1)
    end = min(len(changed), at + chance.randrange(1, 9))
    match chance.randrange(6):
        case 0:
            changed[at:end] = chance.randbytes(end - at)
        case 1 if at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
        case 2:
            changed[at:end] = bytes([chance.choice([0, 0x7F, 0x80, 0xFF])]) * (end - at)
        case 3:
            del changed[at:end]
        case 4:
            changed[at:at] = changed[at:end] * chance.randrange(1, 20)
        case _:
            changed[at:at] = chance.randbytes(chance.randrange(1, 9))
    return bytes(changed)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return a frame with a mistake, mostly with a corrected length, so that the broker reads further."""
    if data[:4] == b"AMQP" or chance.random() < 0.3:
        return damaged(data, chance)
    payload = damaged(data[7:-1], chance)
    return data[:3] + len(payload).to_bytes(4, "big") + payload + data[-1:]


def stream(chance: random.Random) -> tuple[bytes, int]:
    """Return the bytes of a connection, and the number of mutated frames; a tenth of them mutates the handshake."""
    if chance.random() < 0.1:
        frames, is_early = [*HANDSHAKE, *OPENED], True
    else:
        frames, is_early = [one for _ in range(3) for one in chance.choice(VALID)], False
    count = min(len(frames), chance.randint(1, FRAMES_MAX))
    places = set(chance.sample(range(len(frames)), count))
    sent = [mutated(one, chance) if place in places else one for place, one in enumerate(frames)]
    return b"".join(sent if is_early else [*HANDSHAKE, *OPENED, *sent]), count


@dataclass
class Seen:
    """The observations during an attack."""

    frames: int = 0
    connections: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    slowest_s: float = 0.0
    round_trips: int = 0
    errors: list[str] = field(default_factory=list)

    def answered(self, began: float) -> None:
        """Record an answer to what was asked at `began`."""
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)


class Attacker(threading.Thread):
    """Sends its share of mutated frames, from many addresses of its own: wrong passwords are slowed by address, and the
    ports of one would not suffice for a million frames."""

    def __init__(self, port: int, number: int, seed: int, frames: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._port, self._number, self._frames, self._stop_it = port, number, frames, stop
        self._chance = random.Random(f"{seed}-{number}")
        self.seen = Seen()

    def run(self) -> None:
        try:
            while self.seen.frames < self._frames and not self._stop_it.is_set():
                self._one()
        except (OSError, AssertionError) as error:
            self.seen.errors.append(f"attacker {self._number}: {error!r}")

    def _one(self) -> None:
        data, count = stream(self._chance)
        source = f"127.0.{self._number + 1}.{self._chance.randrange(1, 255)}"
        with socket.socket() as connection:
            connection.settimeout(30)
            connection.bind((source, 0))
            connection.connect(("127.0.0.1", self._port))
            answer = self._answer(connection, data)
        self.seen.frames += count
        self.seen.connections += 1
        self.seen.codes.update(close_codes(answer))

    def _answer(self, connection: socket.socket, data: bytes) -> bytes:
        """Read until the broker closes the socket, which it may do while we still send."""
        answer = bytearray()
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(1 << 16):
                answer += piece
        self.seen.answered(began)
        return bytes(answer)


def close_codes(answer: bytes) -> list[int]:
    """Return the codes of all closes that the broker has sent; all its bytes must be frames."""
    codes = []
    while len(answer) >= 8 and answer[:4] != b"AMQP":
        size = int.from_bytes(answer[3:7], "big")
        if len(answer) < size + 8:
            break
        assert answer[7 + size] == 0xCE, "the broker sent a frame without an end"
        if answer[0] == 1 and answer[7:11] in (b"\x00\x0a\x00\x32", b"\x00\x14\x00\x28"):
            codes.append(int.from_bytes(answer[11:13], "big"))
        answer = answer[size + 8 :]
    return codes


class Bystander(threading.Thread):
    """Publishes and gets a message repeatedly, as if it were alone."""

    def __init__(self, port: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._client, self._stop_it = Client(port), stop
        self._client.call(commands.Queue.Declare(queue="bystander", exclusive=True), "Queue.DeclareOk")
        self.seen = Seen()

    def run(self) -> None:
        try:
            while not self._stop_it.is_set():
                self._round_trip(f"message {self.seen.round_trips}".encode())
                time.sleep(0.005)
        except (BrokerGoneError, BrokerClosedError, TimeoutError) as error:
            self.seen.errors.append(f"bystander: {error!r}")
            self._stop_it.set()

    def _round_trip(self, body: bytes) -> None:
        began = time.monotonic()
        self._client.publish("", "bystander", body)
        self._client.call(commands.Basic.Get(queue="bystander", no_ack=True), "Basic.GetOk")
        got = None
        while got is None:
            got = next((one.value for one in self._client.frames(5.0) if isinstance(one, ContentBody)), None)
        if got != body:
            raise BrokerGoneError(f"{body!r} came back as {got!r}")
        self.seen.answered(began)
        self.seen.round_trips += 1


def attack(port: int, frames: int, seed: int) -> tuple[Seen, Seen]:
    """Send `frames` mutated frames; return the observations of all attackers together, and of the bystander."""
    print(f"TAMIS_SEED={seed}")
    stop = threading.Event()
    bystander = Bystander(port, stop)
    attackers = [Attacker(port, number, seed, frames // ATTACKERS, stop) for number in range(ATTACKERS)]
    for thread in [bystander, *attackers]:
        thread.start()
    for thread in attackers:
        thread.join()
    stop.set()
    bystander.join(30)
    together = Seen()
    for thread in attackers:
        together.frames += thread.seen.frames
        together.connections += thread.seen.connections
        together.codes += thread.seen.codes
        together.slowest_s = max(together.slowest_s, thread.seen.slowest_s)
        together.errors += thread.seen.errors
    print(f"{together.frames} frames on {together.connections} connections, slowest answer {together.slowest_s:.3f} s")
    print(f"closed with {dict(together.codes.most_common())}")
    print(f"bystander: {bystander.seen.round_trips} round trips, the slowest {bystander.seen.slowest_s:.3f} s")
    return together, bystander.seen


@pytest.mark.timeout(300 + FRAMES // 200)
def test_mutated_frames_end_their_own_connection_at_most_and_nobody_waits(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", settings='[log]\nlevel = "error"\n') as broker:
        attackers, bystander = attack(broker.port, FRAMES, SEED)
        assert broker.running(), broker.said()
        assert broker.stop() == 0
        said = broker.log.read_text(encoding="utf-8", errors="replace")
    assert attackers.errors + bystander.errors == []
    assert "a bug in tamis" not in said, said[-3000:]
    assert set(attackers.codes) <= CLOSE_CODES
    assert max(attackers.slowest_s, bystander.slowest_s) < ANSWER_S_MAX
    assert bystander.round_trips > 20
    # Frames that the handshake refuses, or that are all harmless, would prove little.
    assert {501, 502, 503} & set(attackers.codes)
    assert {404, 406} & set(attackers.codes)
    assert attackers.codes.total() < attackers.connections * 2


def test_control_a_broker_that_stands_still_or_dies_is_caught(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:

        def harm() -> None:
            time.sleep(0.5)
            os.kill(broker.pid, signal.SIGSTOP)
            time.sleep(1.5)
            os.kill(broker.pid, signal.SIGCONT)
            time.sleep(0.5)
            os.kill(broker.pid, signal.SIGKILL)

        accident = threading.Thread(target=harm)
        accident.start()
        attackers, bystander = attack(broker.port, 1_000_000, SEED)
        accident.join()
    assert max(attackers.slowest_s, bystander.slowest_s) > ANSWER_S_MAX
    assert any("bystander" in error for error in bystander.errors)
