"""One client's socket: the handshake reads it first, the data plane from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from tamis.broker.config import TlsConfig, in_url
from tamis.broker.login.handshake import Handshake, Login, Open, Peer, State
from tamis.loopback import is_loopback

if TYPE_CHECKING:
    from tamis.broker.server.connections import Connections

WRITE_BYTES_MAX = 1
"""Deliveries stop when more bytes than this wait for a client's socket, so that its transport has at most one piece of
output. The data plane, which counts what waits, has the remainder, and the system's buffer keeps the client busy.
It is not 0: TLS transports take a limit of 0 for reached when nothing waits."""
_UNKNOWN_PEER = Peer()


class ClientConnection(asyncio.BufferedProtocol):
    """A client's socket, and where its connection stands.

    Attributes:
        handshake: until it is over; None from then on.
        identity: the address of the client's mailbox; empty for none.
        number: the data plane's number for the open connection; -1 before and after.
        end_s: when the handshake must be over, by the event loop's clock.
    """

    __slots__ = (
        "_buffer",
        "_connections",
        "_has_more",
        "_is_reading",
        "_is_refused",
        "_plane",
        "_timer",
        "end_s",
        "handshake",
        "identity",
        "number",
        "peer",
        "tls",
        "transport",
        "user",
        "vhost",
    )

    def __init__(self, connections: Connections, tls: TlsConfig | None) -> None:
        self._connections = connections
        self._plane = connections.plane
        self._buffer = self._plane.read_buffer
        self._has_more = False
        self._is_refused = False
        self._is_reading = True
        self._timer: asyncio.TimerHandle | None = None
        self.end_s = 0.0
        self.tls = tls
        self.transport = cast(asyncio.Transport, None)  # until connection_made, which is called first
        self.peer = _UNKNOWN_PEER
        self.handshake: Handshake | None = None
        self.number = -1
        self.user = self.vhost = self.identity = ""

    # ---- called by the event loop ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_BYTES_MAX)
        self.peer = _peer(self.transport, self.tls, self._connections.is_insecure)
        self._connections.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer that all connections share, or a part of it."""
        is_open = self.number >= 0
        self._buffer = self._plane.buffer_for(self.number) if is_open and self._has_more else self._plane.read_buffer
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Hand over what was read."""
        if self.number >= 0:
            self._plane.receive(self.number, self._buffer[:nbytes])
            self._has_more = nbytes == len(self._buffer)
            if self._has_more:
                self._let_others_be_read()
        elif self.handshake is not None:
            self.continue_handshake(self.handshake.receive(bytes(self._buffer[:nbytes])))

    def eof_received(self) -> bool:
        """Let the loop close the socket and call `connection_lost`."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.cancel_timer()
        self._connections.remove(self)

    def pause_writing(self) -> None:
        """Stop deliveries to a client that does not read."""
        if self.number >= 0:
            self._plane.broker.set_writable(self.number, False)

    def resume_writing(self) -> None:
        """Continue deliveries."""
        if self.number >= 0:
            self._plane.broker.set_writable(self.number, True)
            self._plane.flush()

    # ---- the handshake ----

    def continue_handshake(self, question: Login | Open | None) -> None:
        """Write the handshake's output, and have its question answered."""
        handshake = self.handshake
        if handshake is None:
            return
        if isinstance(question, Open):
            self._connections.admit(handshake, question)
        if data := handshake.data_to_send():
            self.transport.write(data)
        if isinstance(question, Login):
            self._connections.logins.log_in(self, question)
        elif handshake.state is State.OPENED:
            self._connections.open(self, handshake)
        elif handshake.state in (State.CLOSING, State.CLOSED):
            self._refused(handshake)

    def _refused(self, handshake: Handshake) -> None:
        """End a failed handshake. The client has some time to read the reason and to confirm it."""
        if handshake.state is State.CLOSED:
            self.hang_up()
        if not self._is_refused:
            self._is_refused = True
            self._connections.refused(self, handshake.reason)

    @property
    def awaits_login(self) -> bool:
        """Whether the client still waits for the answer to its Login."""
        return self.handshake is not None and self.handshake.state is State.LOGIN

    def answer_login(self, mechanism: str, refusal: str) -> None:
        """Answer the handshake's Login; an empty `refusal` accepts it. The client may have left in the meantime."""
        handshake = self.handshake
        if handshake is None:
            return
        if not refusal:
            self.continue_handshake(handshake.logged_in())
            return
        handshake.refuse_login(refusal, mechanism)
        self.continue_handshake(None)

    # ---- the data plane ----

    def write(self, data: bytes, is_open: bool, wants_input: bool) -> None:
        """Write `data`, then close the socket unless `is_open`, and read the socket only while `wants_input`."""
        if not is_open:
            self._connections.forget(self)  # first: the data plane has no connection left that could be paused
        if data:
            self.transport.write(data)
        if not is_open:
            self._connections.end(self)
        else:
            self._read(wants_input)

    def _let_others_be_read(self) -> None:
        """Read on when all sockets have had their turn: the event loop reads one as long as there is more."""
        if self._is_reading and not self.transport.is_closing():
            self.transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._is_reading and not self.transport.is_closing():
            self.transport.resume_reading()

    def _read(self, wants_input: bool) -> None:
        if wants_input is self._is_reading or self.transport.is_closing():
            return
        self._is_reading = wants_input
        if wants_input:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    # ---- the end ----

    def hang_up(self) -> None:
        """Write no more, and drop what still comes until the client closes the socket.

        Were the socket closed while bytes of the client are unread, the client would get a reset instead of the last
        bytes that were written to it.
        """
        if not self.transport.is_closing():
            self._read(True)
            if self.transport.can_write_eof():  # TLS cannot
                self.transport.write_eof()

    def call_at(self, when_s: float, callback: Callable[[], None]) -> None:
        """Call `callback` at this time of the event loop, instead of what was to be called before."""
        self.cancel_timer()
        self._timer = asyncio.get_running_loop().call_at(when_s, callback)

    def cancel_timer(self) -> None:
        """Cancel what `call_at` has scheduled."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _peer(transport: asyncio.Transport, tls: TlsConfig | None, is_insecure: bool) -> Peer:
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return _UNKNOWN_PEER  # a Unix socket
    is_local = is_loopback(name[0])
    certificate = None
    if tls is not None:
        from tamis.broker.tls import user_of

        certificate = user_of(transport.get_extra_info("peercert"), tls)
    is_private = tls is not None or is_local or is_insecure
    return Peer(name[0], is_local, is_private, certificate, name=f"{in_url(name[0])}:{name[1]}")
