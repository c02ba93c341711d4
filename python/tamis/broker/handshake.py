"""The AMQP 0-9-1 handshake, from the protocol header to connection.open-ok. Pure: bytes in, bytes and questions out.

Who may log in and into which virtual host is asked of the caller: `receive` returns a question, which the caller
answers, now or later. Until then, whatever else the client sends waits, and never more than `BUFFER_BYTES_MAX` of it.
How long all this may take is the caller's clock.

Source: AMQP 0-9-1 specification, sections 2.2.4 (connections), 4.2.2 (protocol header), 4.2.3 (frames); and
https://www.rabbitmq.com/docs/auth-notification for authentication_failure_close."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

from tamis import __version__
from tamis._core import amqp_decode_frame, amqp_encode_method
from tamis.broker import sasl
from tamis.errors import AmqpError

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
BUFFER_BYTES_MAX = 8 * 1024
"""The largest frame before connection.open, and the most that is kept for a client that nobody knows yet."""
FRAME_BYTES_MIN = 4096
"""The smallest frame_max that the specification lets a client ask for."""
CLIENT_TEXT_LENGTH_MAX = 255
"""What a client says of itself (product, version, name of the connection) is kept up to so many characters."""

REPLY_BYTES_MAX = 255

COMPATIBLE_VERSION = "4.0.0"
"""Clients compare `version` with RabbitMQ's to know what a broker can do."""

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
)
"""What server-properties promise."""


class State(Enum):
    """What is waited for."""

    HEADER = "the protocol header"
    START_OK = "connection.start-ok"
    LOGIN = "the answer to Login"
    TUNE_OK = "connection.tune-ok"
    OPEN = "connection.open"
    ADMISSION = "the answer to Open"
    OPENED = "nothing: the connection is the data plane's"
    CLOSING = "connection.close-ok"
    CLOSED = "nothing: the socket is to be closed"


class Input(Enum):
    """What can happen: what the client sends, what the caller answers, and what is wrong."""

    HEADER = auto()
    OTHER_HEADER = auto()
    START_OK = auto()
    TUNE_OK = auto()
    OPEN = auto()
    CLOSE = auto()
    CLOSE_OK = auto()
    HEARTBEAT = auto()
    LOGGED_IN = auto()
    ADMITTED = auto()
    REFUSED = auto()
    DROPPED = auto()


TRANSITIONS: dict[tuple[State, Input], State] = {
    (State.HEADER, Input.HEADER): State.START_OK,
    (State.HEADER, Input.OTHER_HEADER): State.CLOSED,
    (State.START_OK, Input.START_OK): State.LOGIN,
    (State.START_OK, Input.CLOSE): State.CLOSED,
    (State.START_OK, Input.REFUSED): State.CLOSING,
    (State.LOGIN, Input.LOGGED_IN): State.TUNE_OK,
    (State.LOGIN, Input.REFUSED): State.CLOSING,
    (State.LOGIN, Input.DROPPED): State.CLOSED,  # a client that does not know authentication_failure_close
    (State.TUNE_OK, Input.TUNE_OK): State.OPEN,
    (State.TUNE_OK, Input.CLOSE): State.CLOSED,
    (State.TUNE_OK, Input.REFUSED): State.CLOSING,
    (State.TUNE_OK, Input.HEARTBEAT): State.TUNE_OK,
    (State.OPEN, Input.OPEN): State.ADMISSION,
    (State.OPEN, Input.CLOSE): State.CLOSED,
    (State.OPEN, Input.REFUSED): State.CLOSING,
    (State.OPEN, Input.HEARTBEAT): State.OPEN,
    (State.ADMISSION, Input.ADMITTED): State.OPENED,
    (State.ADMISSION, Input.REFUSED): State.CLOSING,
    (State.CLOSING, Input.CLOSE_OK): State.CLOSED,
    (State.CLOSING, Input.CLOSE): State.CLOSED,  # both sides had enough at the same time
}
"""A pair that is absent is refused: 503 for a method that does not belong here."""

_INPUTS = {
    "connection.start-ok": Input.START_OK,
    "connection.tune-ok": Input.TUNE_OK,
    "connection.open": Input.OPEN,
    "connection.close": Input.CLOSE,
    "connection.close-ok": Input.CLOSE_OK,
    "heartbeat": Input.HEARTBEAT,
}
_ANSWERED = (State.LOGIN, State.ADMISSION)
_OVER = (State.OPENED, State.CLOSED)


