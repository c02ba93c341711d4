"""The AMQP 0-9-1 handshake, from the protocol header to connection.open-ok: bytes in, bytes and questions out.

The caller decides who may log in and enter which virtual host: `receive` returns a question, which the caller answers,
now or later. Until then, at most `BUFFER_BYTES_MAX` of further bytes are kept. The caller limits the time.

Source: AMQP 0-9-1 specification, sections 2.2.4 (connections), 4.2.2 (protocol header), 4.2.3 (frames); and
https://www.rabbitmq.com/docs/auth-notification for authentication_failure_close."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

from tamis import __version__
from tamis._core import amqp_decode_frame, amqp_encode_method
from tamis.broker.addresses import identity_of
from tamis.broker.login import sasl
from tamis.errors import AmqpError

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
BUFFER_BYTES_MAX = 8 * 1024
"""Maximum size of a frame before connection.open, and maximum bytes kept for a client that has not logged in."""
FRAME_BYTES_MIN = 4096
"""The smallest frame_max that the specification permits a client to ask for."""
CLIENT_TEXT_LENGTH_MAX = 255
"""Maximum length of the texts that a client gives about itself (product, version, name of the connection)."""

REPLY_BYTES_MAX = 255
"""Maximum length of a reply text: that of a short string."""

COMPATIBLE_VERSION = "4.0.0"
"""The `version` for clients, which compare it with RabbitMQ's to learn what a broker can do."""

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
"""The capabilities in server-properties."""


class State(Enum):
    """The step that the handshake waits for."""

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
    """The events: the client's frames, the caller's answers, and errors."""

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
    (State.CLOSING, Input.CLOSE): State.CLOSED,  # both sides have closed at the same time
}
"""The allowed transitions. A method that is absent for a state is refused with 503."""

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
    """The caller's facts about the client.

    Attributes:
        address: the address that back-off counts; empty for a Unix socket.
        is_local: whether it is a loopback address or a Unix socket.
        is_private: whether the connection cannot be read by others (TLS or local), or the operator accepts that.
        certificate_name: the user that the client's verified certificate names; None without a certificate, or where
            certificates log nobody in.
        name: address and port, for logs and operators; empty for a Unix socket.
    """

    address: str = ""
    is_local: bool = True
    is_private: bool = True
    certificate_name: str | None = None
    name: str = ""


@dataclass(frozen=True)
class Offer:
    """The limits that connection.tune offers; a client may ask for less."""

    channel_max: int = 2047
    frame_bytes_max: int = 128 * 1024
    heartbeat_s: int = 60


@dataclass(frozen=True)
class Login:
    """A question to the caller: may this user log in? Answer it with `logged_in` or `refuse_login`.

    Attributes:
        mechanism: PLAIN, AMQPLAIN or EXTERNAL.
        user: the name from the client or its certificate.
        password: None where the certificate has authenticated the user.
    """

    mechanism: str
    user: str
    password: bytes | None = field(repr=False)


@dataclass(frozen=True)
class Open:
    """A question to the caller: may the user open this virtual host, with this identity? An empty one means none.

    Answer it with `admit` or `refuse`."""

    vhost: str
    identity: str = ""


@dataclass(frozen=True)
class Agreed:
    """The parameters of an open connection.

    Attributes:
        identity: the address of the client's mailbox; empty for none.
        client: texts that the client gives about itself: product, version, connection_name and the like.
        capabilities: the client's capabilities that are true.
        remaining: bytes that the client sent after connection.open, for the data plane.
    """

    user: str
    vhost: str
    channel_max: int
    frame_bytes_max: int
    heartbeat_s: int
    client: Mapping[str, str]
    capabilities: frozenset[str]
    remaining: bytes
    identity: str = ""


