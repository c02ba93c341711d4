"""A small AMQP client for fault tests, which sends without waiting and records what was confirmed and delivered.

Client libraries hide what happened just before a connection broke; here every received frame counts."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pamqp import commands, frame, header
from pamqp import constants as frame_kinds
from pamqp.body import ContentBody

READ_BYTES = 1 << 16
BODY_FRAME_BYTES = (128 << 10) - 8
"""The body in one frame, as the broker offers it."""
PAD = "."
_DELIVER = b"\x00\x3c\x00\x3c"


class BrokerGoneError(Exception):
    """The connection ended without a close, as when a broker is killed."""


class BrokerClosedError(Exception):
    """The broker closed the channel or the connection: code and text."""


def _refuse_close(value: Any) -> None:
    if getattr(value, "name", "") in {"Connection.Close", "Channel.Close"}:
        raise BrokerClosedError(f"{value.reply_code} {value.reply_text}")


def marshal(exchange: str, key: str, body: bytes, **properties: Any) -> bytes:
    """Return the frames of a message on channel 1."""
    pieces = (body[start : start + BODY_FRAME_BYTES] for start in range(0, len(body), BODY_FRAME_BYTES))
    return (
        frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=key), 1)
        + frame.marshal(header.ContentHeader(0, len(body), commands.Basic.Properties(**properties)), 1)
        + b"".join(frame.marshal(ContentBody(piece), 1) for piece in pieces)
    )


_OPEN: set[Client] = set()


def close_clients() -> None:
    """Close the socket of every open client, for the end of any test."""
    for client in list(_OPEN):
        client.close()


class Client:
    """A connection with channel 1 open; one thread uses it."""

    def __init__(self, port: int, *, timeout_s: float = 10.0, identity: str = "") -> None:
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        except OSError as error:
            raise BrokerGoneError(str(error)) from error
        _OPEN.add(self)
        self._arrivals = select.poll()  # unlike `select`, for any number of open files
        self._arrivals.register(self._socket, select.POLLIN)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = bytearray()
        self.send_bytes(b"AMQP\x00\x00\x09\x01")
        self.wait("Connection.Start", timeout_s)
        able = {"capabilities": {"connection.blocked": True, "consumer_cancel_notify": True}}
        about = able | ({"identity": identity} if identity else {})
        self.send(commands.Connection.StartOk(about, "PLAIN", "\0guest\0guest", "en_US"), 0)
        tune = self.wait("Connection.Tune", timeout_s)
        self.send(commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)
        self.send(commands.Connection.Open("/"), 0)
        self.wait("Connection.OpenOk", timeout_s)
        self.call(commands.Channel.Open(), "Channel.OpenOk")

    def send(self, method: Any, channel: int = 1) -> None:
        """Send a method without waiting."""
        self.send_bytes(frame.marshal(method, channel))

    def publish(self, exchange: str, key: str, body: bytes, **properties: Any) -> None:
        """Send a message without waiting."""
        self.send_bytes(marshal(exchange, key, body, **properties))

    def fileno(self) -> int:
        """Return the socket's descriptor, for select."""
        return self._socket.fileno()

    def receive_bytes(self, timeout_s: float) -> bytes:
        """Return what has arrived, after waiting at most `timeout_s` for more."""
        self._receive(timeout_s)
        data = bytes(self._left)
        self._left.clear()
        return data

    def send_bytes(self, data: bytes) -> None:
        """Send frames without waiting."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise BrokerGoneError(str(error)) from error

    def frames(self, timeout_s: float) -> Iterator[Any]:
        """Return the frames that have arrived, after waiting at most `timeout_s` for the first.

        Raises:
            BrokerGoneError: the connection ended; earlier frames were returned before.
            BrokerClosedError: the broker closed it, with its code and text.
        """
        if not self._left:
            self._receive(timeout_s)
        while self._left:
            size = self._frame_size()
            if len(self._left) < size:
                self._receive(timeout_s)
                continue
            _, _, value = frame.unmarshal(bytes(self._left[:size]))
            del self._left[:size]
            _refuse_close(value)
            yield value

    def deliveries(self, timeout_s: float) -> Iterator[tuple[str, str]]:
        """Return (consumer tag, body) of the messages that have arrived, after waiting at most `timeout_s` for more.

        Other fields are not decoded, so that millions can be read. A body is at most one frame.

        Raises:
            BrokerGoneError, BrokerClosedError: as `frames`.
        """
        self._receive(timeout_s)
        data, at, whole = bytes(self._left), 0, 0
        tag = ""
        while (end := at + 8 + int.from_bytes(data[at + 3 : at + 7], "big")) <= len(data):
            kind, begin = data[at], at + 7
            if kind == frame_kinds.FRAME_BODY:
                yield tag, data[begin : end - 1].decode()
                whole = end
            elif kind == frame_kinds.FRAME_METHOD and data[begin : begin + 4] == _DELIVER:
                tag = data[begin + 5 : begin + 5 + data[begin + 4]].decode()
            elif kind == frame_kinds.FRAME_METHOD:
                _refuse_close(frame.unmarshal(data[at:end])[2])
                whole = end
            at = end
        del self._left[:whole]

    def _frame_size(self) -> int:
        """Return the size of the first frame; 8, the minimum, while it is unknown."""
        return 8 + int.from_bytes(self._left[3:7], "big") if len(self._left) >= 8 else 8

    def _receive(self, timeout_s: float) -> None:
        if not self._arrivals.poll(timeout_s * 1000):
            return
        try:
            data = self._socket.recv(READ_BYTES)
        except OSError as error:
            raise BrokerGoneError(str(error)) from error
        if not data:
            raise BrokerGoneError("end of stream")
        self._left += data

    def wait(self, name: str, timeout_s: float = 30.0) -> Any:
        """Return the next frame of that name, and skip others."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            for value in self.frames(max(0.0, end - time.monotonic())):
                if getattr(value, "name", "") == name:
                    return value
        raise TimeoutError(f"no {name} in {timeout_s} s")

    def call(self, method: Any, answer: str, timeout_s: float = 30.0) -> Any:
        """Send a method and return its answer."""
        self.send(method)
        return self.wait(answer, timeout_s)

    def close(self) -> None:
        """Close the socket, as the system does for a client that dies."""
        _OPEN.discard(self)
        self._socket.close()


