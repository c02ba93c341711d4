"""The log has one line per event, whatever a client calls itself, and nobody waits for it."""

from __future__ import annotations

import io
import json
import threading

from tamis.broker.log import WAITING_MAX, Log


def test_an_event_is_one_line_of_json() -> None:
    stream = io.StringIO()
    log = Log("info", "json", stream)
    log.debug("not told")
    log.info("ready", port=5672)
    log.warning("login refused", user="a\nb\x1b[2J", reason="wrong password")
    log.close(timeout_s=30)
    first, second = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (first["level"], first["event"], first["port"]) == ("info", "ready", 5672)
    assert first["timestamp"].endswith("+00:00")
    assert second["user"] == "a\\nb\\x1b[2J"


def test_for_people_it_is_a_line_too() -> None:
    stream = io.StringIO()
    log = Log("info", "console", stream)
    log.error("journal failed", reason="disk\nfull")
    log.close(timeout_s=30)
    (line,) = stream.getvalue().splitlines()
    assert "journal failed" in line
    assert "disk\\nfull" in line


class Stuck(io.StringIO):
    """A stream whose other end nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def write(self, text: str) -> int:
        self.goes_on.wait(60)
        return super().write(text)


def test_nobody_waits_for_a_stuck_stream_and_what_was_dropped_is_told() -> None:
    stream = Stuck()
    log = Log("info", "json", stream)
    for number in range(WAITING_MAX + 100):
        log.info("event", number=number)
    log.close(timeout_s=0.05)
    stream.goes_on.set()
    log.close(timeout_s=30)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert sum(line["event"] == "event" for line in lines) >= WAITING_MAX
    assert sum(line.get("count", 0) for line in lines if line["event"] == "log events dropped") >= 99
