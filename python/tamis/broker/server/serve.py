"""Runs a broker in this process until a signal stops it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from tamis.broker.config import BrokerConfig
from tamis.broker.data_folder import DataFolder
from tamis.broker.log import Log
from tamis.broker.server.server import CODE_JOURNAL_FAILED, Server, StartHttp


def serve(config: BrokerConfig, start_http: StartHttp | None = None) -> int:
    """Run a broker until it is told to stop; return the exit code.

    Args:
        config: the whole of tamis.toml.
        start_http: starts the HTTP process, if `config` asks for one.

    Raises:
        ConfigError: the data directory is used by another broker, a port is taken, or TLS cannot be set up.
        AccessError: the users cannot be read.
        OSError: a file of the data directory cannot be read or written; it names the file, or the directory.
    """
    log = Log(config.log.level, config.log.format)
    try:
        with DataFolder(config.data) as folder, asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(Server(config, folder, log, start_http if config.http else None).run())
            if code == CODE_JOURNAL_FAILED:
                # The next start must not wait until threads have ended and memory has been returned.
                log.close()
                os._exit(code)
            return code
    except OSError as error:
        if error.filename is None:  # a write or a sync, which knows only its open file
            error.filename = str(config.data)
        raise
    finally:
        log.close()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop where uvloop is installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop
