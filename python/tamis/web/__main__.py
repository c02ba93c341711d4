"""The HTTP process. `tamis serve` starts it; it ends when its stdin does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import traceback
from pathlib import Path

import uvicorn

from tamis.broker.data_folder import CONTROL_SOCKET_NAME
from tamis.broker.log import Log
from tamis.web.broker_link import BrokerLink
from tamis.web.gate import Gate
from tamis.web.process import BACKLOG, Settings
from tamis.web.routes import application

CONNECTIONS_MAX = 200
"""Further ones are answered with 503 at once."""
HEADER_BYTES_MAX = 16 * 1024
KEEP_ALIVE_S = 15
STOP_S = 1
NICENESS = 10
"""Where processors are short, messages come first."""
SETTINGS_BYTES_MAX = 64 * 1024


def main() -> None:
    """Read the settings from stdin and serve until it ends."""
    line = sys.stdin.buffer.readline(SETTINGS_BYTES_MAX)
    if not line:
        sys.exit("`tamis serve` starts this")
    os.nice(NICENESS)
    settings = Settings.from_line(line)
    log = Log(settings.log_level, settings.log_format)
    logging.basicConfig(level=logging.WARNING, handlers=[_Events(log)])
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(settings))
    finally:
        log.close()


class _Events(logging.Handler):
    """What the HTTP server has to say, as events of the broker's log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One event for one record, with its trace where it has one."""
        tell = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        trace = {"trace": "".join(traceback.format_exception(*record.exc_info))} if record.exc_info else {}
        tell("HTTP", what=record.getMessage(), **trace)


async def _serve(settings: Settings) -> None:
    data = Path(settings.data)
    link = BrokerLink(data / CONTROL_SOCKET_NAME)
    server = uvicorn.Server(
        uvicorn.Config(
            application(link, Gate(data, settings.is_local_only)),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # anybody could say that he comes from this machine
            lifespan="off",
            ws="none",
            backlog=BACKLOG,
            limit_concurrency=CONNECTIONS_MAX,
            h11_max_incomplete_event_size=HEADER_BYTES_MAX,
            http="h11",
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S,
            ssl_certfile=settings.cert,
            ssl_keyfile=settings.key,
        )
    )
    ending = asyncio.create_task(_end_with_stdin(server))
    try:
        await server.serve(sockets=[socket.socket(fileno=settings.listening_fd)])
    finally:
        ending.cancel()
        link.close()


async def _end_with_stdin(server: uvicorn.Server) -> None:
    """The broker holds the other end: when that is closed, it is gone."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=SETTINGS_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    while await reader.read(1024):
        pass
    server.should_exit = True


if __name__ == "__main__":
    main()
