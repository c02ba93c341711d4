"""Consumes a queue and prints its messages; a message is acknowledged after it has been written."""

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
from tamis.cli.amqp.json_lines import to_line
from tamis.cli.exit_codes import INTERRUPTED, NOTHING, OK

PREFETCH_COUNT = 100
"""Prefetch: enough to hide the delay of the network."""
ACKNOWLEDGED_TOGETHER = 25
"""Maximum number of messages that are written and acknowledged at once."""
WAKE_S = 0.2
"""Time between two checks whether a waiting consumer has to stop."""


class Delivery(NamedTuple):
    """A message as pika delivers it."""

    method: Any
    properties: Any
    body: bytes


class PrintingConsumer:
    """A consumer that prints messages and acknowledges them.

    It never asks the broker for more than `count_max` messages: those that are delivered and not printed would return
    to the queue marked as delivered before. So the last ones are acknowledged together, after the consumer's end.

    Attributes:
        count: the number of printed messages.

    Args:
        channel: a channel of pika.
        queue: what to consume.
        arguments: those of basic.consume.
        acknowledges: whether to acknowledge; otherwise the messages return when the channel is closed.
        count_max: the number of messages after which to stop; None: no limit.
        with_delivery: add how each message was delivered.
        check: called with each message before it is printed.
        prepare: returns the line to print for one of `to_line`.
    """

    def __init__(
        self,
        channel: Any,
        queue: str,
        *,
        arguments: dict[str, Any] | None = None,
        acknowledges: bool = True,
        count_max: int | None = None,
        with_delivery: bool = False,
        check: Callable[[Delivery], None] = lambda _: None,
        prepare: Callable[[dict[str, Any]], dict[str, Any]] = lambda line: line,
    ) -> None:
        self.count = 0
        self._channel = channel
        self._acknowledges = acknowledges
        self._count_max = count_max
        self._with_delivery = with_delivery
        self._check = check
        self._prepare = prepare
        self._waiting: deque[Delivery] = deque()  # at most the prefetch
        self._printed_tag = self._acknowledged_tag = 0
        self._is_cancelled = False
        prefetch_count = (
            PREFETCH_COUNT if count_max is None else min(count_max, PREFETCH_COUNT) if acknowledges else count_max
        )
        self._held_from = None if count_max is None else count_max - prefetch_count
        channel.add_on_cancel_callback(lambda _: self._cancelled())
        channel.basic_qos(prefetch_count=prefetch_count)
        self._tag = channel.basic_consume(
            queue, lambda _, *parts: self._waiting.append(Delivery(*parts)), auto_ack=False, arguments=arguments
        )

    def run(self, timeout_s: float | None, is_stopped: Callable[[], bool]) -> None:
        """Print until `count_max`, a pause of `timeout_s`, the deletion of the queue, or `is_stopped`."""
        for delivery in self._deliveries(timeout_s, is_stopped):
            self._check(delivery)
            output.data_json(self._prepare(to_line(*delivery, with_delivery=self._with_delivery)))
            self.count += 1
            self._printed_tag = delivery.method.delivery_tag
            if not self._waiting or self.count % ACKNOWLEDGED_TOGETHER == 0:
                sys.stdout.flush()
                if self._acknowledges and (self._held_from is None or self.count <= self._held_from):
                    self._acknowledge()
            if self.count == self._count_max:
                break
        self._end()

    def exit_code(self, count_wanted: int | None, is_interrupted: bool) -> int:
        """Return OK if a message came. Ctrl-C counts as an interruption only before `count_wanted` messages."""
        if is_interrupted and count_wanted is not None and self.count < count_wanted:
            return INTERRUPTED
        return OK if self.count else NOTHING

    def _deliveries(self, timeout_s: float | None, is_stopped: Callable[[], bool]) -> Iterator[Delivery]:
        until = monotonic() + (timeout_s or 0)
        while not is_stopped():
            if self._waiting:
                yield self._waiting.popleft()
                until = monotonic() + (timeout_s or 0)
                continue
            wait_s = WAKE_S if timeout_s is None else until - monotonic()
            if self._is_cancelled or wait_s <= 0:
                return
            self._channel.connection.process_data_events(time_limit=min(wait_s, WAKE_S))

    def _acknowledge(self) -> None:
        """Acknowledge what has been printed."""
        if self._acknowledged_tag < self._printed_tag:
            self._channel.basic_ack(self._printed_tag, multiple=True)
            self._acknowledged_tag = self._printed_tag

    def _end(self) -> None:
        sys.stdout.flush()
        if not self._is_cancelled:
            self._channel.basic_cancel(self._tag)
        if self._acknowledges:
            self._acknowledge()

    def _cancelled(self) -> None:
        self._is_cancelled = True
        output.note("the queue has been deleted")


@contextmanager
def until_interrupted() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed; pressed a second time, it interrupts as usual."""
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