@dataclass(frozen=True)
class Peer:
    """What the caller knows of the other end.

    Attributes:
        address: for logs and back-off; empty for a Unix socket.
        is_local: a loopback address or a Unix socket.
        is_private: nobody on the way can read: TLS, or local, or the operator said that it does not matter.
        certificate_name: the user that the client's verified certificate names; None without one.
    """

    address: str = ""
    is_local: bool = True
    is_private: bool = True
    certificate_name: str | None = None


@dataclass(frozen=True)
class Offer:
    """What connection.tune offers; a client may ask for less."""

    channel_max: int = 2047
    frame_bytes_max: int = 128 * 1024
    heartbeat_s: int = 60


@dataclass(frozen=True)
class Login:
    """A question to the caller: may this user in? To be answered with `logged_in` or `refuse_login`.

    Attributes:
        mechanism: PLAIN, AMQPLAIN or EXTERNAL.
        user: the name that the client gave, or its certificate.
        password: None where the certificate has proved who it is.
    """

    mechanism: str
    user: str
    password: bytes | None = field(repr=False)


@dataclass(frozen=True)
class Open:
    """A question to the caller: may the user into this virtual host? To be answered with `admit` or `refuse`."""

    vhost: str


@dataclass(frozen=True)
class Agreed:
    """What was agreed on, once the connection is open.

    Attributes:
        client: what the client says of itself: product, version, connection_name and the like.
        capabilities: which of the client's capabilities are true.
        rest: bytes that the client sent after connection.open; they are the data plane's.
    """

    user: str
    vhost: str
    channel_max: int
    frame_bytes_max: int
    heartbeat_s: int
    client: Mapping[str, str]
    capabilities: frozenset[str]
    rest: bytes


