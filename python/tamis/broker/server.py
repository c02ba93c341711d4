"""The broker's shell: sockets, timers and signals around the data plane. The only file with sockets and clocks.

A socket's read goes to the data plane whole, in one call; then everything that is to be written is written. Nothing
slow runs on the loop: passwords are verified in two threads, the log has its own, HTTP a process."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import ssl
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from tamis import __version__
from tamis._core import Broker
from tamis.broker import system
from tamis.broker.access import Access
from tamis.broker.backoff import Backoff
from tamis.broker.config import BrokerConfig, TlsConfig, is_loopback
from tamis.broker.control import REQUEST_BYTES_MAX, Control
from tamis.broker.data_folder import DataFolder
from tamis.broker.handshake import Handshake, Login, Offer, Open, Peer, State
from tamis.broker.log import Log
from tamis.broker.logins import Logins
from tamis.broker.rules import Rules
from tamis.broker.stored_queries import StoredQueries
from tamis.broker.users import ADMIN, Limits, UsersFile
from tamis.errors import AccessError, ConfigError

if TYPE_CHECKING:
    from concurrent.futures import Future

READ_BYTES = 256 * 1024
"""One buffer for all connections: what is read is handed over before anybody else reads."""
WRITE_BYTES_HIGH, WRITE_BYTES_LOW = 256 * 1024, 64 * 1024
"""A client that does not read gets no more than this ahead; then its consumers wait."""
FLUSH_ROUNDS_MAX = 16
"""After so many rounds of writing, reads have their turn."""
TICK_S = 0.1
USERS_CHECK_S = 1.0
STORE_TIMEOUT_S = 1.0
"""So long a writer of the store may keep readers out before they try again a second later."""
LINGER_S = 5.0
"""A socket that is closed may take so long for its last bytes; then it is cut."""
STOP_S = 5.0
"""Clients have so long to answer connection.close when the broker stops."""
BACKLOG = 4096
SPECIFIED_QOS_CLIENTS = frozenset(("py-amqp",))
"""Products whose basic.qos without `global` is for the channel: kombu, and Celery with it, takes every broker that does
not call itself RabbitMQ to follow the specification, and widens the prefetch of a consumer that there is, so that tasks
which wait for their time hold up no others."""
LOGINS_WAITING_MAX = 1000
"""So many logins wait for the two threads that verify passwords; further ones are refused."""
PASSWORD_THREADS = 2
CODE_FAILED = 74
"""The exit code after the journal has failed: EX_IOERR of sysexits.h."""
CODE_BUG = 70
"""The exit code after a panic in the data plane: EX_SOFTWARE of sysexits.h."""


class Beside(Protocol):
    """What runs beside the broker as long as it does: HTTP, in a process of its own."""

    url: str

    def stop(self, at_once: bool = False) -> None:
        """End it; `at_once`: whatever it is doing."""


StartBeside = Callable[[BrokerConfig, Callable[[int, float], None]], Beside]
"""Starts it; the function that is handed over is called from any thread, with exit code and seconds until it is started
again, when it ends by itself."""


def serve(config: BrokerConfig, http: StartBeside | None = None) -> int:
    """Run a broker until it is told to stop; the exit code.

    Raises:
        ConfigError: the data directory is used by another broker, a port is taken, or TLS cannot be set up.
        AccessError: the users cannot be read.
    """
    log = Log(config.log.level, config.log.format)
    try:
        with DataFolder(config.data) as folder, asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(Server(config, folder, log, http if config.http else None).run())
            if code == CODE_FAILED:
                # Whoever starts it again need not wait for threads that end, or for memory that is given back.
                log.close()
                os._exit(code)
            return code
    finally:
        log.close()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def _now_us() -> int:
    return time.monotonic_ns() // 1000


def _wall_us() -> int:
    return time.time_ns() // 1000


class _Connection(asyncio.BufferedProtocol):
    """One client's socket: to the handshake first, to the data plane from then on."""

    __slots__ = (
        "_is_paused",
        "_is_reading",
        "_is_refused",
        "_server",
        "handshake",
        "number",
        "peer",
        "tls",
        "transport",
        "user",
        "vhost",
    )

    def __init__(self, server: Server, tls: TlsConfig | None) -> None:
        self._server = server
        self._is_paused = self._is_refused = False
        self._is_reading = True
        self.tls = tls
        self.transport = cast(asyncio.Transport, None)  # until connection_made, which comes before all else
        self.peer = _NOBODY
        self.handshake: Handshake | None = None
        self.number = -1
        self.user = self.vhost = ""

    # ---- what the loop calls ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH, low=WRITE_BYTES_LOW)
        self.peer = _peer(self.transport, self.tls, self._server.config.insecure)
        self._server.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._server.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        server = self._server
        if self.handshake is not None:
            self.shake(self.handshake.receive(bytes(server.read_buffer[:nbytes])))
        elif self.number >= 0:
            server.plane.receive(self.number, server.read_buffer[:nbytes], _now_us())
            server.flush()

    def eof_received(self) -> bool:
        return False  # the loop closes the socket, and connection_lost comes

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.remove(self)

    def pause_writing(self) -> None:
        self._is_paused = True
        if self.number >= 0:
            self._server.plane.set_writable(self.number, False)

    def resume_writing(self) -> None:
        self._is_paused = False
        if self.number >= 0:
            self._server.plane.set_writable(self.number, True)
            self.write()
            self._server.flush()

    # ---- the handshake ----

    def shake(self, question: Login | Open | None) -> None:
        """Go on with the handshake: write what it says, answer what it asks."""
        handshake = self.handshake
        if handshake is None:
            return
        if isinstance(question, Open):
            self._server.admit(handshake, question)
        self._send(handshake.data_to_send())
        if isinstance(question, Login):
            self._server.log_in(self, question)
        elif handshake.state is State.OPENED:
            self._server.open(self, handshake)
        elif handshake.state in (State.CLOSING, State.CLOSED):
            self._refused(handshake)

    def _refused(self, handshake: Handshake) -> None:
        """The handshake has failed. The client has a while to read why, and to say that it did."""
        if handshake.state is State.CLOSED:
            self.transport.close()
        if not self._is_refused:
            self._is_refused = True
            self._server.failed(self, handshake.reason)

    def log_in_answered(self, mechanism: str, refusal: str) -> None:
        """The answer to a Login has come; `refusal` is empty when it is yes. The client may have gone meanwhile."""
        handshake = self.handshake
        if handshake is None:
            return
        if not refusal:
            self.shake(handshake.logged_in())
            return
        handshake.refuse_login(refusal, mechanism)
        self.shake(None)

    def _send(self, data: bytes) -> None:
        if data:
            self.transport.write(data)

    # ---- the data plane ----

    def write(self) -> None:
        """Write what the data plane has for this client, unless the client does not read; close it when it is over."""
        plane = self._server.plane
        if not self._is_paused:
            data, is_open = plane.output(self.number)
            if data:
                self.transport.write(data)
            if not is_open:
                self._server.end(self)
                return
        wants_input = plane.wants_input(self.number)
        if wants_input is not self._is_reading and not self.transport.is_closing():
            self._is_reading = wants_input
            if wants_input:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()


