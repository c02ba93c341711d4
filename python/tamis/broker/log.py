"""The broker's log: one line per event on stderr, as JSON or for people.

A thread formats and writes: a full pipe must not stop the event loop, and loading structlog, which takes 0.1 s, must
not delay the start."""

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
"""Maximum number of events that wait for a slow stderr; further ones are dropped, and later their number is logged."""
LEVELS: dict[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_Event = tuple[Level, float, str, dict[str, Any]]


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
        logger = self._logger()
        while (event := self._events.get()) is not None:
            level, at, text, fields = event
            with suppress(OSError):  # stderr is closed, and there is no other place to report that
                getattr(logger, level)(text, timestamp=datetime.fromtimestamp(at, UTC), **fields)
                if self._events.empty():
                    self._log_dropped(logger)
        with suppress(OSError):
            self._log_dropped(logger)

    def _log_dropped(self, logger: FilteringBoundLogger) -> None:
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
        logger: FilteringBoundLogger = structlog.wrap_logger(
            structlog.PrintLogger(self._stream),
            processors=[structlog.processors.add_log_level, _in_order, renderer],
            wrapper_class=structlog.make_filtering_bound_logger(self._level_min),
        )
        return logger


def _in_order(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put time, level and event first, and escape line breaks in what clients have chosen."""
    first = {"timestamp": event.pop("timestamp").isoformat(timespec="milliseconds"), "level": event.pop("level")}
    fields = {name: _one_line(value) if isinstance(value, str) else value for name, value in event.items()}
    return {**first, "event": fields.pop("event"), **fields}


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
