"""AMQP frames of a client: methods and messages to bytes, and bytes to what the broker said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pamqp import commands, frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from tests.model.program import BindingSpec, Publish, QueueSpec

FRAME_MAX = 131_072
ID_DIGITS = 8


@dataclass(frozen=True)
class Delivery:
    """A message that came: basic.deliver, basic.get-ok (no consumer) or basic.return (no tag)."""

    client: int
    tag: int
    consumer: str
    redelivered: bool
    exchange: str
    key: str
    id: int
    persistent: bool
    expiration: str | None
    deaths: tuple[tuple[str, str, int], ...]
    first_death: tuple[str, str] | None
    count_left: int = 0


@dataclass
class Said:
    """What the broker said to one client, in the order of the wire."""

    deliveries: list[Delivery] = field(default_factory=list)
    got: list[Delivery | None] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    confirms: list[tuple[str, int, bool]] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    closed: int | None = None
    reason: str = ""


def method(value: Any) -> bytes:
    """Return the frame of a method on channel 1."""
    return frame.marshal(value, 1)


def queue(spec: QueueSpec) -> bytes:
    """Return the frame that declares a queue."""
    return method(commands.Queue.Declare(queue=spec.name, durable=spec.durable, arguments=spec.arguments()))


def binding(spec: BindingSpec, *, is_made: bool = True) -> bytes:
    """Return the frame that makes a binding, or removes it."""
    if spec.to_exchange:
        kind, names = commands.Exchange, {"destination": spec.target, "source": spec.source}
    else:
        kind, names = commands.Queue, {"queue": spec.target, "exchange": spec.source}
    verb = kind.Bind if is_made else kind.Unbind
    return method(verb(routing_key=spec.key, arguments=dict(spec.arguments), **names))


def body_of(number: int, size: int) -> bytes:
    """Return the body of a message, which begins with its number."""
    return f"{number:0{ID_DIGITS}d}".encode().ljust(size, b".")


def message(publish: Publish, body: bytes) -> bytes:
    """Return the frames of basic.publish and of its message."""
    properties = commands.Basic.Properties(
        delivery_mode=2 if publish.persistent else 1,
        expiration=publish.expiration,
        headers={"number": publish.number, "text": publish.text},
    )
    start = commands.Basic.Publish(exchange=publish.exchange, routing_key=publish.key, mandatory=publish.mandatory)
    parts = [method(start), frame.marshal(ContentHeader(0, len(body), properties), 1)]
    step = FRAME_MAX - 8
    parts += [frame.marshal(ContentBody(body[at : at + step]), 1) for at in range(0, len(body), step)]
    return b"".join(parts)


class Reader:
    """Cuts what the broker writes for a client into frames, and sorts what they say."""

    def __init__(self, client: int) -> None:
        self._client = client
        self._bytes = bytearray()
        self._start: Any = None
        self._header: Any = None
        self._body = bytearray()
        self.said = Said()

    def take(self) -> Said:
        """Return what was said since the last call."""
        said, self.said = self.said, Said()
        return said

    def feed(self, data: bytes) -> None:
        """Read further bytes."""
        self._bytes += data
        at = 0
        while len(self._bytes) - at >= 8:
            size = 8 + int.from_bytes(self._bytes[at + 3 : at + 7], "big")
            if len(self._bytes) - at < size:
                break
            if self._bytes[at] == 3 and self._header is not None:  # a body; the decoder would copy it more than once
                self._body += self._bytes[at + 7 : at + size - 1]
                self._end_content()
            else:
                self._read(frame.unmarshal(bytes(self._bytes[at : at + size]))[2])
            at += size
        del self._bytes[:at]

    def _read(self, value: Any) -> None:
        name = getattr(value, "name", "")
        if name in {"Basic.Deliver", "Basic.GetOk", "Basic.Return"}:
            self._start = value
        elif isinstance(value, ContentHeader):
            self._header, self._body = value, bytearray()
            self._end_content()
        elif name in {"Basic.Ack", "Basic.Nack"}:
            self.said.confirms.append((name, value.delivery_tag, value.multiple))
        elif name == "Basic.Cancel":
            self.said.cancelled.append(value.consumer_tag)
        elif name == "Basic.GetEmpty":
            self.said.got.append(None)
        elif name in {"Channel.Close", "Connection.Close"}:
            self.said.closed, self.said.reason = value.reply_code, value.reply_text
        elif name and not name.startswith("Connection."):  # blocked and unblocked, which may come at any time
            self.said.answers.append(value)

    def _end_content(self) -> None:
        start, header, body = self._start, self._header, bytes(self._body[:ID_DIGITS])
        if len(self._body) < header.body_size:
            return
        self._start = self._header = None
        if start.name == "Basic.Return":
            self.said.returned.append(int(body))
            return
        properties = header.properties
        headers = properties.headers or {}
        deaths = tuple((death["queue"], death["reason"], death["count"]) for death in headers.get("x-death", []))
        first = (headers.get("x-first-death-queue"), headers.get("x-first-death-reason"))
        is_got = start.name == "Basic.GetOk"
        delivery = Delivery(
            self._client,
            start.delivery_tag,
            "" if is_got else start.consumer_tag,
            start.redelivered,
            start.exchange,
            start.routing_key,
            int(body),
            properties.delivery_mode == 2,
            properties.expiration,
            deaths,
            first if first[0] is not None else None,
            start.message_count if is_got else 0,
        )
        (self.said.got if is_got else self.said.deliveries).append(delivery)
