"""The command `tamis serve`, which runs the broker."""

from __future__ import annotations

import gc
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tamis.broker.config import BrokerConfig
    from tamis.web.process import HttpProcess


def serve(
    data: Annotated[Path | None, typer.Option(help="The data directory; default: tamis-data.")] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on; default: 127.0.0.1.")] = None,
    amqp_port: Annotated[
        int | None, typer.Option(help="The port of AMQP; default: 5672; 0: any free port.", min=0, max=65535)
    ] = None,
    http_port: Annotated[
        int | None, typer.Option(help="The port of HTTP; default: 8765; 0: any free port.", min=0, max=65535)
    ] = None,
    unix: Annotated[
        Path | None, typer.Option(help="A Unix socket for local AMQP clients, in addition to the port.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The configuration; default: ./tamis.toml, if it exists.")] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Allow addresses that others can reach without TLS: they can read everything."),
    ] = False,
) -> int:
    """Run the broker: AMQP 0-9-1 on port 5672. Ctrl-C stops it.

    Exit code: 0 when Ctrl-C or SIGTERM stopped it, 130 or 143 when a second one stopped it at once, 2 when it cannot
    start, 70 on a bug, 74 when the disk fails.
    """
    gc.disable()  # until the broker accepts connections: what a start makes is no garbage

    from tamis.broker.config import BrokerConfig

    for package in ("argon2", "structlog"):  # both are loaded later, where the missing extra could not be named
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"no package {package}", name=package)
    options = {"data": data, "host": host, "amqp_port": amqp_port, "http_port": http_port, "unix": unix}
    loaded = BrokerConfig.load(config, {**options, "insecure": insecure or None})
    from tamis.broker.server.serve import serve as run

    return run(loaded, _start_http)


def _start_http(config: BrokerConfig, on_end: Callable[[int, float], None]) -> HttpProcess:
    """Start HTTP; its imports are put off until the broker listens."""
    from tamis.web.process import HttpProcess

    return HttpProcess(config, on_end)
