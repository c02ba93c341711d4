"""Serves an ASGI application from a thread of this process."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import uvicorn

CONNECTIONS_MAX: Final = 200
"""Maximum number of connections. Beyond it, the one that has waited longest for a request is closed."""
ANSWER_S: Final = 60.0
"""Maximum time for a request and its answer, longer than the time after which an application refuses to read on."""
START_S_MAX: Final = 10.0
"""Maximum time to begin, and to end."""


class HttpThread:
    """A server in a thread.

    Args:
        application: what answers.
        host: the address to listen on.
        port: the port; 0: any that is free.
        tls: ``ssl_certfile`` and ``ssl_keyfile``, for TLS.
    """

    def __init__(self, application: Any, host: str, port: int, tls: Mapping[str, str | None] = {}) -> None:
        import uvicorn

        from tamis.http_connection import HttpConnections

        config = uvicorn.Config(
            application,
            http=HttpConnections(CONNECTIONS_MAX, ANSWER_S).make,  # type: ignore[arg-type]  # any callable will do
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            lifespan="off",
            limit_concurrency=2 * CONNECTIONS_MAX,
            timeout_graceful_shutdown=2,
            ssl_certfile=tls.get("ssl_certfile"),
            ssl_keyfile=tls.get("ssl_keyfile"),
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=_serve, args=(self._server,), daemon=True, name="tamis http")

    def start(self) -> bool:
        """Begin to listen; return whether that worked: another program may use the address."""
        self._thread.start()
        until = time.monotonic() + START_S_MAX
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        return self._server.started

    @property
    def port(self) -> int:
        """The port on which it listens; 0 if it does not listen."""
        servers = getattr(self._server, "servers", [])
        return int(servers[0].sockets[0].getsockname()[1]) if servers else 0

    def is_alive(self) -> bool:
        """Return whether it still serves."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop listening."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(START_S_MAX)


def _serve(server: uvicorn.Server) -> None:
    with contextlib.suppress(SystemExit):  # it ends if the address is taken, and the caller notices that
        server.run()
