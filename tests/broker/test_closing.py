"""Sockets end in time: what a client has sent destroys no answer, and who does not read or log in is cut."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

from tests.broker.conftest import RunningBroker, StartBroker
from tests.broker.test_server import (
    HEADER,
    OPEN_CHANNEL,
    PUBLISH,
    can_work,
    frame,
    frames,
    method,
    name,
    shake_hands,
    wait_for,
)

PUBLISHED = PUBLISH + HEADER + frame(3, 1, b"12345")
CLOSE = method("connection.close", reply_code=200, reply_text="bye", class_id=0, method_id=0)
SHORT_LINGER = (
    "-c",
    "import tamis.broker.server.connections as c; c.LINGER_S = 0.5; from tamis.__main__ import main; main()",
)


def until(holds: Callable[[], bool], timeout_s: float) -> float:
    """Wait until something holds, and return how long that took."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < timeout_s
        time.sleep(0.05)
    return time.monotonic() - begun


def rest(wire: socket.socket) -> bytes:
    """Return all bytes until the broker closes the socket; a reset fails."""
    data = b""
    while piece := wire.recv(65536):
        data += piece
    return data


# ---- what the client still sends ----


def test_a_client_that_publishes_much_before_its_close_is_closed_in_order(broker: RunningBroker) -> None:
    with broker.socket() as wire:
        shake_hands(wire)
        wire.sendall(OPEN_CHANNEL + PUBLISHED * 1000 + CLOSE)
        assert [name for _, name, _ in frames(rest(wire))] == ["channel.open-ok", "connection.close-ok"]


def test_what_comes_after_the_close_resets_nothing(broker: RunningBroker) -> None:
    with broker.socket() as wire:
        shake_hands(wire)
        wire.sendall(OPEN_CHANNEL + CLOSE)
        wait_for(wire, "channel.open-ok")
        for _ in range(20):  # a client whose close has overtaken its messages
            wire.sendall(PUBLISHED * 1000)
            time.sleep(0.01)
        wire.shutdown(socket.SHUT_WR)
        assert [name for _, name, _ in frames(rest(wire))] in (["connection.close-ok"], [])


def test_the_reason_of_a_close_arrives_though_more_was_sent(broker: RunningBroker) -> None:
    with broker.socket() as wire:
        shake_hands(wire)
        wire.sendall(OPEN_CHANNEL + frame(1, 1, b"", end=0) + PUBLISHED * 20_000)
        closed = [fields for _, name, fields in frames(rest(wire)) if name == "connection.close"]
        assert [fields["reply_code"] for fields in closed] == [501]


def test_a_client_that_never_closes_its_socket_is_cut(start_broker: StartBroker) -> None:
    broker = start_broker(python=SHORT_LINGER)
    with broker.socket() as wire:
        shake_hands(wire)
        wire.sendall(CLOSE)
        assert [name for _, name, _ in frames(rest(wire))] == ["connection.close-ok"]
        until(lambda: broker.ask("about")["sockets"] == 0, 10)


# ---- who does not read ----


def test_who_stops_reading_is_cut_after_a_missed_heartbeat(start_broker: StartBroker) -> None:
    broker = start_broker(python=SHORT_LINGER, config="[limits]\nheartbeat_s = 1\n")
    queue = name()
    with broker.connect(heartbeat=0) as connection, broker.socket() as clogged, broker.socket() as idle:
        channel = connection.channel()
        channel.queue_declare(queue)
        for wire in (clogged, idle):
            shake_hands(wire, heartbeat=1)
        clogged.sendall(OPEN_CHANNEL + method("basic.consume", 1, queue=queue, no_ack=True))
        wait_for(clogged, "channel.open-ok")
        for _ in range(100):
            channel.basic_publish("", queue, b"x" * 100_000)
        assert can_work(broker)
        until(lambda: broker.ask("about")["sockets"] == 1, 20)  # only the publisher's is left
        assert [row["state"] for row in broker.ask("connections")["rows"]] == ["running"]
        assert len([event for event in broker.log() if event["event"] == "heartbeat missed"]) == 2


# ---- who does not log in ----


def test_a_handshake_ends_in_its_time_though_the_client_answers_nothing(start_broker: StartBroker) -> None:
    broker = start_broker(config="[limits]\nhandshake_s = 2.0\n")
    spoken = [b"", b"AMQ", b"AMQP\x00\x00\x09\x01"]
    wires = [broker.socket() for _ in range(30)]
    begun = time.monotonic()
    for index, wire in enumerate(wires):
        wire.sendall(spoken[index % 3])
    took = until(lambda: broker.ask("about")["sockets"] == 0, 20) + time.monotonic() - begun
    assert took < 2 + 3, "not 5 seconds more because the header was sent"
    for index, wire in enumerate(wires):
        with contextlib.suppress(ConnectionResetError):
            names = [name for _, name, _ in frames(rest(wire))]
            assert names == ([], [], ["connection.start", "connection.close"])[index % 3]
        wire.close()


def test_a_handshake_of_one_byte_at_a_time_ends_too(start_broker: StartBroker) -> None:
    broker = start_broker(config="[limits]\nhandshake_s = 1.0\n")
    with broker.socket() as wire:
        begun = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in b"AMQP\x00\x00\x09\x01" + method("connection.start-ok", mechanism="PLAIN") * 100:
                wire.sendall(bytes([byte]))
                time.sleep(0.02)
        assert time.monotonic() - begun < 8


def test_silent_sockets_make_room_for_clients(start_broker: StartBroker) -> None:
    broker = start_broker(config="[limits]\nconnections = 20\n")
    silent = [broker.socket() for _ in range(20)]
    assert can_work(broker), "the socket that was silent longest has made room"
    assert silent[0].recv(1) == b""
    for wire in silent:
        wire.close()
