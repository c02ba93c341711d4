"""Runs uvicorn's server, with connections that end in time and a bound on the time that TLS takes."""

from __future__ import annotations

import asyncio
import socket
from functools import partial

import uvicorn

from tamis.http_connection import HttpConnections
from tamis.web.process import BACKLOG

TLS_HANDSHAKE_S = 10.0
"""Maximum time for the handshake of TLS."""


class WebServer(uvicorn.Server):
    """A server on sockets that are open already.

    Args:
        config: uvicorn's settings.
        connections: make the protocols of connections.
    """

    def __init__(self, config: uvicorn.Config, connections: HttpConnections) -> None:
        super().__init__(config)
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on `sockets`."""
        await self.lifespan.startup()
        loop, context = asyncio.get_running_loop(), self.config.ssl
        make = partial(
            self._connections.make,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        timeout_s = TLS_HANDSHAKE_S if context else None
        self.servers = [
            await loop.create_server(make, sock=it, ssl=context, ssl_handshake_timeout=timeout_s, backlog=BACKLOG)
            for it in sockets or []
        ]
        self.started = True
