"""Publishes many messages with confirms, keeping a window of them unconfirmed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import Any

import pika

from tamis.cli import output
from tamis.cli.amqp.connection import BrokerAddress, broker_error, explained
from tamis.cli.amqp.json_lines import Outgoing
from tamis.cli.amqp.pika_extensions import connection_class

WINDOW_COUNT = 1000
WINDOW_BYTES = 8 * 1024 * 1024
"""Maximum number and size of unconfirmed messages; one message more may exceed the size."""
WAITING_COUNT = 100
"""Maximum number of messages that have been read and wait for the window."""
RETURNED_SHOWN = 10
"""Maximum number of returned messages that are shown; further ones are only counted."""


@dataclass
class Published:
    """Numbers of messages.

    Attributes:
        published: messages sent to the broker.
        confirmed: messages that the broker has confirmed.
        unroutable: confirmed messages that were returned because no queue received them.
        refused: messages that the broker has refused (basic.nack).
    """

    published: int = 0
    confirmed: int = 0
    unroutable: int = 0
    refused: int = 0


class Publisher:
    """Publishes everything that `messages` yields, and waits for the last confirm.

    Args:
        address: the broker.
        exchange: where to publish.
        messages: read in a thread, so that a slow source does not delay confirms and heartbeats.
        on_confirmed: called with the number of messages that were just confirmed.
    """

    def __init__(
        self, address: BrokerAddress, exchange: str, messages: Iterator[Outgoing], on_confirmed: Callable[[int], object]
    ) -> None:
        self.counts = Published()
        self._address = address
        self._exchange = exchange
        self._messages = messages
        self._on_confirmed = on_confirmed
        self._waiting: Queue[Outgoing | BaseException | None] = Queue(WAITING_COUNT)
        self._unconfirmed: OrderedDict[int, int] = OrderedDict()  # delivery tag -> bytes
        self._unconfirmed_bytes = 0
        self._wants_more = False
        self._is_complete = False
        self._failure: BaseException | None = None
        self._connection: Any = None
        self._channel: Any = None

    def run(self) -> None:
        """Publish all messages.

        Raises:
            BrokerError: the broker cannot be reached, or has closed the channel or the connection.
            Exception: an error that `messages` raised.
        """
        loop = pika.adapters.select_connection.IOLoop()
        self._loop = loop
        parameters = self._address.parameters()
        with explained(self._address):
            try:
                connection_class(self._address.unix).create_connection(
                    [parameters], on_done=self._connected, custom_ioloop=loop
                )
            except OSError as error:  # a Unix socket is connected at once
                raise broker_error(error, self._address) from error
            loop.start()
            if self._failure is not None:
                raise self._failure

    # ---- opening ----

    def _connected(self, result: Any) -> None:
        if isinstance(result, BaseException):
            exceptions = getattr(result, "exceptions", (result,))  # a failed workflow has one for each address
            self._stop(broker_error(_unwrapped(exceptions[-1]), self._address))
            return
        self._connection = result
        result.add_on_close_callback(lambda _, reason: self._stop(reason))
        result.add_on_connection_blocked_callback(
            lambda _, method: output.note(f"the broker accepts no messages now ({method.method.reason}); waiting ...")
        )
        result.channel(on_open_callback=self._opened)

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(lambda _, reason: self._channel_closed(reason))
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(self._confirmed, callback=lambda _: self._begin())

    def _begin(self) -> None:
        Thread(target=self._read, daemon=True).start()
        self._fill()

    # ---- the thread that reads ----

    def _read(self) -> None:
        try:
            for message in self._messages:
                self._hand_over(message)
        except BaseException as error:  # noqa: BLE001 - raised again in `run`
            self._hand_over(error)
        else:
            self._hand_over(None)

    def _hand_over(self, item: Outgoing | BaseException | None) -> None:
        self._waiting.put(item)
        if self._wants_more:
            self._wants_more = False
            self._loop.add_callback_threadsafe(self._fill)

    # ---- the loop ----

    def _fill(self) -> None:
        """Publish waiting messages while the window has room."""
        while len(self._unconfirmed) < WINDOW_COUNT and self._unconfirmed_bytes < WINDOW_BYTES:
            if self._is_complete or not self._channel.is_open:
                break
            item = self._next()
            if item is _NOTHING:
                break
            if isinstance(item, Outgoing):
                self._publish(item)
            else:
                self._is_complete = True
                self._failure = item
        if self._is_complete and not self._unconfirmed and self._connection.is_open:
            self._connection.close()

    def _next(self) -> Any:
        """Return the next waiting item, or _NOTHING; then the reading thread will call `_fill`."""
        try:
            return self._waiting.get_nowait()
        except Empty:
            self._wants_more = True
        try:  # again: it may have come just before the flag was set
            return self._waiting.get_nowait()
        except Empty:
            return _NOTHING

    def _publish(self, message: Outgoing) -> None:
        self._channel.basic_publish(self._exchange, message.key, message.body, message.properties, mandatory=True)
        self.counts.published += 1
        self._unconfirmed[self.counts.published] = len(message.body)
        self._unconfirmed_bytes += len(message.body)

    def _returned(self, _: Any, method: Any, __: Any, ___: bytes) -> None:
        self.counts.unroutable += 1
        if self.counts.unroutable <= RETURNED_SHOWN:
            exchange = f"exchange '{method.exchange}'" if method.exchange else "the default exchange"
            output.warning(
                f"no queue received a message: {exchange}, key '{method.routing_key}' "
                f"({method.reply_code} {method.reply_text})"
            )

    def _confirmed(self, frame: Any) -> None:
        answer = frame.method
        tags = [answer.delivery_tag]
        if answer.multiple:
            tags = [tag for tag in self._unconfirmed if tag <= answer.delivery_tag]
        for tag in tags:
            self._unconfirmed_bytes -= self._unconfirmed.pop(tag, 0)
        if isinstance(answer, pika.spec.Basic.Ack):
            self.counts.confirmed += len(tags)
            self._on_confirmed(len(tags))
        else:
            self.counts.refused += len(tags)
        self._fill()

    # ---- the end ----

    def _channel_closed(self, reason: Any) -> None:
        """Keep the broker's reason, which matters more than the connection's end that follows."""
        if isinstance(reason, pika.exceptions.ChannelClosedByBroker):
            self._failure = reason
            if self._connection.is_open:
                self._connection.close()

    def _stop(self, reason: BaseException) -> None:
        if not isinstance(reason, pika.exceptions.ConnectionClosedByClient) and self._failure is None:
            self._failure = reason
        self._loop.stop()


_NOTHING = object()


def _unwrapped(error: BaseException) -> BaseException:
    """Return the error in a phase of connecting, which pika wraps."""
    inner = getattr(error, "exception", None)
    return inner if isinstance(inner, BaseException) else error
