"""Taking messages from a queue and printing them, so that none is lost on the way to whoever reads them."""

from __future__ import annotations

import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, NamedTuple

import pika

from tamis.cli import output
from tamis.cli.amqp_message import to_line
from tamis.cli.boundary import INTERRUPTED, NOTHING, OK

PREFETCH_COUNT = 100
"""Messages that are under way to a consumer: enough that the network's delay costs nothing."""
SETTLED_TOGETHER = 25
"""Where many come, so many are written out and acknowledged at once."""
WAKE_S = 0.2
"""So often a consumer that waits looks whether it shall stop."""


class Delivery(NamedTuple):
    """One message as pika gives it."""

    method: Any
    properties: Any
    body: bytes


class Taking:
    """A consumer that prints, and acknowledges what has been written.

    The broker is never asked for more than `count_max` messages: what it delivers and nobody prints would go back to
    the queue marked as delivered before. So the last ones are acknowledged together, when the consumer is gone.

    Attributes:
        count: messages that were printed.

    Args:
        takes: acknowledge them; else they go back when the channel is closed.
        count_max: None: as many as come.
        check: called with each message before it is printed.
    """

    def __init__(
        self,
        channel: Any,
        queue: str,
        *,
        arguments: dict[str, Any] | None = None,
        takes: bool = True,
        count_max: int | None = None,
        with_delivery: bool = False,
        check: Callable[[Delivery], None] = lambda _: None,
    ) -> None:
        self.count = 0
        self._channel = channel
        self._takes = takes
        self._count_max = count_max
        self._with_delivery = with_delivery
        self._check = check
        self._waiting: deque[Delivery] = deque()  # at most the prefetch
        self._printed_tag = self._settled_tag = 0
        self._is_gone = False
        prefetch_count = PREFETCH_COUNT if count_max is None else min(count_max, PREFETCH_COUNT) if takes else count_max
        self._held_from = None if count_max is None else count_max - prefetch_count
        channel.add_on_cancel_callback(lambda _: self._cancelled())
        channel.basic_qos(prefetch_count=prefetch_count)
        self._tag = channel.basic_consume(
            queue, lambda _, *parts: self._waiting.append(Delivery(*parts)), auto_ack=False, arguments=arguments
        )

    def run(self, timeout_s: float | None, is_stopped: Callable[[], bool]) -> None:
        """Print until there are enough, nothing has come for `timeout_s`, the queue is gone, or it is stopped."""
        for delivery in self._coming(timeout_s, is_stopped):
            self._check(delivery)
            output.data_json(to_line(*delivery, with_delivery=self._with_delivery))
            self.count += 1
            self._printed_tag = delivery.method.delivery_tag
            if not self._waiting or self.count % SETTLED_TOGETHER == 0:
                sys.stdout.flush()
                if self._takes and (self._held_from is None or self.count <= self._held_from):
                    self._settle()
            if self.count == self._count_max:
                break
        self._end()

    def exit_code(self, count_wanted: int | None, is_interrupted: bool) -> int:
        """As grep's: whether a message came. Ctrl-C is how it ends when nothing else ends it; else an interruption."""
        if is_interrupted and count_wanted is not None and self.count < count_wanted:
            return INTERRUPTED
        return OK if self.count else NOTHING

    def _coming(self, timeout_s: float | None, is_stopped: Callable[[], bool]) -> Iterator[Delivery]:
        until = monotonic() + (timeout_s or 0)
        while not is_stopped():
            if self._waiting:
                yield self._waiting.popleft()
                until = monotonic() + (timeout_s or 0)
                continue
            left = WAKE_S if timeout_s is None else until - monotonic()
            if self._is_gone or left <= 0:
                return
            self._channel.connection.process_data_events(time_limit=min(left, WAKE_S))

    def _settle(self) -> None:
        """Acknowledge what has been printed."""
        if self._settled_tag < self._printed_tag:
            self._channel.basic_ack(self._printed_tag, multiple=True)
            self._settled_tag = self._printed_tag

    def _end(self) -> None:
        sys.stdout.flush()
        if not self._is_gone:
            self._channel.basic_cancel(self._tag)
        if self._takes:
            self._settle()

    def _cancelled(self) -> None:
        self._is_gone = True
        output.note("the queue has been deleted")


@contextmanager
def until_interrupted() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, without stopping whatever runs just then; pressed once more, it does."""
    pressed: list[int] = []

    def press(number: int, _: Any) -> None:
        pressed.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def closing(connection: Any) -> Iterator[Any]:
    """Close a connection at the end, unless it is closed already."""
    try:
        yield connection
    finally:
        with suppress(pika.exceptions.AMQPError):
            if connection.is_open:
                connection.close()
