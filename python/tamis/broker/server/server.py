"""A running broker: makes its parts, starts them, calls them when something is due, and stops them."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from tamis.broker import system
from tamis.broker.config import BrokerConfig
from tamis.broker.control import Control
from tamis.broker.data_folder import DataFolder
from tamis.broker.log import Log
from tamis.broker.rules import Rules
from tamis.broker.server.connection import ClientConnection
from tamis.broker.server.connections import Connections
from tamis.broker.server.control_socket import control_protocol
from tamis.broker.server.data_plane import DataPlane, now_us
from tamis.broker.server.listeners import Listeners
from tamis.broker.server.operations import Operations
from tamis.broker.server.store_watch import StoreWatch
from tamis.broker.server.ticker import Ticker
from tamis.broker.server.users_watch import UsersWatch
from tamis.broker.users.users_file import ADMIN, UsersFile
from tamis.errors import has_disk_failed

FILES_CHECK_S = 1.0
"""Time between two looks at the users file and the store."""
STOP_S = 5.0
"""Maximum time that clients have to answer connection.close when the broker stops."""
CODE_JOURNAL_FAILED = 74
"""Exit code after the journal or its file system has failed: EX_IOERR of sysexits.h."""
CODE_BUG = 70
"""Exit code after a panic in the data plane: EX_SOFTWARE of sysexits.h."""


class HttpServer(Protocol):
    """A running HTTP server, in another process."""

    url: str

    def stop(self, at_once: bool = False) -> None:
        """End the process; with `at_once`, do not wait for its current requests."""


OnHttpEnd = Callable[[int, float], None]
"""Called from any thread when the process has ended by itself, with its exit code and the seconds until it restarts."""

StartHttp = Callable[[BrokerConfig, OnHttpEnd], HttpServer]
"""Starts the HTTP server."""


class Server:
    """A broker, from its start to its stop.

    Args:
        config: the whole of tamis.toml.
        folder: the locked data directory.
        log: gets all events.
        start_http: starts the HTTP server; None: there is none.
    """

    def __init__(self, config: BrokerConfig, folder: DataFolder, log: Log, start_http: StartHttp | None) -> None:
        self._config = config
        self._folder = folder
        self._log = log
        self._start_http = start_http
        self._http: HttpServer | None = None
        self._users_file = UsersFile(folder.path)
        self._is_first_start = self._users_file.make_first(config.vhosts, folder.has_records)
        self._users = UsersWatch(self._users_file, config, log)
        rules = Rules(self._users.initial, config.store)
        system.let_memory_go_back()
        self._sockets_max, self._streams_max = system.allow_files(
            config.limits.connections, config.limits.streams, folder.stream_count
        )
        self._plane = DataPlane(config, folder.path, rules, self._streams_max)
        self._connections = Connections(config, self._plane, rules, log, partial(self._finish, 0))
        self._connections.sockets_max = self._sockets_max
        self._store = StoreWatch(config.store, self._plane, log)
        self._listeners = Listeners(config)
        self._ticker = Ticker(self._tick, self._plane.broker.take_longest_call)
        self._files_checked_s = 0.0
        reload_users = partial(self._users.reload, self._connections.change_access)
        operations = Operations(folder.path, self._connections, self._listeners, self._ticker, reload_users)
        self._control = Control(self._plane.broker, operations)

    async def run(self) -> int:
        """Serve until a signal comes; return the exit code."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unexpected)
        self._done: asyncio.Future[int] = loop.create_future()
        try:
            for number in (signal.SIGTERM, signal.SIGINT):  # before anybody can reach it, so that every stop is clean
                loop.add_signal_handler(number, self._signalled, number)
            self._store.begin()
            await self._listen()
            self._log_start()
            gc.enable()
            gc.freeze()  # collections need not look at the objects that exist now: they stay
            gc.set_threshold(50_000, 20, 100)
            self._ticker.start()
            if (wake_fd := self._plane.broker.wake_fd()) is not None:
                loop.add_reader(wake_fd, self._committed, wake_fd)
            code = await self._done
            self._plane.broker.commit()
        finally:
            self._close()
        self._log.info("stopped", code=code)
        return code

    # ---- start ----

    async def _listen(self) -> None:
        await self._listeners.listen_for_amqp(partial(ClientConnection, self._connections))
        await self._listeners.listen_on_unix(
            self._folder.control_socket, 0o600, partial(control_protocol, self._control)
        )
        if self._start_http is not None:
            self._http = self._start_http(self._config, self._http_ended)
            self._listeners.addresses.append(self._http.url)

    def _log_start(self) -> None:
        limits = self._config.limits
        if self._sockets_max < limits.connections or self._streams_max < limits.streams:
            self._log.info(
                "the system limits open files", connections_max=self._sockets_max, streams_max=self._streams_max
            )
        if self._is_first_start:
            self._log.info("first users", administrator=ADMIN, password=str(self._users_file.admin_password_path))
        if made_private := self._folder.made_private:
            self._log.warning("files were open to others", made_private=made_private)
        recovered = self._plane.broker.recovered()
        counts = {name: recovered[name] for name in ("definitions", "messages")}
        if any(counts.values()):
            self._log.info("journal read", **counts, clean=recovered["is_clean"])
        for damage in recovered["damage"]:
            self._log.error("journal damaged", what=damage)
        self._log.info("ready", addresses=self._listeners.addresses, data=str(self._folder.path), pid=os.getpid())

    # ---- events ----

    def _tick(self, now_s: float) -> None:
        """Do what is due, ten times a second."""
        self._plane.tick()
        for event, fields in self._plane.broker.take_events():
            self._log.warning(event, **fields)
        if now_s - self._files_checked_s >= FILES_CHECK_S:
            self._files_checked_s = now_s
            self._check_files()

    def _check_files(self) -> None:
        """Check whether users or stored queries have changed; end if the file system is gone."""
        try:
            self._users.check(self._connections.change_access)
            self._store.check()
        except OSError as error:
            if not has_disk_failed(error):
                raise
            self._log.error("the file system has failed", reason=str(error))
            self._finish(CODE_JOURNAL_FAILED)

    def _committed(self, wake_fd: int) -> None:
        """Confirm what the journal's thread has written, or end when it could not write."""
        os.read(wake_fd, 4096)
        self._plane.broker.committed(now_us())
        self._plane.flush()
        if reason := self._plane.broker.fatal():
            self._log.error("the journal has failed: nothing more is confirmed", reason=reason)
            self._finish(CODE_JOURNAL_FAILED)

    def _http_ended(self, code: int, delay_s: float) -> None:
        self._log.error("HTTP process ended", code=code, again_in_s=delay_s)

    def _unexpected(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log a bug. It has ended one connection; a panic ends the process: the data plane may be half changed."""
        error = context.get("exception")
        trace = "".join(traceback.format_exception(error)) if error else ""
        self._log.error("a bug in tamis", what=context.get("message", ""), trace=trace)
        if type(error).__name__ == "PanicException":
            self._finish(CODE_BUG)

    def _signalled(self, number: int) -> None:
        """Stop when the clients have closed their connections; at the second signal, at once."""
        if self._connections.is_stopping:
            self._log.warning("stopping at once", signal=signal.Signals(number).name)
            self._finish(128 + number)
            return
        self._log.info("stopping", signal=signal.Signals(number).name, connections=len(self._plane.clients))
        self._listeners.stop()
        self._connections.stop()
        asyncio.get_running_loop().call_later(STOP_S, self._finish, 0)

    # ---- stop ----

    def _finish(self, code: int) -> None:
        if not self._done.done():
            self._done.set_result(code)

    def _close(self) -> None:
        has_failed = self._plane.broker.fatal() is not None
        if self._http is not None:
            self._http.stop(at_once=has_failed)
        self._listeners.stop()
        self._connections.abort_all()
        self._connections.logins.close(wait=not has_failed)
        for left in self._listeners.remove_unix_sockets():  # these errors must not hide why the broker ends
            self._log.warning("socket not removed", reason=str(left))