class Handshake:
    """The handshake of one connection.

    Give it what the client sends with `receive`. After every call, send the result of `data_to_send`, answer the
    question that the call returned, and close the socket when `state` is CLOSED. In OPENED, `agreed` is complete.

    Attributes:
        state: what the handshake waits for.
        reason: why it failed, for the log; empty while it has not.
        agreed: the parameters of the connection; None until connection.open.
    """

    __slots__ = (
        "_buffer",
        "_client",
        "_ignores_input",
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
        self.agreed: Agreed | None = None
        self._peer = peer
        self._offer = offer
        self._buffer = bytearray()
        self._out = bytearray()
        self._client: dict[str, Any] = {}
        self._user = ""
        self._tuned = offer
        self._ignores_input = False

    # ---- what the client sends ----

    def receive(self, data: bytes) -> Login | Open | None:
        """Take bytes from the client; return a question if the caller has to answer one.

        Bytes after the first error are ignored; the client is told about it once, with a reply code.
        """
        if self._ignores_input or self.state is State.CLOSED:
            return None
        self._buffer += data
        return self._continue()

    def data_to_send(self) -> bytes:
        """Return the bytes for the client, which may be none."""
        out = bytes(self._out)
        self._out.clear()
        return out

    @property
    def is_over(self) -> bool:
        """Whether the handshake has ended: the connection is open, or the socket must be closed."""
        return self.state in _OVER

    # ---- what the caller answers ----

    def logged_in(self) -> Login | Open | None:
        """Answer Login with yes. Without effect unless the handshake waits for this answer."""
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
        return self._continue()

    def refuse_login(self, reason: str, mechanism: str = "") -> None:
        """Answer Login with no. The client does not learn why; the log has `reason`."""
        if self.state is not State.LOGIN:
            return
        self.reason = reason
        if "authentication_failure_close" not in self._capabilities():
            self._move(Input.DROPPED)  # as in the specification, the socket is closed without a reason
            return
        of = f" with mechanism {mechanism}" if mechanism else ""
        self._close(403, f"ACCESS_REFUSED - login was refused{of}; the broker's log has the reason")

    def admit(self) -> None:
        """Answer Open with yes. Without effect unless the handshake waits for this answer."""
        if self.agreed is None or self.state is not State.ADMISSION:
            return
        self._send("connection.open-ok")
        self._move(Input.ADMITTED)
        self.agreed = replace(self.agreed, remaining=bytes(self._buffer))
        self._buffer = bytearray()

    def refuse(self, code: int, text: str) -> None:
        """Answer Open with no, or end a handshake that takes too long, by connection.close with `code` and `text`."""
        if self.state in (State.HEADER, State.CLOSING) or self.is_over:
            self.reason = self.reason or text
            self.state = State.CLOSED  # the client may not speak AMQP, or has been told already
            return
        self._close(code, text)

    # ---- frames ----

    def _continue(self) -> Login | Open | None:
        """Handle the frames in the buffer up to the next question."""
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
        """Return whether the buffer began with the protocol header. A different one is answered with ours at once."""
        start = bytes(self._buffer[: len(PROTOCOL_HEADER)])
        if not PROTOCOL_HEADER.startswith(start):
            self._out += PROTOCOL_HEADER
            self.reason = _other_protocol(start)
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
            return None  # the client sent anything else before it read our close
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
        """Take the client's limits. 0 means the offered limit; for heartbeats it means none."""
        offer = self._offer
        self._tuned = Offer(
            channel_max=_within("channel_max", fields["channel_max"], 1, offer.channel_max),
            frame_bytes_max=_within("frame_max", fields["frame_max"], FRAME_BYTES_MIN, offer.frame_bytes_max),
            heartbeat_s=fields["heartbeat"],
        )
        self._move(Input.TUNE_OK)

    def _open(self, fields: Mapping[str, Any]) -> Open:
        try:
            identity = identity_of(self._client)
        except ValueError as error:
            raise AmqpError(501, f"SYNTAX_ERROR - {error}") from error
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
            remaining=b"",
            identity=identity,
        )
        return Open(vhost, identity)

    def _peer_closes(self, name: str) -> None:
        if name == "connection.close":
            self._send("connection.close-ok")
        self.reason = self.reason or "the client closed the connection"
        self._move(_INPUTS[name])

    def _fail(self, error: AmqpError) -> None:
        """Tell the client what is wrong, and ignore what it still sends: frame boundaries are no longer known."""
        self._ignores_input = True
        self._buffer = bytearray()
        if self.state is State.CLOSING:
            return
        # A table over the bounds would close a channel, and there is none yet.
        code, text = error.reply_code, error.reply_text
        if code == 406:
            code, text = 502, text.replace("PRECONDITION_FAILED", "SYNTAX_ERROR")
        self._close(code, text, error.class_id, error.method_id)

    def _close(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        self.reason = self.reason or text
        fields = {"reply_code": code, "reply_text": _one_line(text), "class_id": class_id, "method_id": method_id}
        self._send("connection.close", **fields)
        self._move(Input.REFUSED)

    def _mechanisms(self) -> list[str]:
        """Return the mechanisms for this client: passwords only on private connections, EXTERNAL with a certificate."""
        offered = ["PLAIN", "AMQPLAIN"] if self._peer.is_private else []
        return [*offered, "EXTERNAL"] if self._peer.certificate_name else offered

    def _capabilities(self) -> frozenset[str]:
        capabilities = self._client.get("capabilities")
        if not isinstance(capabilities, dict):
            return frozenset()
        return frozenset(name for name, value in capabilities.items() if value is True)

    def _move(self, happened: Input) -> None:
        self.state = TRANSITIONS[self.state, happened]

    def _send(self, name: str, **fields: Any) -> None:
        self._out += amqp_encode_method(0, name, fields)


def server_properties() -> dict[str, Any]:
    """Return what the broker tells clients about itself. Nothing in it helps an attacker who has not logged in."""
    return {
        "product": "tamis",
        "version": COMPATIBLE_VERSION,
        "tamis_version": __version__,
        "platform": "Rust, Python",
        "information": "AMQP 0-9-1 with content filters",
        "capabilities": dict.fromkeys(CAPABILITIES, True),
    }


def _one_line(text: str) -> str:
    """Return `text` as one line that fits in a short string, cut between characters."""
    line = " ".join(text.split())
    return line.encode("utf-8", "replace")[:REPLY_BYTES_MAX].decode("utf-8", "ignore")


def _within(name: str, asked: int, low: int, high: int) -> int:
    """Return the limit that a client asks for, or `high` for 0."""
    if asked == 0:
        return high
    if not low <= asked <= high:
        raise AmqpError(530, f"NOT_ALLOWED - {name}: expected {low} to {high}, or 0, not {asked}")
    return asked


def _clamped(value: str | bytes) -> str:
    text = value if isinstance(value, str) else value[: 4 * CLIENT_TEXT_LENGTH_MAX].decode("utf-8", "replace")
    return text[:CLIENT_TEXT_LENGTH_MAX]


def _other_protocol(start: bytes) -> str:
    """Return, for the log, which protocol a client speaks that does not begin with AMQP 0-9-1's header."""
    if start[:2] == b"\x16\x03":
        return "expected AMQP 0-9-1, not TLS: connect to the TLS port instead"
    if start[:4] == b"AMQP" and len(start) > 4:
        return f"expected AMQP 0-9-1, not AMQP version bytes {start[4:].hex(' ')}"
    if start.split(b" ")[0] in (b"GET", b"POST", b"HEAD", b"PUT", b"OPTIONS"):
        return "expected AMQP 0-9-1, not HTTP: connect to the HTTP port instead"
    return f"expected AMQP 0-9-1, not bytes {start.hex(' ')}"
