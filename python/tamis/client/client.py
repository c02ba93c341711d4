"""A connection to a broker that reconnects by itself, with its streams, mailboxes and services."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

import aio_pika

from tamis.client.address import broker_url
from tamis.client.doubles import teach
from tamis.client.errors import (
    LOST,
    RETRY_S_MAX,
    RETRY_S_MIN,
    TAKEN_OVER,
    ClientError,
    IdentityTakenError,
    client_error,
    is_refusal,
)
from tamis.client.mailbox import Mailbox
from tamis.client.publishing import Publisher
from tamis.client.service import Service
from tamis.client.stream import Stream

T = TypeVar("T")
DRAIN_S = 1.0
"""The time after the last frame of a broken connection in which another one may be added to its queue."""


async def connect(url: str = "amqp://guest:guest@127.0.0.1/", *, identity: str | None = None) -> Client:
    """Connect to a broker.

    Args:
        url: ``amqp://user:password@host:port/vhost``, or ``amqps://...`` with TLS; or ``tamis://user:password@host:port``
            with ``?vhost=name``, or ``tamiss://...`` with TLS. What else an address names there is of no effect.
        identity: the address of the client's own mailbox, which other clients can write to; None: it has none.

    Raises:
        ValueError: the URL is none of these.
        IdentityTakenError: another client has this identity.
        ClientError: the broker cannot be reached, or refuses the login.
    """
    teach()
    client = Client(broker_url(url), identity)
    await client.open()
    return client


class Client:
    """A connection, made by `connect`. It reconnects after a failure, and pending calls continue.

    Attributes:
        identity: the address of the client's own mailbox; None: it has none.
    """

    def __init__(self, url: str, identity: str | None) -> None:
        self.identity = identity
        self._url = url
        self._connection: aio_pika.abc.AbstractConnection | None = None
        self._publisher = Publisher(self.channel)
        self._lock = asyncio.Lock()
        self._is_closed = False
        self._taken: str | None = None
        self._draining: set[asyncio.Task[None]] = set()

    # ---- what a broker has ----

    def stream(self, name: str, *, max_bytes: int | None = None, max_age: str | None = None) -> Stream:
        """Return the stream `name`. It is made on first use, if it does not exist.

        Args:
            name: of the stream.
            max_bytes: about the size above which the oldest messages are removed, if it is made. With 0 it keeps no
                history: a message goes to those who read at that moment.
            max_age: the age from which messages are removed, if it is made: a number and one of ``Y M D h m s``.
        """
        return Stream(self, name, max_bytes, max_age)

    def mailbox(self, address: str | None = None) -> Mailbox:
        """Return the mailbox of a client; None: this client's own, which it can read.

        Raises:
            ValueError: this client has no identity, and so no mailbox.
        """
        if address is None and self.identity is None:
            raise ValueError("a client without an identity has no mailbox: connect(url, identity=...)")
        return Mailbox(self, address or self.identity or "")

    def service(self, name: str) -> Service:
        """Return the service `name`, to request something of it or to work for it."""
        return Service(self, name)

    # ---- the connection ----

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> aio_pika.abc.AbstractConnection:
        """Connect once, and return the connection. `connect` does this.

        Raises:
            ClientError: as `connect` says.
        """
        properties: dict[str, Any] = {"connection_name": "tamis.client"}
        if self.identity is not None:
            properties["identity"] = self.identity
        try:
            connection = await aio_pika.connect(self._url, client_properties=properties)
        except LOST as error:
            raise client_error(error) from error
        connection.close_callbacks.add(self._note_close)
        self._connection = connection
        return connection

    async def close(self) -> None:
        """Close the connection. What was received and not acknowledged goes back."""
        self._is_closed = True
        if self._connection is not None:
            await self._connection.close()

    def _note_close(self, connection: Any, error: BaseException | None) -> None:
        if connection is self._connection:
            self._connection = None  # its `is_closed` tells only of `close`
        if error is not None and TAKEN_OVER in str(error):
            self._taken = str(error)
        drain = asyncio.ensure_future(_drain(connection))
        self._draining.add(drain)
        drain.add_done_callback(self._draining.discard)

    async def channel(self, credit: int | None = None) -> aio_pika.abc.AbstractChannel:
        """Return a new channel, after connecting again if that is necessary, however long it takes.

        Args:
            credit: the number of messages that may be on their way to it; None: of the broker's choice.

        Raises:
            ClientError: the client is closed.
            IdentityTakenError: another client has taken over.
        """
        wait_s = RETRY_S_MIN
        while True:
            try:
                connection = await self._live()
                channel = await connection.channel(on_return_raises=True)
                if credit is not None:
                    await channel.set_qos(prefetch_count=credit)
                return channel
            except IdentityTakenError:
                if self._taken is not None:
                    raise
            except (ClientError, *LOST):
                if self._is_closed:
                    raise
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, RETRY_S_MAX)

    async def on_channel(self, work: Callable[[aio_pika.abc.AbstractChannel], Awaitable[T]]) -> T:
        """Return what `work` returns, with a channel of its own; it is called again if the connection breaks.

        Raises:
            ClientError: the broker refuses what `work` asks for.
        """
        while True:
            channel = await self.channel()
            try:
                return await work(channel)
            except LOST as error:
                if is_refusal(error):
                    raise client_error(error) from error
            finally:
                with suppress(*LOST):
                    await channel.close()
            await asyncio.sleep(RETRY_S_MIN)

    async def _live(self) -> aio_pika.abc.AbstractConnection:
        async with self._lock:
            if self._is_closed:
                raise ClientError("the client is closed")
            if self._taken is not None:
                raise IdentityTakenError(self._taken)
            return self._connection or await self.open()

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        message: aio_pika.Message,
        *,
        timeout_s: float | None = None,
        resend: bool = True,
    ) -> None:
        """Publish a message; it is stored when this returns. It waits while there is no connection, or no room.

        At most 1,024 messages are on their way at once, and 16 of them by one exchange and routing key. None waits for
        another one that the broker has no room for.

        A message whose connection broke before it was confirmed is sent again, with the same `message_id`: it may come
        twice. With `resend=False` it is not, and the caller finds out whether it was stored.

        Raises:
            SendTimeoutError: it was not stored within `timeout_s`. It may still be stored later.
            UnconfirmedError: the connection broke before it was confirmed, and `resend` is false.
            UnroutableError: no queue takes it.
            ClientError: the broker refuses it.
        """
        await self._publisher.publish((exchange, routing_key), message, timeout_s, resend=resend)


async def _drain(connection: aio_pika.abc.AbstractConnection) -> None:
    """Take what waits to be written to a closed connection, so that whoever waits for room there finds it closed.

    aiormq lets ten frames wait; who waits to add one is not told that nothing writes them any more."""
    if connection.transport is None:
        return
    waiting = connection.transport.connection.write_queue
    with suppress(TimeoutError):
        while True:
            await asyncio.wait_for(waiting.get(), DRAIN_S)
