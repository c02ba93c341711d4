"""What the control socket answers: the HTTP process and the command line look at the broker through it. Pure.

A request is one line of JSON, ``{"op": "queues", ...}``; so is the answer: ``{"ok": true, "result": ...}`` or
``{"ok": false, "error": "..."}``. Whoever can open the socket (mode 0600) may do all of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tamis._core import Broker

REQUEST_BYTES_MAX = 64 * 1024
ROWS_MAX = 1000
"""A list has at most so many rows in one answer, or ``limit``; ``offset`` asks for later ones. A row takes 10 us or
so, in which no message goes."""
NUMBER_MAX = 2**53

LISTS = ("vhosts", "connections", "queues", "exchanges", "bindings", "consumers")


class Running(Protocol):
    """What the shell knows and the data plane does not."""

    def about(self) -> dict[str, Any]:
        """Version, addresses, since when, memory, stalls of the event loop."""

    def health(self) -> dict[str, Any]:
        """Whether it takes connections and messages, and if not, why."""

    def reload_users(self) -> None:
        """Read the users anew, now."""

    def close_connection(self, number: int, reason: str) -> bool:
        """Close one with 320; whether there was one."""


class ControlError(Exception):
    """A request that cannot be answered, in words for whoever sent it."""


class Control:
    """The operations, by name."""

    def __init__(self, plane: Broker, running: Running) -> None:
        self._plane = plane
        self._running = running
        self._operations: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "about": lambda _: running.about(),
            "health": lambda _: running.health(),
            "metrics": lambda _: plane.metrics(),
            "overview": lambda _: {"about": running.about(), "health": running.health(), "metrics": plane.metrics()},
            "reload_users": lambda _: running.reload_users(),
            "close_connection": self._close_connection,
            **dict.fromkeys(LISTS, self._list),
        }

    def answer(self, line: bytes) -> bytes:
        """The answer to one request, with its line feed."""
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


def _number(request: Mapping[str, Any], name: str, default: int) -> int:
    value = request.get(name, default)
    if not isinstance(value, int) or not 0 <= value <= NUMBER_MAX:
        raise ControlError(f"{name}: expected a whole number from 0")
    return value
