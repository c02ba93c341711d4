"""One HTTP connection: it must ask in time and take its answers in time, and idle ones make room for others."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""Maximum time until the head of a request is complete: since the connection was made, or since the last answer."""
ANSWER_S = 30.0
"""Maximum time until an answer has been made and taken."""


class HttpConnections:
    """The connections of one server.

    Args:
        count_max: their maximum number. Beyond it, the one that has waited longest for a request is closed.
        answer_s: maximum time for a request and its answer; None: `ANSWER_S`.
    """

    def __init__(self, count_max: int, answer_s: float | None = None) -> None:
        self.answer_s = ANSWER_S if answer_s is None else answer_s
        self._count_max = count_max
        self._waiting: OrderedDict[HttpConnection, None] = OrderedDict()

    def make(self, **arguments: Any) -> HttpConnection:
        """Return the protocol of a new connection, with uvicorn's `arguments`."""
        return HttpConnection(self, **arguments)

    def make_room(self, connection: HttpConnection) -> None:
        """Close a connection that waits for a request, or else `connection`, if there are too many."""
        if len(connection.connections) > self._count_max:
            next(iter(self._waiting), connection).cut()

    def waits(self, connection: HttpConnection, is_waiting: bool) -> None:
        """Note whether a connection waits for a request."""
        self._waiting.pop(connection, None)
        if is_waiting:
            self._waiting[connection] = None


class HttpConnection(H11Protocol):
    """uvicorn's connection, with time-outs: uvicorn itself waits for ever for the first request, and for slow heads."""

    def __init__(self, others: HttpConnections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._others = others
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for a request."""
        super().connection_made(transport)
        self._others.make_room(self)
        self._wait(is_for_request=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._others.waits(self, False)
        self._cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Wait for the answer, if a request has begun."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._wait(is_for_request=False)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._wait(is_for_request=True)
        super().on_response_complete()

    def cut(self) -> None:
        """Close the connection at once."""
        self._others.waits(self, False)
        self.transport.abort()

    def _wait(self, is_for_request: bool) -> None:
        self._cancel()
        if not self.transport.is_closing():
            self._others.waits(self, is_for_request)
            self._timer = self.loop.call_later(HEAD_S if is_for_request else self._others.answer_s, self.cut)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
