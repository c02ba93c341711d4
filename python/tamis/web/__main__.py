"""The HTTP process: `tamis serve` starts it, and it ends when its stdin ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import traceback
from math import ceil
from pathlib import Path

import uvicorn

from tamis.broker import system
from tamis.broker.data_folder import CONTROL_SOCKET_NAME
from tamis.broker.log import Log
from tamis.http_connection import HEAD_S, HttpConnections
from tamis.web.auth import Authenticator
from tamis.web.broker_link import BrokerLink
from tamis.web.process import BACKLOG, HttpSettings
from tamis.web.routes import application
from tamis.web.web_server import WebServer

CONNECTIONS_MAX = 2048
"""Maximum number of connections; beyond it, the one that has waited longest for a request is closed."""
HEADER_BYTES_MAX = 16 * 1024
STOP_S = 1
NICENESS = 10
"""Niceness of the process: messages are more urgent."""
SETTINGS_BYTES_MAX = 64 * 1024


def main() -> None:
    """Read the settings from stdin, and serve until stdin ends."""
    line = sys.stdin.buffer.readline(SETTINGS_BYTES_MAX)
    if not line:
        sys.exit("`tamis serve` starts this")
    os.nice(NICENESS)
    settings = HttpSettings.from_line(line)
    log = Log(settings.log_level, settings.log_format)
    logging.basicConfig(level=logging.WARNING, handlers=[_LogHandler(log)])
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(settings))
    finally:
        log.close()


class _LogHandler(logging.Handler):
    """Writes the messages of the HTTP server to the broker's log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event, with a trace if the record has one."""
        tell = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        trace = {"trace": "".join(traceback.format_exception(*record.exc_info))} if record.exc_info else {}
        tell("HTTP", what=record.getMessage(), **trace)


async def _serve(settings: HttpSettings) -> None:
    data = Path(settings.data)
    link = BrokerLink(data / CONTROL_SOCKET_NAME)
    server = WebServer(
        uvicorn.Config(
            application(link, Authenticator(data, settings.is_local_only)),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # such headers could claim any address
            lifespan="off",
            ws="none",
            backlog=BACKLOG,
            h11_max_incomplete_event_size=HEADER_BYTES_MAX,
            timeout_keep_alive=ceil(HEAD_S),
            timeout_graceful_shutdown=STOP_S,
            ssl_certfile=settings.cert,
            ssl_keyfile=settings.key,
        ),
        HttpConnections(system.allow_files(CONNECTIONS_MAX)[0]),
    )
    ending = asyncio.create_task(_end_with_stdin(server))
    try:
        await server.serve(sockets=[socket.socket(fileno=settings.listening_fd)])
    finally:
        ending.cancel()
        link.close()


async def _end_with_stdin(server: uvicorn.Server) -> None:
    """Stop when stdin ends: the broker holds its other end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=SETTINGS_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    while await reader.read(1024):
        pass
    server.should_exit = True


if __name__ == "__main__":
    main()
