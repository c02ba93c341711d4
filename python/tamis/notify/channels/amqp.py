"""The channel ``amqp``: publishes one persistent message per notification, and waits until the broker has confirmed it.

The body is the notification as JSON, as a line of ``jsonl``, and the message id is the notification's. What no queue
takes is a failure: it would be lost.

Source: the AMQP 0-9-1 extension "publisher confirms"; basic.publish, field mandatory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Sequence
from typing import TypeVar

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange, FieldValue
from yarl import URL

from tamis.config.deliveries import AmqpDelivery
from tamis.notify.channels.channel import ChannelError, ChannelLostError, ChannelTimeoutError, Sent
from tamis.notify.channels.interruptible import ServerChannel
from tamis.notify.channels.jsonl import as_json
from tamis.store import DueDelivery

_KEY_BYTES_MAX = 255
_T = TypeVar("_T")


class AmqpChannel(ServerChannel):
    """Publishes through one connection from `open` to `close`.

    Raises:
        ConfigError: the variable with the password is not set, or `ca_file` cannot be read.
    """

    batch_count = 100

    def __init__(self, config: AmqpDelivery) -> None:
        """Make the channel; nothing is connected yet."""
        self._config, self._tls = config, config.tls_context()
        url, password = URL(config.url), config.password()
        self._server = f"{url.host}:{url.port or (5671 if self._tls else 5672)}"
        self._url = url.with_password(password) if password is not None else url
        self._connection: AbstractConnection | None = None
        self._exchange: AbstractExchange | None = None

    def open(self) -> None:
        """Connect, log in, and find the exchange.

        Raises:
            ChannelError: there is no broker, it refuses the login, or it has no such exchange.
        """
        self._run_first(self._connect())

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Publish a message for each, and wait until the broker has confirmed or refused all of them.

        Raises:
            ChannelLostError: the broker has closed the connection or the channel, or took longer than `timeout_s`.
        """
        outcomes: dict[int, str | None] = {}
        self._run(self._publish_all(due, outcomes))
        return Sent({number: reason for number, reason in outcomes.items() if reason is not None})

    async def _connect(self) -> None:
        config = self._config
        connecting = aio_pika.connect(self._url, timeout=config.timeout_s, ssl_context=self._tls)
        connection: AbstractConnection = await self._within("connecting", connecting)
        self._connection = connection
        opening = connection.channel(publisher_confirms=True, on_return_raises=True)
        channel: AbstractChannel = await self._within("a channel", opening)
        if config.exchange:
            self._exchange = await self._within("the exchange", channel.get_exchange(config.exchange, ensure=True))
        else:
            self._exchange = channel.default_exchange

    async def _within(self, what: str, work: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(self._config.timeout_s):
                return await work
        except TimeoutError as error:
            raise ChannelTimeoutError(
                f"{self._server}: no answer within {self._config.timeout_s:g} s ({what})"
            ) from error
        except (aio_pika.exceptions.AMQPError, OSError, RuntimeError) as error:
            raise ChannelError(f"{self._server}: {' '.join(str(error).split()) or type(error).__name__}") from error

    async def _publish_all(self, due: Sequence[DueDelivery], outcomes: dict[int, str | None]) -> None:
        publishing = [asyncio.ensure_future(self._publish(delivery, outcomes)) for delivery in due]
        try:
            await self._within("confirms", asyncio.gather(*publishing))
        except ChannelError as error:
            for one in publishing:
                one.cancel()
            await asyncio.gather(*publishing, return_exceptions=True)
            raise ChannelLostError(str(error), outcomes) from error

    async def _publish(self, delivery: DueDelivery, outcomes: dict[int, str | None]) -> None:
        """Publish one, and put into `outcomes` why it was not; None if it was confirmed."""
        outcomes[delivery.delivery_id] = await self._outcome(delivery)

    async def _outcome(self, delivery: DueDelivery) -> str | None:
        assert self._exchange is not None, "open comes first"  # noqa: S101 - for the type checker
        try:
            message, key = self._message(delivery), self._routing_key(delivery)
        except Exception as error:  # noqa: BLE001 - one message must not stop the others
            return f"cannot be published: {error}"
        try:
            await self._exchange.publish(message, key, mandatory=True)
        except aio_pika.exceptions.PublishError:
            return f"no queue takes it: {self._about(key)}"
        except aio_pika.exceptions.DeliveryError:
            return f"the broker refused it: {self._about(key)}"
        return None

    def _message(self, delivery: DueDelivery) -> aio_pika.Message:
        record = delivery.notification
        headers: dict[str, FieldValue] = {"query": record.query_key, "version": record.query_version}
        headers |= {"topic": record.topic} | ({"owner": delivery.owner} if delivery.owner else {})
        return aio_pika.Message(
            json.dumps(as_json(record)).encode(),
            headers=headers,
            content_type="application/json",
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            message_id=record.id,
            timestamp=record.created_at,
            type="tamis.notification",
        )

    def _routing_key(self, delivery: DueDelivery) -> str:
        record, key = delivery.notification, self._config.routing_key
        fields = {"query": record.query_key, "owner": delivery.owner or "", "topic": record.topic}
        for name, value in fields.items():
            key = key.replace(f"{{{name}}}", value)
        if len(key.encode()) > _KEY_BYTES_MAX:
            raise ValueError(f"a routing key has at most {_KEY_BYTES_MAX} bytes, and '{key[:40]}...' is longer")
        return key

    def _about(self, key: str) -> str:
        return f"exchange '{self._config.exchange}', routing key '{key}'"

    async def _disconnect(self) -> None:
        connection, self._connection, self._exchange = self._connection, None, None
        if connection is not None:
            try:
                async with asyncio.timeout(1):
                    await connection.close()
            except (aio_pika.exceptions.AMQPError, OSError, RuntimeError, TimeoutError):
                pass  # the server has already closed the connection
