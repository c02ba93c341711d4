"""Sockets take turns at being read, however much one of them has."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import pytest
import uvloop

from tamis.broker.server.connection import ClientConnection

READ_BYTES = 4096
PIECE_BYTES = 1024
MUCH, LITTLE = READ_BYTES * 12, 10


class Reads:
    """Stands for the data plane and for the connections: it notes who was read, and how much."""

    def __init__(self) -> None:
        self.plane = self
        self.is_insecure = False
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self.done: list[tuple[int, int]] = []
        self.count = 0

    def add(self, client: ClientConnection) -> None:
        """Give a connection its number, as if its handshake were over."""
        client.number = self.count
        self.count += 1

    def remove(self, client: ClientConnection) -> None:
        """Forget a connection."""

    def buffer_for(self, number: int) -> memoryview:
        """Give the second client small pieces."""
        assert number >= 0, "it is no client's"
        return self.read_buffer[: PIECE_BYTES if number == 1 else READ_BYTES]

    def receive(self, number: int, data: memoryview) -> None:
        """Note a read."""
        self.done.append((number, len(data)))


async def reads_of(sizes: list[int]) -> list[tuple[int, int]]:
    """Let clients send so much, and return the reads."""
    reads, loop = Reads(), asyncio.get_running_loop()
    ours, theirs = zip(*(socket.socketpair() for _ in sizes), strict=True)
    for client, size in zip(theirs, sizes, strict=True):
        client.sendall(b"x" * size)
    for own in ours:
        await loop.connect_accepted_socket(lambda: ClientConnection(cast(Any, reads), None), own)
    while sum(count for _, count in reads.done) < sum(sizes):
        await asyncio.sleep(0.001)
    for client in theirs:
        client.close()
    return reads.done


@pytest.mark.parametrize("turns", [True, False], ids=["turns", "control"])
def test_a_client_that_has_sent_much_is_read_in_turns_with_the_others(
    monkeypatch: pytest.MonkeyPatch, turns: bool
) -> None:
    if not turns:
        monkeypatch.setattr(ClientConnection, "_let_others_be_read", lambda _: None)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        done = runner.run(reads_of([MUCH, LITTLE]))
    before = done.index((1, LITTLE))
    assert (before < 6) is turns, done
    assert [size for number, size in done if number == 0] == [READ_BYTES] * 12


def test_what_fills_its_buffer_is_read_on_in_the_pieces_that_the_data_plane_wants() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        done = runner.run(reads_of([MUCH, READ_BYTES + 2 * PIECE_BYTES + LITTLE]))
    assert [size for number, size in done if number == 0] == [READ_BYTES] * 12
    assert [size for number, size in done if number == 1] == [READ_BYTES, PIECE_BYTES, PIECE_BYTES, LITTLE]


def test_what_a_client_has_sent_behind_its_end_is_read_and_dropped() -> None:
    class LastReads(Reads):
        def add(self, client: ClientConnection) -> None:
            super().add(client)
            self.client = client

        def receive(self, number: int, data: memoryview) -> None:
            super().receive(number, data)
            self.client.number = -1  # as when its connection ends

    async def left() -> tuple[list[tuple[int, int]], bytes]:
        reads, loop = LastReads(), asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        with theirs:
            await loop.sock_sendall(theirs, b"x" * MUCH)
            transport, _ = await loop.connect_accepted_socket(lambda: ClientConnection(cast(Any, reads), None), ours)
            # More than the sockets' buffers hold: all of it is read.
            await asyncio.wait_for(loop.sock_sendall(theirs, b"x" * (4 << 20)), 10)
            transport.write(b"the end")
            return reads.done, await asyncio.wait_for(loop.sock_recv(theirs, 100), 10)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(left()) == ([(0, READ_BYTES)], b"the end")


def test_a_client_that_is_not_to_be_read_is_not_read_on() -> None:
    class Transport:
        said: list[str] = []  # noqa: RUF012 - one test uses it

        def pause_reading(self) -> None:
            self.said.append("pause")

        def resume_reading(self) -> None:
            self.said.append("resume")

        def is_closing(self) -> bool:
            return False

    async def said() -> list[str]:
        client = ClientConnection(cast(Any, Reads()), None)
        client.transport, client.number = cast(Any, Transport()), 0
        client.buffer_updated(READ_BYTES)
        client.write(b"", is_open=True, wants_input=False)
        await asyncio.sleep(0)
        return Transport.said

    assert asyncio.run(said()) == ["pause", "pause"]