class Handshake:
    """One connection's handshake.

    Feed it with `receive`; after every call, send what `data_to_send` returns, answer the question that the call
    returned, and close the socket when `state` is CLOSED. When it is OPENED, `agreed` has everything.
    """

    __slots__ = (
        "_buffer",
        "_client",
        "_is_deaf",
        "_offer",
        "_out",
        "_peer",
        "_tuned",
        "_user",
        "agreed",
        "reason",
        "state",
    )

    def __init__(self, peer: Peer, offer: Offer) -> None:
        self.state = State.HEADER
        self.reason = ""
        """Why it failed, for the log; empty while it has not."""
        self.agreed: Agreed | None = None
        self._peer = peer
        self._offer = offer
        self._buffer = bytearray()
        self._out = bytearray()
        self._client: dict[str, Any] = {}
        self._user = ""
        self._tuned = offer
        self._is_deaf = False

    # ---- what the client sends ----

    def receive(self, data: bytes) -> Login | Open | None:
        """Take in what the client sent; a question, when there is one to answer.

        What follows the first byte that makes no sense is not looked at; the client is told once, with a code.
        """
        if self._is_deaf or self.state is State.CLOSED:
            return None
        self._buffer += data
        return self._go_on()

    def data_to_send(self) -> bytes:
        """What the client shall get; empty when it is up to date."""
        out = bytes(self._out)
        self._out.clear()
        return out

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be done: the connection is open, or the socket is to be closed."""
        return self.state in _OVER

    # ---- what the caller answers ----

    def logged_in(self) -> Login | Open | None:
        """Answer Login: the client is who it says. Without effect when it did not wait for the answer."""
        if self.state is not State.LOGIN:
            return None
        self._move(Input.LOGGED_IN)
        offer = self._offer
        self._send(
            "connection.tune",
            channel_max=offer.channel_max,
            frame_max=offer.frame_bytes_max,
            heartbeat=offer.heartbeat_s,
        )
        return self._go_on()

    def refuse_login(self, reason: str, mechanism: str = "") -> None:
        """Answer Login: no. The client learns that it was refused and not why; the log has `reason`."""
        if self.state is not State.LOGIN:
            return
        self.reason = reason
        if "authentication_failure_close" not in self._capabilities():
            self._move(Input.DROPPED)  # the specification's way: the socket is closed, and the client may guess
            return
        of = f" with mechanism {mechanism}" if mechanism else ""
        self._close(403, f"ACCESS_REFUSED - login was refused{of}; the broker's log has the reason")

    def admit(self) -> None:
        """Answer Open: yes. Without effect when that was not the question."""
        if self.agreed is None or self.state is not State.ADMISSION:
            return
        self._send("connection.open-ok")
        self._move(Input.ADMITTED)
        self.agreed = replace(self.agreed, rest=bytes(self._buffer))
        self._buffer = bytearray()

    def refuse(self, code: int, text: str) -> None:
        """Answer Open with no, or end a handshake that takes too long: connection.close with `code` and `text`."""
        if self.state in (State.HEADER, State.CLOSING) or self.is_over:
            self.reason = self.reason or text
            self.state = State.CLOSED  # the client has not said that it speaks AMQP, or knows already
            return
        self._close(code, text)

    # ---- inside ----

    def _go_on(self) -> Login | Open | None:
        """Handle what is in the buffer up to the next question."""
        try:
            if self.state is State.HEADER and not self._header():
                return None
            while self.state not in _ANSWERED and not self.is_over:
                frame = amqp_decode_frame(bytes(self._buffer[:BUFFER_BYTES_MAX]), BUFFER_BYTES_MAX)
                if frame is None:
                    break
                channel, name, fields, consumed = frame
                del self._buffer[:consumed]
                if question := self._frame(channel, name, fields):
                    return question
            if self.state is not State.OPENED and len(self._buffer) > BUFFER_BYTES_MAX:
                raise AmqpError(501, f"FRAME_ERROR - expected at most {BUFFER_BYTES_MAX} bytes before the answer")
        except AmqpError as error:
            self._fail(error)
        return None

    def _header(self) -> bool:
        """Whether the protocol header is there and ours. Another is answered with ours as soon as it differs."""
        start = bytes(self._buffer[: len(PROTOCOL_HEADER)])
        if not PROTOCOL_HEADER.startswith(start):
            self._out += PROTOCOL_HEADER
            self.reason = _what_was_spoken(start)
            self._move(Input.OTHER_HEADER)
            self._buffer.clear()
            return False
        if len(start) < len(PROTOCOL_HEADER):
            return False
        del self._buffer[: len(PROTOCOL_HEADER)]
        self._move(Input.HEADER)
        self._send(
            "connection.start",
            version_major=0,
            version_minor=9,
            server_properties=server_properties(),
            mechanisms=" ".join(self._mechanisms()).encode(),
            locales=b"en_US",
        )
        return True

    def _frame(self, channel: int, name: str, fields: Mapping[str, Any]) -> Login | Open | None:
        if self.state is State.CLOSING:
            if name in ("connection.close", "connection.close-ok"):
                self._peer_closes(name)
            return None  # anything else was sent before the client had read our close
        if channel != 0:
            raise AmqpError(504, f"CHANNEL_ERROR - expected {self.state.value} on channel 0, not {name} on {channel}")
        received = _INPUTS.get(name)
        if received is None or (self.state, received) not in TRANSITIONS:
            raise AmqpError(503, f"COMMAND_INVALID - expected {self.state.value}, not {name}")
        if received is Input.START_OK:
            return self._start_ok(fields)
        if received is Input.TUNE_OK:
            self._tune_ok(fields)
        elif received is Input.OPEN:
            return self._open(fields)
        elif received is Input.CLOSE:
            self._peer_closes(name)
        return None

    def _start_ok(self, fields: Mapping[str, Any]) -> Login | None:
        self._client = fields["client_properties"]
        mechanism = fields["mechanism"]
        if mechanism not in self._mechanisms():
            offered = ", ".join(self._mechanisms()) or "none without TLS"
            raise AmqpError(
                503, f"COMMAND_INVALID - unknown authentication mechanism '{mechanism}': offered: {offered}"
            )
        self._move(Input.START_OK)
        try:
            self._user, password = self._credentials(mechanism, fields["response"])
        except ValueError as error:
            self.refuse_login(str(error), mechanism)
            return None
        return Login(mechanism, self._user, password)

    def _credentials(self, mechanism: str, response: bytes) -> tuple[str, bytes | None]:
        if mechanism == "EXTERNAL":
            return self._peer.certificate_name or "", None
        return sasl.plain(response) if mechanism == "PLAIN" else sasl.amqplain(response)

    def _tune_ok(self, fields: Mapping[str, Any]) -> None:
        """0 is a client's word for: as you like; of heartbeats: none."""
        offer = self._offer
        self._tuned = Offer(
            channel_max=_within("channel_max", fields["channel_max"], 1, offer.channel_max),
            frame_bytes_max=_within("frame_max", fields["frame_max"], FRAME_BYTES_MIN, offer.frame_bytes_max),
            heartbeat_s=fields["heartbeat"],
        )
        self._move(Input.TUNE_OK)

    def _open(self, fields: Mapping[str, Any]) -> Open:
        self._move(Input.OPEN)
        vhost = fields["virtual_host"]
        self.agreed = Agreed(
            user=self._user,
            vhost=vhost,
            channel_max=self._tuned.channel_max,
            frame_bytes_max=self._tuned.frame_bytes_max,
            heartbeat_s=self._tuned.heartbeat_s,
            client={name: _clamped(value) for name, value in self._client.items() if isinstance(value, (str, bytes))},
            capabilities=self._capabilities(),
            rest=b"",
        )
        return Open(vhost)

    def _peer_closes(self, name: str) -> None:
        if name == "connection.close":
            self._send("connection.close-ok")
        self.reason = self.reason or "the client closed the connection"
        self._move(_INPUTS[name])

    def _fail(self, error: AmqpError) -> None:
        """Tell the client what is wrong, once; what it still sends cannot be told apart from more of the same."""
        self._is_deaf = True
        self._buffer = bytearray()
        if self.state is State.CLOSING:
            return
        self._close(error.reply_code, error.reply_text, error.class_id, error.method_id)

    def _close(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        self.reason = self.reason or text
        fields = {"reply_code": code, "reply_text": _one_line(text), "class_id": class_id, "method_id": method_id}
        self._send("connection.close", **fields)
        self._move(Input.REFUSED)

    def _mechanisms(self) -> list[str]:
        """Passwords are asked for where nobody can listen in, a certificate's name where one was shown."""
        offered = ["PLAIN", "AMQPLAIN"] if self._peer.is_private else []
        return [*offered, "EXTERNAL"] if self._peer.certificate_name else offered

    def _capabilities(self) -> frozenset[str]:
        said = self._client.get("capabilities")
        return (
            frozenset(name for name, value in said.items() if value is True) if isinstance(said, dict) else frozenset()
        )

    def _move(self, happened: Input) -> None:
        self.state = TRANSITIONS[self.state, happened]

    def _send(self, name: str, **fields: Any) -> None:
        self._out += amqp_encode_method(0, name, fields)


def server_properties() -> dict[str, Any]:
    """What the broker says of itself. Nothing in it helps an attacker who has not logged in."""
    return {
        "product": "tamis",
        "version": COMPATIBLE_VERSION,
        "tamis_version": __version__,
        "platform": "Rust, Python",
        "information": "AMQP 0-9-1 with content filters",
        "capabilities": dict.fromkeys(CAPABILITIES, True),
    }


def _one_line(text: str) -> str:
    """A reply text: one line that fits in a short string, cut between characters."""
    line = " ".join(text.split())
    return line.encode("utf-8", "replace")[:REPLY_BYTES_MAX].decode("utf-8", "ignore")


def _within(name: str, asked: int, least: int, most: int) -> int:
    if asked == 0:
        return most
    if not least <= asked <= most:
        raise AmqpError(530, f"NOT_ALLOWED - {name}: expected {least} to {most}, or 0, not {asked}")
    return asked


def _clamped(value: str | bytes) -> str:
    text = value if isinstance(value, str) else value[: 4 * CLIENT_TEXT_LENGTH_MAX].decode("utf-8", "replace")
    return text[:CLIENT_TEXT_LENGTH_MAX]


def _what_was_spoken(start: bytes) -> str:
    """A guess at the protocol that is not AMQP 0-9-1, to help whoever reads the log."""
    if start[:2] == b"\x16\x03":
        return "expected AMQP 0-9-1, not TLS: connect to the TLS port instead"
    if start[:4] == b"AMQP" and len(start) > 4:
        return f"expected AMQP 0-9-1, not AMQP version bytes {start[4:].hex(' ')}"
    if start.split(b" ")[0] in (b"GET", b"POST", b"HEAD", b"PUT", b"OPTIONS"):
        return "expected AMQP 0-9-1, not HTTP: connect to the HTTP port instead"
    return f"expected AMQP 0-9-1, not bytes {start.hex(' ')}"
