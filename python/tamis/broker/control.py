"""Answers requests of the control socket, which the HTTP process uses to look at the broker.

A request is one line of JSON, ``{"op": "queues", ...}``. So is the answer: ``{"ok": true, "result": ...}`` or
``{"ok": false, "error": "..."}``. Whoever can open the socket (mode 0600) may ask for everything."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tamis._core import Broker

REQUEST_BYTES_MAX = 64 * 1024
"""Maximum length of a request."""
ROWS_MAX = 1000
"""Maximum number of rows of a list in one answer; ``limit`` asks for fewer, ``offset`` for later ones. A row takes
about 10 us, during which no message is delivered."""
NUMBER_MAX = 2**53

READER_KEYS = (("vhost", "/"), ("stream", ""), ("reader", ""))
"""The parts of a named reader in a request, with their defaults."""

LISTS = ("vhosts", "connections", "queues", "exchanges", "bindings", "consumers")


class RunningBroker(Protocol):
    """The operations of the shell around the data plane."""

    @property
    def reload_users(self) -> Callable[[], None]:
        """Read the users file now."""

    def about(self) -> dict[str, Any]:
        """Return version, addresses, start time, memory, and stalls of the event loop."""

    def health(self) -> dict[str, Any]:
        """Return whether the broker takes connections and messages."""

    def close_connection(self, number: int, reason: str) -> bool:
        """Close a connection with 320; return whether it was open."""


class ControlError(Exception):
    """A request that cannot be answered; its text is the answer."""


class Control:
    """Answers requests by the name of their operation."""

    def __init__(self, plane: Broker, running: RunningBroker) -> None:
        self._plane = plane
        self._running = running
        self._operations: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "about": lambda _: running.about(),
            "health": lambda _: running.health(),
            "metrics": lambda _: plane.metrics(),
            "overview": lambda _: {"about": running.about(), "health": running.health(), "metrics": plane.metrics()},
            "reload_users": lambda _: running.reload_users(),
            "close_connection": self._close_connection,
            "forget_reader": self._forget_reader,
            **dict.fromkeys(LISTS, self._list),
        }

    def answer(self, line: bytes) -> bytes:
        """Return the answer to one request, with its line feed."""
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ControlError("expected a table")
            operation = self._operations.get(str(request.get("op")))
            if operation is None:
                raise ControlError(f"expected one of the operations {', '.join(self._operations)}")
            result = {"ok": True, "result": operation(request)}
        except (ValueError, RecursionError):
            result = {"ok": False, "error": "expected a line of JSON"}
        except ControlError as error:
            result = {"ok": False, "error": str(error)}
        return json.dumps(result, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"

    def _list(self, request: Mapping[str, Any]) -> dict[str, Any]:
        offset, limit = _number(request, "offset", 0), _number(request, "limit", ROWS_MAX)
        rows, total_count = self._plane.rows(str(request["op"]), offset, min(limit, ROWS_MAX))
        return {"rows": rows, "total_count": total_count}

    def _close_connection(self, request: Mapping[str, Any]) -> None:
        number, reason = request.get("id"), str(request.get("reason", "closed by an operator"))
        if not isinstance(number, int):
            raise ControlError("id: expected the number of a connection")
        if not self._running.close_connection(number, reason):
            raise ControlError(f"there is no connection {number}")

    def _forget_reader(self, request: Mapping[str, Any]) -> bool:
        vhost, stream, reader = (str(request.get(key, default)) for key, default in READER_KEYS)
        try:
            return self._plane.forget_reader(vhost, stream, reader)
        except ValueError as error:
            raise ControlError(str(error)) from error


def _number(request: Mapping[str, Any], name: str, default: int) -> int:
    value = request.get(name, default)
    if not isinstance(value, int) or not 0 <= value <= NUMBER_MAX:
        raise ControlError(f"{name}: expected a whole number from 0")
    return value
