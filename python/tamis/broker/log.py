"""The broker's log: one line an event on stderr, JSON or for people.

A thread of its own formats and writes, for a full pipe must not stop the event loop, and structlog takes 0.1 s to load,
which nobody shall wait for at the start."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "console"]

WAITING_MAX = 10_000
"""So many events wait for a slow stderr; further ones are dropped, and their number is told when it goes on."""
LEVELS: dict[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_Event = tuple[Level, float, str, dict[str, Any]]


class Log:
    """Events on their way to `stream`. Thread-safe; no method ever waits, but `close`."""

    def __init__(self, level: Level = "info", style: Format = "auto", stream: TextIO | None = None) -> None:
        self._least = LEVELS[level]
        self._style = style
        self._stream = sys.stderr if stream is None else stream
        self._events: queue.Queue[_Event | None] = queue.Queue(WAITING_MAX)
        self._dropped_count = 0
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)

    def debug(self, event: str, **fields: Any) -> None:
        """What helps to find a mistake, and is too much otherwise."""
        self._put("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """What goes well and happens seldom."""
        self._put("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """What somebody may want to look at."""
        self._put("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """What somebody has to look at."""
        self._put("error", event, fields)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what waits, for at most `timeout_s`."""
        if self._thread.ident is None:
            return
        try:
            self._events.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def _put(self, level: Level, event: str, fields: dict[str, Any]) -> None:
        if LEVELS[level] < self._least:
            return
        if self._thread.ident is None:  # with the first event: a start that says nothing yet is not slowed by it
            self._thread.start()
        try:
            self._events.put_nowait((level, time.time(), event, fields))
        except queue.Full:
            self._dropped_count += 1

    def _write_all(self) -> None:
        logger = self._logger()
        while (event := self._events.get()) is not None:
            level, at, text, fields = event
            with suppress(OSError):  # stderr is gone; there is nowhere to say so
                getattr(logger, level)(text, timestamp=datetime.fromtimestamp(at, UTC), **fields)
                if self._events.empty():
                    self._tell_dropped(logger)
        with suppress(OSError):
            self._tell_dropped(logger)

    def _tell_dropped(self, logger: FilteringBoundLogger) -> None:
        count, self._dropped_count = self._dropped_count, 0
        if count:
            logger.warning("log events dropped", timestamp=datetime.now(UTC), count=count)

    def _logger(self) -> FilteringBoundLogger:
        import structlog

        is_console = self._style == "console" or (self._style == "auto" and self._stream.isatty())
        renderer: Any = (
            structlog.dev.ConsoleRenderer(colors=self._stream.isatty(), pad_event_to=0)
            if is_console
            else structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
        )
        made: FilteringBoundLogger = structlog.wrap_logger(
            structlog.PrintLogger(self._stream),
            processors=[structlog.processors.add_log_level, _in_order, renderer],
            wrapper_class=structlog.make_filtering_bound_logger(self._least),
        )
        return made


def _in_order(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """When, how grave and what come first; what a client chose is printed on one line, whatever is in it."""
    first = {"timestamp": event.pop("timestamp").isoformat(timespec="milliseconds"), "level": event.pop("level")}
    rest = {name: _one_line(value) if isinstance(value, str) else value for name, value in event.items()}
    return {**first, "event": rest.pop("event"), **rest}


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