@dataclass
class Ledger:
    """Checks the total-queue rule by the texts of the attempted, confirmed and delivered bodies.

    A lost message was confirmed, not delivered; a phantom was delivered, and refused or not attempted. Duplicates are
    counted."""

    attempted: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    delivered: list[str] = field(default_factory=list)

    @property
    def lost(self) -> set[str]:
        """Return the confirmed messages that were never delivered."""
        return self.confirmed - set(self.delivered)

    @property
    def phantoms(self) -> set[str]:
        """Return the delivered messages that were never sent, or refused."""
        return (set(self.delivered) - self.attempted) | (set(self.delivered) & self.refused)

    @property
    def duplicates(self) -> int:
        """Return the number of deliveries after the first of a message."""
        return len(self.delivered) - len(set(self.delivered))


class Publisher(threading.Thread):
    """Publishes messages to a queue as fast as `window` unconfirmed ones allow, until it is stopped.

    Args:
        queue: the queue, or the routing key where an exchange is given.
        size: bytes after each body's name, which stands alone in the ledger.
        transaction: the number of messages after which it commits, instead of asking for confirms.
    """

    def __init__(
        self,
        port: int,
        queue: str,
        name: str,
        ledger: Ledger,
        *,
        size: int = 0,
        window: int = 500,
        persistent: bool = True,
        exchange: str = "",
        properties: dict[str, Any] | None = None,
        transaction: int = 0,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._client = Client(port)
        if transaction:
            self._client.call(commands.Tx.Select(), "Tx.SelectOk")
        else:
            self._client.call(commands.Confirm.Select(), "Confirm.SelectOk")
        self._exchange, self._transaction = exchange, transaction
        self._queue, self._ledger, self._pad, self._window = queue, ledger, PAD * size, window
        self._properties = {"delivery_mode": 2 if persistent else 1, **(properties or {})}
        self._tags: dict[int, str] = {}
        self._committing: deque[int] = deque()
        self._nacked: set[int] = set()
        self._stopping = threading.Event()
        self.blocked = threading.Event()
        self.blocked_at: float | None = None
        self.error: Exception | None = None
        self.confirm_times: list[float] = []

    def stop(self) -> None:
        """Stop publishing, and wait a while for outstanding confirms."""
        self._stopping.set()
        self.join(30)

    def run(self) -> None:
        """Until stopped or the broker goes."""
        try:
            self._flow()
        except (BrokerGoneError, BrokerClosedError, AssertionError) as error:
            self.error = error
        finally:
            with contextlib.suppress(OSError):
                self._client.close()

    def _flow(self) -> None:
        number, end = 0, None
        while True:
            if self._stopping.is_set():
                end = end or time.monotonic() + 10
                if not self._tags or time.monotonic() > end or (self._transaction and not self._committing):
                    return
            elif len(self._tags) < self._window and not self.blocked.is_set():
                for _ in range(20):
                    number += 1
                    name = f"{self.name}-{number}"
                    self._ledger.attempted.add(name)
                    self._tags[number] = name
                    body = f"{name}{self._pad}".encode()
                    self._client.publish(self._exchange, self._queue, body, **self._properties)
                    if self._transaction and number % self._transaction == 0:
                        self._committing.append(number)
                        self._client.send(commands.Tx.Commit())
            busy = not self._stopping.is_set() and len(self._tags) < self._window and not self.blocked.is_set()
            for value in self._client.frames(0.0 if busy else 0.05):
                self._take(value)

    def _take(self, value: Any) -> None:
        name = getattr(value, "name", "")
        if name == "Tx.CommitOk":
            self._confirm(self._committing.popleft(), multiple=True)
        elif name == "Basic.Ack":
            self._confirm(value.delivery_tag, value.multiple)
        elif name == "Basic.Nack":
            for tag in self._told(value.delivery_tag, value.multiple):
                self._ledger.refused.add(self._tags.pop(tag))
                self._nacked.add(tag)
        elif name == "Connection.Blocked":
            self.blocked_at = time.monotonic()
            self.blocked.set()
        elif name == "Connection.Unblocked":
            self.blocked.clear()

    def _told(self, tag: int, multiple: bool) -> list[int]:
        """Return the messages that an answer is about."""
        return [it for it in self._tags if it <= tag] if multiple else [tag]

    def _confirm(self, tag: int, multiple: bool) -> None:
        self.confirm_times.append(time.time())
        tags = self._told(tag, multiple)
        twice = self._nacked.intersection(range(min(tags, default=tag), tag + 1))
        assert not twice, f"{len(twice)} refused messages were acknowledged as well"
        for it in tags:
            self._ledger.confirmed.add(self._tags.pop(it))


class ClientThread(threading.Thread, ABC):
    """Uses a client in a thread of its own, step by step, until stopped or the broker goes."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End after the step in progress, and close the socket."""
        self._stopping.set()
        self.join(30)

    def run(self) -> None:
        """Until stopped or the broker goes."""
        with contextlib.suppress(BrokerGoneError, BrokerClosedError):
            while not self._stopping.is_set():
                self.step()
        self.close()

    @abstractmethod
    def step(self) -> None:
        """Do a part of the work that takes less than a second."""

    def close(self) -> None:
        """Close the socket, as the system does for a client that dies."""
        with contextlib.suppress(OSError):
            self._client.close()


class Consumer(ClientThread):
    """Takes what a queue delivers, until stopped or the broker goes.

    Args:
        ack_every: the number of messages after which it acknowledges, or rejects if it `rejects`; 0: never.
        identity: the identity with which it connects; "": none.
    """

    def __init__(
        self,
        port: int,
        queue: str,
        ledger: Ledger,
        *,
        prefetch: int = 200,
        ack_every: int = 10,
        rejects: bool = False,
        no_ack: bool = False,
        identity: str = "",
    ) -> None:
        super().__init__(Client(port, identity=identity))
        self._client.call(commands.Basic.Qos(prefetch_count=prefetch), "Basic.QosOk")
        self._client.send(commands.Basic.Consume(queue=queue, no_ack=no_ack))
        self._ledger, self._ack_every, self._rejects = ledger, ack_every, rejects
        self._method: Any = None
        self.redelivered: list[bool] = []
        self.bodies: list[str] = []

    def step(self) -> None:
        """Take what has come."""
        for value in self._client.frames(0.05):
            if getattr(value, "name", "") == "Basic.Deliver":
                self._method = value
            elif isinstance(value, ContentBody) and self._method is not None:
                self._ledger.delivered.append(value.value.decode().rstrip(PAD))
                self.bodies.append(value.value.decode())
                self.redelivered.append(self._method.redelivered)
                if self._ack_every and self._method.delivery_tag % self._ack_every == 0:
                    self._settle(self._method.delivery_tag)

    def _settle(self, tag: int) -> None:
        if self._rejects:
            self._client.send(commands.Basic.Nack(tag, multiple=True, requeue=False))
        else:
            self._client.send(commands.Basic.Ack(tag, multiple=True))


class Getter(ClientThread):
    """Fetches one message of a queue after the other with basic.get, and acknowledges each, until the broker goes."""

    def __init__(self, port: int, queue: str, ledger: Ledger) -> None:
        super().__init__(Client(port))
        self._queue, self._ledger = queue, ledger

    def step(self) -> None:
        """Ask for a message, and take it."""
        self._client.send(commands.Basic.Get(queue=self._queue))
        tag = 0
        while not self._stopping.is_set():
            for value in self._client.frames(0.05):
                if getattr(value, "name", "") == "Basic.GetEmpty":
                    self._stopping.wait(0.02)
                    return
                if getattr(value, "name", "") == "Basic.GetOk":
                    tag = value.delivery_tag
                elif isinstance(value, ContentBody):
                    self._ledger.delivered.append(value.value.decode().rstrip(PAD))
                    self._client.send(commands.Basic.Ack(tag))
                    return


MAILBOX = "amq.mailbox."
"""What the names of mailboxes' queues begin with; the identity follows."""


def drain(port: int, queue: str, ledger: Ledger, limit_s: float = 300.0) -> int:
    """Take messages until the queue is empty; return their number.

    They are acknowledged: what comes when the client has seen enough goes back to the queue.

    Raises:
        TimeoutError: it is not empty after `limit_s`: the run is void.
    """
    client = Client(port, identity=queue.removeprefix(MAILBOX) if queue.startswith(MAILBOX) else "")
    client.send(commands.Basic.Qos(prefetch_count=1000))
    client.send(commands.Basic.Consume(queue=queue))
    count, end = 0, time.monotonic() + limit_s
    while time.monotonic() < end:
        client.send(commands.Queue.Declare(queue=queue, passive=True))
        before, left = count, None
        while left is None:
            for value in client.frames(5.0):
                if isinstance(value, ContentBody):
                    ledger.delivered.append(value.value.decode().rstrip(PAD))
                    count += 1
                elif getattr(value, "name", "") == "Queue.DeclareOk":
                    left = value.message_count
            if count > before:
                client.send(commands.Basic.Ack(count, multiple=True))
        if left == 0 and count == before:  # the queue is empty, and nothing is in flight
            client.close()
            return count
    raise TimeoutError(f"'{queue}' is not empty after {limit_s} s and {count} messages")
