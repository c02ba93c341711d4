"""A named reader of a stream that comes back under its name, and what it got held against the stream itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pamqp import commands
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from tests.faults.amqp import PAD, Client, ClientThread

QUIET_S = 2.0
"""A reader to whom no message came for this time has all that it will get."""
Records = dict[int, str]
"""Bodies by number."""


@dataclass
class Reading:
    """What came to a named reader over all restarts, as (number, body).

    Attributes:
        sure: how many of them count as shown for ever; None: all. What comes while the power goes may not be on disk.
        disorder: numbers that did not come in order on one connection.
        unmarked: numbers that came again without being marked as redelivered.
    """

    seen: list[tuple[int, str]] = field(default_factory=list)
    sure: int | None = None
    disorder: list[tuple[int, int]] = field(default_factory=list)
    unmarked: list[int] = field(default_factory=list)
    _numbers: set[int] = field(default_factory=set)

    def note(self, number: int, body: str, redelivered: bool) -> None:
        """Add a delivery."""
        if number in self._numbers and not redelivered:
            self.unmarked.append(number)
        self._numbers.add(number)
        self.seen.append((number, body))

    def wrong(self, stream: Records) -> list[str]:
        """Return what is wrong, given all that the stream has.

        A number that was shown must be there with the same body. All that the stream has must have come, and what came
        twice must have been marked."""
        changed = [number for number, body in self.seen[: self.sure] if stream.get(number) != body]
        missing = sorted(set(stream) - {number for number, _ in self.seen})
        found: dict[str, Sequence[object]] = {
            "changed after they were shown": changed,
            "never came": missing,
            "out of order": self.disorder,
            "came again without a mark": self.unmarked,
        }
        return [f"{len(numbers)} numbers {what}: {numbers[:3]}" for what, numbers in found.items() if numbers]


class StreamReader(ClientThread):
    """Reads a stream and acknowledges each message once it is noted, until it is stopped or the broker goes.

    Args:
        name: the name under which it resumes; "": none.
        start: where it begins when the broker does not know its name.
    """

    def __init__(self, port: int, queue: str, reading: Reading, *, name: str = "", start: str = "first") -> None:
        super().__init__(Client(port))
        self._client.call(commands.Basic.Qos(prefetch_count=50), "Basic.QosOk")
        arguments = {"x-stream-offset": start} | ({"x-stream-reader": name} if name else {})
        self._client.send(commands.Basic.Consume(queue=queue, arguments=arguments))
        self._reading = reading
        self._tag = self._number = self._last = 0
        self._redelivered = False

    def step(self) -> None:
        """Note what has come."""
        self.take(0.05)

    def take(self, timeout_s: float) -> int:
        """Note what has come, after waiting at most `timeout_s` for the first; return the number of messages."""
        count = 0
        for value in self._client.frames(timeout_s):
            if getattr(value, "name", "") == "Basic.Deliver":
                self._tag, self._redelivered = value.delivery_tag, value.redelivered
            elif isinstance(value, ContentHeader):
                assert value.properties.headers is not None
                self._number = int(value.properties.headers["x-stream-offset"])
            elif isinstance(value, ContentBody):
                self._note(value.value.decode().rstrip(PAD))
                self._client.send(commands.Basic.Ack(self._tag))
                count += 1
        return count

    def _note(self, body: str) -> None:
        if self._last and self._number != self._last + 1:
            self._reading.disorder.append((self._last, self._number))
        self._last = self._number
        self._reading.note(self._number, body, self._redelivered)


def read_on(port: int, queue: str, reading: Reading, stream: Records, **options: str) -> None:
    """Let a reader come back and take what is left, until it has the last message or none comes for `QUIET_S`."""
    reader = StreamReader(port, queue, reading, **options)
    end = time.monotonic() + 120
    quiet_end = time.monotonic() + QUIET_S
    last = max(stream, default=0)
    while time.monotonic() < min(end, quiet_end) and last not in {number for number, _ in reading.seen[-50:]}:
        # What comes may hold no message: the answer to the request, or a part of a message.
        if reader.take(QUIET_S):
            quiet_end = time.monotonic() + QUIET_S
    reader.close()