class Server:
    """A broker: the data plane, the connections, and what happens when."""

    def __init__(self, config: BrokerConfig, folder: DataFolder, log: Log, http: StartBeside | None) -> None:
        self.config = config
        self._start_http = http
        self._http: Beside | None = None
        self.read_buffer = memoryview(bytearray(READ_BYTES))
        self._folder = folder
        self._log = log
        self._users_file = UsersFile(folder.path)
        self._is_first_start = self._users_file.make_first(config.vhosts)
        self._users_stamp = self._users_file.stamp()
        self._rules = Rules(self._access(), config.store)
        self._stored = StoredQueries(config.store) if config.store else None
        self._stored_waiting: dict[str, tuple[str, str]] = {}
        self._stored_trouble = ""
        self._is_reading_store = False
        limits = config.limits
        self.plane = Broker(
            self._rules,
            frame_max=limits.frame_bytes,
            channel_max=limits.channels,
            message_bytes_max=limits.message_bytes,
            memory_bytes_max=limits.memory_bytes,
            seed=int.from_bytes(os.urandom(8), "big"),
            now_us=_now_us(),
            wall_us=_wall_us(),
            data=folder.path,
            segment_bytes=config.journal.segment_bytes,
            syncs=config.journal.sync,
            confirms_received=config.journal.confirm == "received",
        )
        for vhost in config.vhosts:
            self.plane.add_vhost(vhost)
        self._offer = Offer(limits.channels, limits.frame_bytes, limits.heartbeat_s)
        self._control = Control(self.plane, self)
        self._connections: dict[int, _Connection] = {}
        self._sockets_count = 0
        self._open_by_user: Counter[str] = Counter()
        self._deadlines: deque[tuple[float, _Connection]] = deque()
        self._lingering: deque[tuple[float, asyncio.Transport]] = deque()
        self._backoff = Backoff()
        self._logins = Logins()
        self._logins_waiting = 0
        self._password_threads = ThreadPoolExecutor(PASSWORD_THREADS, "password", initializer=system.be_nice)
        self._listening: list[asyncio.Server] = []
        self._unix_sockets: list[Path] = []
        self._addresses: list[str] = []
        self._started_s = time.time()
        self._is_flushing = False
        self._goes_on = False
        self._is_stopping = False
        self._stall_s_max = 0.0
        self._users_checked_s = 0.0
        self._is_reading_users = False

    # ---- from start to stop ----

    async def run(self) -> int:
        """Serve until a signal comes; the exit code."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._unexpected)
        self._done: asyncio.Future[int] = self._loop.create_future()
        self._connections_max = system.allow_files(self.config.limits.connections)
        try:
            self._begin_with_store()
            await self._listen()
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.add_signal_handler(number, self._signalled, number)
            if self._connections_max < self.config.limits.connections:
                self._log.info("the system limits open files", connections_max=self._connections_max)
            if self._is_first_start:
                self._log.info("first users", administrator=ADMIN, password=str(self._users_file.admin_password_path))
            self._tell_found()
            self._log.info("ready", addresses=self._addresses, data=str(self._folder.path), pid=os.getpid())
            gc.freeze()  # what is there now stays: a collection need not look at it
            gc.set_threshold(50_000, 20, 100)
            self._tick_due_s = self._loop.time() + TICK_S
            self._loop.call_at(self._tick_due_s, self._tick)
            wake_fd = self.plane.wake_fd()
            if wake_fd is not None:
                self._loop.add_reader(wake_fd, self._committed, wake_fd)
            code = await self._done
            self.plane.commit()
        finally:
            self._close_all()
        self._log.info("stopped", code=code)
        return code

    async def _listen(self) -> None:
        config, tls = self.config, self.config.tls
        await self._listen_on(config.plain_host, config.amqp_port, "amqp-port", None)
        if tls is not None:
            from tamis.broker.tls import server_context

            await self._listen_on(config.host, tls.port, "port of [tls]", server_context(tls))
        if config.unix is not None:
            await self._listen_on_unix(config.unix, 0o660, partial(_Connection, self, None))
            self._addresses.append(f"unix:{config.unix}")
        await self._listen_on_unix(self._folder.control_socket, 0o600, self._control_protocol)
        if self._start_http is not None:
            self._http = self._start_http(config, self._http_ended)
            self._addresses.append(self._http.url)

    def _http_ended(self, code: int, delay_s: float) -> None:
        self._log.error("HTTP process ended", code=code, again_in_s=delay_s)

    async def _listen_on(self, host: str, port: int, option: str, context: ssl.SSLContext | None) -> None:
        tls = self.config.tls if context else None
        try:
            server = await self._loop.create_server(
                partial(_Connection, self, tls),
                host,
                port,
                backlog=BACKLOG,
                ssl=context,
                ssl_handshake_timeout=self.config.limits.handshake_s if context else None,
                ssl_shutdown_timeout=LINGER_S if context else None,
            )
        except OSError as error:
            raise ConfigError(_cannot_listen(f"{host}:{port}", option, error)) from error
        self._listening.append(server)
        scheme = "amqps" if context else "amqp"
        names = (listening.getsockname() for listening in server.sockets)
        self._addresses.extend(f"{scheme}://{_shown(name[0])}:{name[1]}" for name in names)

    async def _listen_on_unix(self, path: Path, mode: int, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        _claim(path)
        before = os.umask(0o777 & ~mode)  # from the first moment: between making and chmod anybody could connect
        try:
            server = await self._loop.create_unix_server(protocol, str(path), backlog=BACKLOG)
        except OSError as error:
            raise ConfigError(_cannot_listen(str(path), "unix", error)) from error
        finally:
            os.umask(before)
        self._listening.append(server)
        self._unix_sockets.append(path)

    def _signalled(self, number: int) -> None:
        if self._is_stopping:
            self._log.warning("stopping at once", signal=signal.Signals(number).name)
            self._finish(128 + number)
            return
        self._log.info("stopping", signal=signal.Signals(number).name, connections=len(self._connections))
        self._is_stopping = True
        for server in self._listening:
            server.close()
        for _, connection in self._deadlines:
            if connection.handshake is not None:
                connection.transport.abort()
        self.plane.stop("the broker is stopping", _now_us())
        self.flush()
        self._loop.call_later(STOP_S, self._finish, 0)
        self._finish_when_empty()

    def _tell_found(self) -> None:
        found = self.plane.found()
        if found["definitions"] or found["messages"]:
            self._log.info(
                "journal read", **{name: found[name] for name in ("definitions", "messages")}, clean=found["is_clean"]
            )
        for damage in found["damage"]:
            self._log.error("journal damaged", what=damage)

    def _committed(self, wake_fd: int) -> None:
        """The journal's thread has written: tell the publishers who waited for that, or end when it could not."""
        os.read(wake_fd, 4096)
        self.plane.committed(_now_us())
        self.flush()
        if reason := self.plane.fatal():
            self._log.error("the journal has failed: nothing more is confirmed", reason=reason)
            self._finish(CODE_FAILED)

    def _unexpected(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A bug, which ends one connection; in the data plane, which may be half changed then, it ends the process."""
        error = context.get("exception")
        trace = "".join(traceback.format_exception(error)) if error else ""
        self._log.error("a bug in tamis", what=context.get("message", ""), trace=trace)
        if type(error).__name__ == "PanicException":
            self._finish(CODE_BUG)

    def _finish_when_empty(self) -> None:
        if self._is_stopping and not self._connections:
            self._finish(0)

    def _finish(self, code: int) -> None:
        if not self._done.done():
            self._done.set_result(code)

    def _close_all(self) -> None:
        if self._http is not None:
            self._http.stop(at_once=self.plane.fatal() is not None)
        for server in self._listening:
            server.close()
        for connection in list(self._connections.values()):
            connection.transport.abort()
        self._password_threads.shutdown(wait=self.plane.fatal() is None, cancel_futures=True)
        for path in self._unix_sockets:  # those that are ours: what stood in the way belongs to somebody else
            path.unlink(missing_ok=True)

    # ---- connections ----

    def add(self, connection: _Connection) -> None:
        """A client has connected. Nothing is kept for it yet but a handshake, and not for long."""
        self._sockets_count += 1
        if self._is_stopping or self._sockets_count > self._connections_max:
            self._log.warning("connection refused", peer=connection.peer.address, reason="too many connections")
            connection.transport.abort()
            return
        connection.handshake = Handshake(connection.peer, self._offer)
        self._deadlines.append((self._loop.time() + self.config.limits.handshake_s, connection))

    def admit(self, handshake: Handshake, question: Open) -> None:
        """Answer whether the user may into the virtual host."""
        user = handshake.agreed.user if handshake.agreed else ""
        refusal = self._rules.access.may_open(user, question.vhost, self._open_by_user[user])
        if refusal is None:
            handshake.admit()
        else:
            handshake.refuse(refusal.code, refusal.text)

    def open(self, connection: _Connection, handshake: Handshake) -> None:
        """The handshake is done: the connection is the data plane's from here on."""
        agreed = handshake.agreed
        if agreed is None:
            return
        connection.handshake = None
        connection.user, connection.vhost = sys.intern(agreed.user), sys.intern(agreed.vhost)
        connection.number = self.plane.connect(
            user=agreed.user,
            vhost=agreed.vhost,
            frame_max=agreed.frame_bytes_max,
            channel_max=agreed.channel_max,
            heartbeat_s=agreed.heartbeat_s,
            peer=connection.peer.address,
            client_name=agreed.client.get("connection_name", agreed.client.get("product", "")),
            knows_blocked="connection.blocked" in agreed.capabilities,
            knows_cancel="consumer_cancel_notify" in agreed.capabilities,
            qos_is_for_channel=agreed.client.get("product") in SPECIFIED_QOS_CLIENTS,
            now_us=_now_us(),
        )
        self._connections[connection.number] = connection
        self._open_by_user[connection.user] += 1
        self._log.debug("connection opened", peer=connection.peer.address, user=agreed.user, **agreed.client)
        if agreed.rest:
            self.plane.receive(connection.number, agreed.rest, _now_us())
        self.flush()

    def failed(self, connection: _Connection, reason: str) -> None:
        """The handshake has failed."""
        self._linger(connection.transport)
        self._log.warning("handshake failed", peer=connection.peer.address, reason=reason)

    def end(self, connection: _Connection) -> None:
        """The data plane is done with it."""
        self._forget(connection)
        connection.transport.close()
        self._linger(connection.transport)

    def remove(self, connection: _Connection) -> None:
        """The socket is gone."""
        self._sockets_count -= 1
        connection.handshake = None
        number = self._forget(connection)
        if number >= 0:
            self.plane.disconnect(number, _now_us())
            self.flush()

    def _forget(self, connection: _Connection) -> int:
        number, connection.number = connection.number, -1
        if self._connections.pop(number, None) is not None:
            self._open_by_user[connection.user] -= 1
            if not self._open_by_user[connection.user]:
                del self._open_by_user[connection.user]
            self._finish_when_empty()
        return number

    def _linger(self, transport: asyncio.Transport) -> None:
        self._lingering.append((self._loop.time() + LINGER_S, transport))

    def flush(self) -> None:
        """Write whatever the data plane has for anybody. Called in its turn by what it does, it does nothing."""
        if self._is_flushing:
            return
        self._is_flushing = True
        try:
            for _ in range(FLUSH_ROUNDS_MAX):
                dirty = self.plane.take_dirty()
                if not dirty:
                    self._go_on()
                    return
                for number in dirty:
                    if connection := self._connections.get(number):
                        connection.write()
            self._loop.call_soon(self.flush)
        finally:
            self._is_flushing = False

    def _go_on(self) -> None:
        """Go on with what the data plane has put off, between what comes from clients."""
        if not self._goes_on and self.plane.has_work():
            self._goes_on = True
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        self._goes_on = False
        self.plane.work(_now_us())
        self.flush()

    # ---- logging in ----

    def log_in(self, connection: _Connection, login: Login) -> None:
        """Find out whether a login is right, and answer it then."""
        address, kept = connection.peer.address, self._rules.access.password_of(login.user)
        answer = partial(self._answer_login, connection, login)
        if login.password is None or self._logins.is_known(kept, login.password):
            answer(True)
        elif not self._backoff.may_try(address) or self._logins_waiting >= LOGINS_WAITING_MAX:
            connection.log_in_answered(login.mechanism, "too many wrong logins wait for their answers")
        else:
            self._logins_waiting += 1
            verdict = self._password_threads.submit(self._logins.is_right, kept, login.password)
            verdict.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._verified, answer, done))

    def _verified(self, answer: Callable[[bool], None], verdict: Future[bool]) -> None:
        self._logins_waiting -= 1
        answer(not verdict.cancelled() and verdict.exception() is None and verdict.result())

    def _answer_login(self, connection: _Connection, login: Login, is_right: bool) -> None:
        refusal = "wrong password, or no such user"
        if is_right:
            refusal = self._rules.access.may_log_in(login.user, connection.peer.is_local)
        if not refusal:
            connection.log_in_answered(login.mechanism, "")
            return
        address = connection.peer.address
        delay_s = self._backoff.failed(address, self._loop.time())
        self._log.warning("login refused", peer=address, user=login.user, reason=refusal, delay_s=round(delay_s, 3))
        self._loop.call_later(delay_s, self._answer_wrong_login, connection, login.mechanism, refusal)

    def _answer_wrong_login(self, connection: _Connection, mechanism: str, refusal: str) -> None:
        self._backoff.answered(connection.peer.address)
        connection.log_in_answered(mechanism, refusal)

    # ---- users ----

    def _access(self) -> Access:
        limits = self.config.limits
        defaults = Limits(connections=limits.connections_per_user, queues=limits.queues_per_user)
        return Access(self._users_file.read(), self.config.vhosts, defaults, self.config.is_local_only)

    def reload_users(self) -> None:
        """Read the users anew, in a thread, for there may be many."""
        if self._is_reading_users:
            return
        self._is_reading_users = True
        self._users_stamp = self._users_file.stamp()
        reading = self._loop.run_in_executor(None, self._access)
        reading.add_done_callback(self._users_read)

    def _users_read(self, reading: asyncio.Future[Access]) -> None:
        self._is_reading_users = False
        if reading.cancelled():
            return
        if error := reading.exception():
            if not isinstance(error, (AccessError, OSError)):
                raise error
            self._log.error("users not changed", reason=str(error))
            return
        access, before = reading.result(), self._rules.access
        changed = access.changed_users(before)
        self._rules.access = access
        for user in changed:
            self.plane.forget_permissions(user)
        for connection in list(self._connections.values()):
            if connection.user in changed and access.may_open(connection.user, connection.vhost, -1) is not None:
                self.plane.close(connection.number, "the user is gone, or may not be here any longer", _now_us())
        self._log.info("users changed", users=sorted(changed))
        self.flush()

    # ---- queries of the store ----

    def _begin_with_store(self) -> None:
        """Bindings may name queries that changed while there was no broker."""
        if self._stored is None:
            return
        try:
            self._bind_stored(self._stored.begin(self.plane.stored_keys(), STORE_TIMEOUT_S))
        except LookupError as error:
            self._stored_trouble = str(error)
            self._log.warning("store not read", reason=str(error))

    def _look_at_store(self) -> None:
        """See in a thread whether queries have changed; it may take a while where there are many."""
        if self._stored_waiting:
            self._bind_stored(self._stored_waiting)
        elif self._stored is not None and not self._is_reading_store:
            self._is_reading_store = True
            reading = self._loop.run_in_executor(None, self._stored.changes, STORE_TIMEOUT_S)
            reading.add_done_callback(self._store_read)

    def _store_read(self, reading: asyncio.Future[dict[str, tuple[str, str]]]) -> None:
        self._is_reading_store = False
        if reading.cancelled():
            return
        if error := reading.exception():
            if not isinstance(error, LookupError):
                raise error
            if str(error) != self._stored_trouble:  # once, and not every second
                self._log.warning("store not read", reason=str(error))
            self._stored_trouble = str(error)
            return
        self._stored_trouble = ""
        self._bind_stored(reading.result())

    def _bind_stored(self, queries: dict[str, tuple[str, str]]) -> None:
        """Let bindings ask the queries as they are now; later, while the journal has no room."""
        self._stored_waiting = {}
        if not queries:
            return
        replaced = self.plane.replace_stored(queries, _now_us())
        if replaced is None:
            self._stored_waiting = queries
            return
        bindings, refused = replaced
        if bindings:
            self._log.info("stored queries changed", bindings=bindings)
        for key, reason in refused:
            self._log.warning("stored query not bound", key=key, reason=reason)

    # ---- time ----

    def _tick(self) -> None:
        """Ten times a second: what is due."""
        now_s = self._loop.time()
        self._stall_s_max = max(self._stall_s_max, now_s - self._tick_due_s)
        self._tick_due_s = now_s + TICK_S
        self._loop.call_at(self._tick_due_s, self._tick)
        while self._deadlines and (self._deadlines[0][0] <= now_s or self._deadlines[0][1].handshake is None):
            _, connection = self._deadlines.popleft()
            if connection.handshake is not None and not connection.transport.is_closing():
                connection.handshake.refuse(320, "CONNECTION_FORCED - the handshake took too long")
                connection.shake(None)
        while self._lingering and self._lingering[0][0] <= now_s:
            self._lingering.popleft()[1].abort()
        self.plane.tick(_now_us(), _wall_us())
        self.flush()
        for event, fields in self.plane.take_events():
            self._log.warning(event, **fields)
        if now_s - self._users_checked_s >= USERS_CHECK_S:
            self._users_checked_s = now_s
            if self._users_file.stamp() != self._users_stamp:
                self.reload_users()
            self._look_at_store()

    # ---- what the control socket asks ----

    def about(self) -> dict[str, Any]:
        """Version, addresses, since when, memory, stalls of the event loop."""
        return {
            "version": __version__,
            "pid": os.getpid(),
            "addresses": self._addresses,
            "data": str(self._folder.path),
            "started_s": self._started_s,
            "now_us": _now_us(),
            "sockets": self._sockets_count,
            "sockets_max": self._connections_max,
            "stall_s_max": self._stall_s_max,
            "cpu_s": time.process_time(),
            "memory_bytes": system.memory_bytes(),
        }

    def health(self) -> dict[str, Any]:
        """Whether it takes connections and messages, and if not, why."""
        if self._is_stopping:
            return {"status": "stopping"}
        return {"status": "blocked" if self.plane.metrics()["blocked"] else "ok"}

    def close_connection(self, number: int, reason: str) -> bool:
        """Close one with 320; whether there was one."""
        if number not in self._connections:
            return False
        self.plane.close(number, reason, _now_us())
        self.flush()
        return True

    def _control_protocol(self) -> asyncio.BaseProtocol:
        reader = asyncio.StreamReader(limit=REQUEST_BYTES_MAX, loop=self._loop)
        return asyncio.StreamReaderProtocol(reader, self._answer_control, loop=self._loop)

    async def _answer_control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(self._control.answer(line))
                await writer.drain()
        except (ValueError, ConnectionError):
            pass  # a line without end, or whoever asked has gone
        except asyncio.CancelledError:
            pass  # the broker has stopped; nobody waits for this task, so nobody has to be told
        finally:
            writer.close()


_NOBODY = Peer()


def _peer(transport: asyncio.Transport, tls: TlsConfig | None, is_insecure: bool) -> Peer:
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return _NOBODY
    is_local = is_loopback(name[0])
    certificate = None
    if tls is not None:
        from tamis.broker.tls import user_of

        certificate = user_of(transport.get_extra_info("peercert"), tls)
    return Peer(name[0], is_local, is_private=tls is not None or is_local or is_insecure, certificate_name=certificate)


def _claim(path: Path) -> None:
    """Remove a socket that a broker left behind when it was killed.

    Raises:
        ConfigError: somebody listens there, or it is something else.
    """
    if not path.exists():
        return
    if not path.is_socket():
        raise ConfigError(f"{path}: expected a Unix socket or nothing there")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:  # nobody is behind it
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise ConfigError(_cannot_listen(str(path), "unix", error)) from error
    raise ConfigError(f"{path}: another process listens on this Unix socket")


def _cannot_listen(where: str, option: str, error: OSError) -> str:
    import errno

    if error.errno == errno.EADDRINUSE:
        return f"{where} is taken by another process: stop it, or give another {option}"
    return f"cannot listen on {where}: {error.strerror or error}"


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
