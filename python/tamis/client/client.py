"""A connection to a broker that reconnects by itself, with its streams, mailboxes and services."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

import aio_pika
from aio_pika.exceptions import ChannelClosed, ConnectionClosed, DeliveryError
from pamqp import commands

from tamis.client.address import broker_url
from tamis.client.doubles import teach
from tamis.client.errors import LOST, ClientError, IdentityTakenError
from tamis.client.mailbox import Mailbox
from tamis.client.service import Service
from tamis.client.stream import Stream

RETRY_S_MIN, RETRY_S_MAX = 0.1, 5.0
"""The first wait before another attempt to connect, and the longest; each is twice the one before."""
CONNECTION_FORCED = "CONNECTION_FORCED"
"""The reply with which a broker that stops closes connections."""
_TAKEN = ("is in use by a client", "has taken over the identity")


async def connect(url: str = "amqp://guest:guest@127.0.0.1/", *, identity: str | None = None) -> Client:
    """Connect to a broker.

    Args:
        url: ``amqp://user:password@host:port/vhost``, ``amqps://...`` or ``tamis://user:password@host:port``.
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
        self._publishing: aio_pika.abc.AbstractChannel | None = None
        self._lock = asyncio.Lock()
        self._is_closed = False
        self._taken: str | None = None

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
            raise _client_error(error) from error
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
            self._connection = self._publishing = None  # its `is_closed` tells only of `close`
        if error is not None and _TAKEN[1] in str(error):
            self._taken = str(error)

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
                channel = await connection.channel()
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

    async def _live(self) -> aio_pika.abc.AbstractConnection:
        async with self._lock:
            if self._is_closed:
                raise ClientError("the client is closed")
            if self._taken is not None:
                raise IdentityTakenError(self._taken)
            return self._connection or await self.open()

    async def publish(self, exchange: str, routing_key: str, message: aio_pika.Message) -> None:
        """Publish a message; it is stored when this returns. It waits while there is no connection, or no room.

        A message whose connection broke before it was confirmed is sent again, with the same `message_id`: it may come
        twice.

        Raises:
            ClientError: the broker refuses it, or no queue takes it.
        """
        while True:
            try:
                if self._publishing is None or self._publishing.is_closed:
                    self._publishing = await self.channel()
                to = await self._publishing.get_exchange(exchange, ensure=False)
                await to.publish(message, routing_key)
                return
            except DeliveryError as error:
                raise ClientError(f"no queue takes the message: exchange '{exchange}', key '{routing_key}'") from error
            except ChannelClosed as error:
                raise _client_error(error) from error
            except ConnectionClosed as error:
                if CONNECTION_FORCED not in str(error):
                    raise _client_error(error) from error
            except LOST:
                if self._is_closed:
                    raise
            self._publishing = None
            await asyncio.sleep(RETRY_S_MIN)


def _client_error(error: BaseException) -> ClientError:
    text = _refusal(error) or str(error) or type(error).__name__
    return (IdentityTakenError if any(words in text for words in _TAKEN) else ClientError)(text)


def _refusal(error: BaseException | None) -> str:
    """Return why the broker has closed a connection that was being opened.

    aiormq says only that the frame was not the expected one; the frame itself is where the error was raised."""
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            frame = trace.tb_frame.f_locals.get("frame")
            if isinstance(frame, commands.Connection.Close):
                return str(frame.reply_text)
            trace = trace.tb_next
        error = error.__cause__ or error.__context__
    return ""
