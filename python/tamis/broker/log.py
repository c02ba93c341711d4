"""The broker's log: one line per event on stderr, as JSON or for people.

A thread formats and writes: a full pipe must not stop the event loop, and loading structlog, which takes 0.1 s, must
not delay the start. The event loop waits while the thread formats an event, for Python's lock, so that has to be
cheap: 8 us as JSON."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "console"]

WAITING_MAX = 10_000
"""Maximum number of events that wait for a slow stderr; further ones are dropped, and later their number is logged."""
LEVELS: dict[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_Event = tuple[Level, float, str, dict[str, Any]]
_Renderer = Callable[[dict[str, Any]], str]


class Log:
    """Writes events to `stream`. Thread-safe; only `close` waits."""

    def __init__(self, level: Level = "info", style: Format = "auto", stream: TextIO | None = None) -> None:
        self._level_min = LEVELS[level]
        self._style = style
        self._stream = sys.stderr if stream is None else stream
        self._events: queue.Queue[_Event | None] = queue.Queue(WAITING_MAX)
        self._dropped_count = 0
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)

    def debug(self, event: str, **fields: Any) -> None:
        """Log what helps to find a mistake."""
        self._put("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log a rare event of normal operation."""
        self._put("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log what an operator may want to look at."""
        self._put("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log what an operator has to look at."""
        self._put("error", event, fields)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write the waiting events, for at most `timeout_s`."""
        if self._thread.ident is None:
            return
        try:
            self._events.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def _put(self, level: Level, event: str, fields: dict[str, Any]) -> None:
        if LEVELS[level] < self._level_min:
            return
        if self._thread.ident is None:  # started with the first event, so as not to slow the start
            self._thread.start()
        try:
            self._events.put_nowait((level, time.time(), event, fields))
        except queue.Full:
            self._dropped_count += 1

    def _write_all(self) -> None:
        render = self._renderer()
        while (event := self._events.get()) is not None:
            with suppress(OSError):  # stderr is closed, and there is no other place to report that
                self._write(render, event)
                if self._events.empty():
                    self._write_dropped(render)
        with suppress(OSError):
            self._write_dropped(render)

    def _write(self, render: _Renderer, event: _Event) -> None:
        self._stream.write(f"{render(_in_order(event))}\n")
        self._stream.flush()

    def _write_dropped(self, render: _Renderer) -> None:
        count, self._dropped_count = self._dropped_count, 0
        if count:
            self._write(render, ("warning", time.time(), "log events dropped", {"count": count}))

    def _renderer(self) -> _Renderer:
        if self._style == "console" or (self._style == "auto" and self._stream.isatty()):
            import structlog

            console = structlog.dev.ConsoleRenderer(colors=self._stream.isatty(), pad_event_to=0)
            return lambda fields: console(None, "", fields)
        return json.JSONEncoder(ensure_ascii=False, default=str).encode


def _in_order(event: _Event) -> dict[str, Any]:
    """Put time, level and event first, and escape line breaks in what clients have chosen."""
    level, at, text, fields = event
    timestamp = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    values = {name: _one_line(value) if isinstance(value, str) else value for name, value in fields.items()}
    return {"timestamp": timestamp, "level": level, "event": text, **values}


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
