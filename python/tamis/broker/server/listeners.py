"""The sockets on which the broker listens: TCP, TLS and Unix."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tamis.broker.config import BrokerConfig, TlsConfig, in_url
from tamis.errors import ConfigError

BACKLOG = 4096
TLS_SHUTDOWN_S = 5.0
"""Maximum time for a client to end TLS before its socket is cut."""

MakeProtocol = Callable[[], asyncio.BaseProtocol]


class Listeners:
    """The listening sockets of a broker.

    Attributes:
        addresses: where clients connect, as URLs.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self.addresses: list[str] = []
        self._config = config
        self._servers: list[asyncio.Server] = []
        self._unix_sockets: list[Path] = []

    async def listen_for_amqp(self, protocol: Callable[[TlsConfig | None], asyncio.BaseProtocol]) -> None:
        """Listen on every address of the configuration.

        Raises:
            ConfigError: an address is taken or cannot be used, or TLS cannot be set up.
        """
        config, tls = self._config, self._config.tls
        await self._listen_on_port(config.plain_host, config.amqp_port, "amqp-port", None, partial(protocol, None))
        if tls is not None:
            from tamis.broker.tls import server_context

            context = server_context(tls)
            await self._listen_on_port(config.host, tls.port, "port of [tls]", context, partial(protocol, tls))
        if config.unix is not None:
            await self.listen_on_unix(config.unix, 0o660, partial(protocol, None))
            self.addresses.append(f"unix:{config.unix}")

    async def listen_on_unix(self, path: Path, mode: int, protocol: MakeProtocol) -> None:
        """Listen on a Unix socket, which only those whom `mode` permits can connect to.

        Raises:
            ConfigError: another process listens there, or the path cannot be used.
        """
        _remove_abandoned(path)
        before = os.umask(0o777 & ~mode)  # a chmod after the bind would let anybody connect in between
        try:
            server = await asyncio.get_running_loop().create_unix_server(protocol, str(path), backlog=BACKLOG)
        except OSError as error:
            raise ConfigError(_cannot_listen(str(path), "unix", error)) from error
        finally:
            os.umask(before)
        self._servers.append(server)
        self._unix_sockets.append(path)

    async def _listen_on_port(
        self, host: str, port: int, option: str, context: ssl.SSLContext | None, protocol: MakeProtocol
    ) -> None:
        try:
            server = await asyncio.get_running_loop().create_server(
                protocol,
                host,
                port,
                backlog=BACKLOG,
                ssl=context,
                ssl_handshake_timeout=self._config.limits.handshake_s if context else None,
                ssl_shutdown_timeout=TLS_SHUTDOWN_S if context else None,
            )
        except OSError as error:
            raise ConfigError(_cannot_listen(f"{host}:{port}", option, error)) from error
        self._servers.append(server)
        scheme = "amqps" if context else "amqp"
        names = (listening.getsockname() for listening in server.sockets)
        self.addresses.extend(f"{scheme}://{in_url(name[0])}:{name[1]}" for name in names)

    def stop(self) -> None:
        """Accept no further connections."""
        for server in self._servers:
            server.close()

    def remove_unix_sockets(self) -> list[OSError]:
        """Remove the Unix sockets that this broker has made; return why some are left, which the next start removes."""
        left = []
        for path in self._unix_sockets:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                left.append(error)
        return left


def _remove_abandoned(path: Path) -> None:
    """Remove a socket that a killed broker left behind.

    Raises:
        ConfigError: a process listens there, or the path is something else.
    """
    if not path.exists():
        return
    if not path.is_socket():
        raise ConfigError(f"{path}: expected a Unix socket or nothing there")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:  # no process listens
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise ConfigError(_cannot_listen(str(path), "unix", error)) from error
    raise ConfigError(f"{path}: another process listens on this Unix socket")


def _cannot_listen(where: str, option: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{where} is taken by another process: stop it, or give another {option}"
    return f"cannot listen on {where}: {error.strerror or error}"
