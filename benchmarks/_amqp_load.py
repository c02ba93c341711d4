"""Loads an AMQP broker through plain sockets, with frames that are encoded once so that the client costs little.

A client library takes 20 to 170 microseconds per message, which would hide the cost of the broker."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from pathlib import Path
from typing import Any

from pamqp import commands, frame, header
from pamqp.body import ContentBody

FRAME_END = 0xCE
FRAME_BODY_BYTES = (128 << 10) - 8
"""The body in one frame, as the broker offers it."""
READ_BYTES = 1 << 18


class LoadConnection:
    """A connection with one open channel: sends methods one by one and waits for each answer; messages are bytes."""

    def __init__(self, port: int, user: str = "guest", password: str = "guest") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self._wait("Connection.Start")
        self._send(commands.Connection.StartOk({}, "PLAIN", f"\0{user}\0{password}", "en_US"), 0)
        tune = self._wait("Connection.Tune")
        self._send(commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)
        self._send(commands.Connection.Open("/"), 0)
        self._wait("Connection.OpenOk")
        self.call(commands.Channel.Open(), "Channel.OpenOk")

    def _send(self, method: Any, channel: int = 1) -> None:
        self.socket.sendall(frame.marshal(method, channel))

    def _wait(self, name: str) -> Any:
        while True:
            size = 8 + int.from_bytes(self._left[3:7], "big")
            if len(self._left) >= size:
                _, _, value = frame.unmarshal(self._left[:size])
                self._left = self._left[size:]
                if value.name == name:
                    return value
                if value.name.endswith(".Close"):
                    raise RuntimeError(f"the broker closed: {value.reply_code} {value.reply_text}")
                continue
            if not (data := self.socket.recv(READ_BYTES)):
                raise RuntimeError(f"the broker hung up while {name} was waited for")
            self._left += data

    def call(self, method: Any, answer: str) -> Any:
        """Send a method and return its answer."""
        self._send(method)
        return self._wait(answer)

    def bind_all(self, bindings: list[Any]) -> None:
        """Send many queue.bind at once, and wait for all answers."""
        self.socket.settimeout(300)
        encoded = [frame.marshal(one, 1) for one in bindings]
        for start in range(0, len(encoded), 256):
            part = encoded[start : start + 256]
            self.socket.sendall(b"".join(part))
            for _ in part:
                self._wait("Queue.BindOk")

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def publish_bytes(exchange: str, key: str, body: bytes, **properties: Any) -> bytes:
    """Return the frames of a publish on channel 1."""
    pieces = (body[start : start + FRAME_BODY_BYTES] for start in range(0, len(body), FRAME_BODY_BYTES))
    return (
        frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=key), 1)
        + frame.marshal(header.ContentHeader(0, len(body), commands.Basic.Properties(**properties)), 1)
        + b"".join(frame.marshal(ContentBody(piece), 1) for piece in pieces)
    )


class FrameCounter:
    """Counts deliveries and confirms in a stream of bytes, without keeping it."""

    def __init__(self) -> None:
        self.delivered = self.confirmed = 0
        self._left = b""

    def feed(self, data: bytes) -> None:
        """Count the frames in the next bytes."""
        data = self._left + data
        at, size = 0, len(data)
        while size - at >= 8:
            kind, _, length = struct.unpack_from(">BHI", data, at)
            end = at + 8 + length
            if end > size:
                break
            if kind == 1:
                method = data[at + 7 : at + 11]
                if method == b"\x00\x3c\x00\x3c":
                    self.delivered += 1
                elif method == b"\x00\x3c\x00\x50":
                    self.confirmed = struct.unpack_from(">Q", data, at + 11)[0]
                elif method in (b"\x00\x0a\x00\x32", b"\x00\x14\x00\x28"):
                    raise RuntimeError(f"the broker closed: {data[at + 13 : end - 1]!r}")
            at = end
        self._left = data[at:]


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and its threads in seconds, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9


class Flow:
    """Publishers, and readers that count deliveries, all on one thread, with `window` unfinished messages.

    Args:
        publishers: connections, each with the bytes of its messages, published in turn.
        readers: connections whose deliveries are counted.
        per_message: number of deliveries, or confirms, per message.
        confirms: whether a message is finished when it is confirmed, rather than delivered.
    """

    def __init__(
        self,
        publishers: list[tuple[LoadConnection, list[bytes]]],
        readers: list[LoadConnection],
        *,
        per_message: float = 1.0,
        confirms: bool = False,
        window: int = 5_000,
    ) -> None:
        self._publishers = publishers
        self._per_message, self._confirms, self._window = per_message, confirms, window
        self._counters = {connection.socket: FrameCounter() for connection, _ in publishers}
        for reader in readers:
            self._counters.setdefault(reader.socket, FrameCounter())
        self._selector = selectors.DefaultSelector()
        for opened in self._counters:
            opened.setblocking(False)
            self._selector.register(opened, selectors.EVENT_READ)
        self._sent = 0
        self._pending: dict[socket.socket, memoryview] = {}

    def run(self, count: int, chunk: int = 32, limit_s: float = 60.0) -> float:
        """Publish `count` messages in total and wait until all are finished; return the seconds that it took.

        Raises:
            TimeoutError: it took longer than `limit_s`.
        """
        began, target = time.monotonic(), self._sent + count
        turn = 0
        while self._done() < target:
            if time.monotonic() - began > limit_s:
                raise TimeoutError(f"{self._done() - target + count:,.0f} of {count:,} messages in {limit_s} s")
            busy = False
            if self._sent < target and self._sent - self._done() < self._window:
                connection, messages = self._publishers[turn % len(self._publishers)]
                turn += 1
                if connection.socket not in self._pending:
                    amount = min(chunk, target - self._sent)
                    start = self._sent
                    data = b"".join(messages[(start + i) % len(messages)] for i in range(amount))
                    self._sent += amount
                    self._pending[connection.socket] = memoryview(data)
                busy = True
            self._write()
            self._read(0 if busy else 0.001)
        return time.monotonic() - began

    def _done(self) -> float:
        if self._confirms:
            return sum(self._counters[connection.socket].confirmed for connection, _ in self._publishers)
        return sum(counter.delivered for counter in self._counters.values()) / self._per_message

    def _write(self) -> None:
        for opened, left in list(self._pending.items()):
            try:
                written = opened.send(left)
            except BlockingIOError:
                continue
            if written == len(left):
                del self._pending[opened]
            else:
                self._pending[opened] = left[written:]

    def _read(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            opened = key.fileobj
            assert isinstance(opened, socket.socket)
            try:
                data = opened.recv(READ_BYTES)
            except BlockingIOError:
                continue
            if not data:
                raise RuntimeError("the broker hung up")
            self._counters[opened].feed(data)
