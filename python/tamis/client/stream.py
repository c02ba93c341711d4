"""Streams: numbered messages that stay, for readers that start where they like and resume where they were."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelNotFoundEntity

from tamis.client.message import Body, ReceivedMessage, outgoing
from tamis.client.receiving import Source, receive

if TYPE_CHECKING:
    from tamis.client.client import Client

Start = str | int | datetime
"""``first``, ``last``, ``next``, a message's number, a time, or an age such as ``1h``."""
QueryBody = Literal["none", "text", "json"]
"""How a query sees the body of a message."""


class Stream:
    """A stream of a broker.

    Attributes:
        name: its name.
    """

    def __init__(self, client: Client, name: str, max_bytes: int | None, max_age: str | None) -> None:
        self.name = name
        self._client = client
        retention = {"x-max-length-bytes": max_bytes, "x-max-age": max_age}
        self._retention = {name: value for name, value in retention.items() if value is not None}
        self._is_known = False

    async def publish(
        self,
        body: Body,
        headers: Mapping[str, Any] | None = None,
        *,
        exchange: str | None = None,
        topic: str = "",
        timeout_s: float | None = None,
        resend: bool = True,
    ) -> None:
        """Add a message; it has its number, and is on disk, when this returns.

        Args:
            body: one blob, or several.
            headers: what readers' queries see.
            exchange: publish to this exchange instead, with `topic` as the routing key: to every queue and stream that
                is bound to it, as this one is after `bind`. None: to this stream alone; its name is the topic then.
            topic: the routing key.
            timeout_s: the time in which it must be stored; None: any.
            resend: send it again if the connection breaks before it is confirmed; it may be there twice then.

        Raises:
            SendTimeoutError: it was not stored in time. It may still be stored later.
            UnconfirmedError: the connection broke, and `resend` is false.
            ValueError: there is a topic without an exchange.
            ClientError: the broker refuses it.
        """
        if topic and exchange is None:
            raise ValueError("a topic needs an exchange: publish(body, exchange=..., topic=...)")
        await self.make()
        message = outgoing(body, headers)
        to = ("", self.name) if exchange is None else (exchange, topic)
        await self._client.publish(*to, message, timeout_s=timeout_s, resend=resend)

    async def count(self) -> int:
        """Return the number of messages that the stream keeps.

        Raises:
            ClientError: the broker refuses it.
        """
        await self.make()

        async def look(channel: AbstractChannel) -> int:
            return (await channel.declare_queue(self.name, passive=True)).declaration_result.message_count or 0

        return await self._client.on_channel(look)

    async def bind(self, exchange: str, key: str = "#") -> None:
        """Let the stream have what is published to an exchange that exists.

        Args:
            exchange: its name.
            key: the binding key; ``#`` is all of a topic exchange.

        Raises:
            ClientError: there is no such exchange, or the broker refuses it.
        """
        await self.make()

        async def bind(channel: AbstractChannel) -> None:
            queue = await channel.get_queue(self.name, ensure=False)
            await queue.bind(exchange, key)

        await self._client.on_channel(bind)

    async def subscribe(
        self,
        query: str | Sequence[str] | None = None,
        *,
        language: str = "selector",
        query_body: QueryBody | None = None,
        query_key: str | None = None,
        start: Start = "next",
        name: str | None = None,
        credit: int | None = 100,
    ) -> AsyncGenerator[ReceivedMessage, None]:
        """Yield messages, for ever. After a broken connection it goes on behind the last message that it has yielded.

        With a `name`, the broker keeps the reader's offset, and the next loop of that name resumes there, in any
        program. A message counts as read when the next one is asked for. After a crash of the broker, some may come
        again.

        Args:
            query: which messages; several: those that satisfy any of them, each once; None: all.
            language: of the query, or of all of them.
            query_body: how the query sees the body: ``none``, ``text``, or ``json``, whose fields are properties under
                ``body.``; None: ``none``.
            query_key: instead of `query`, the key of a query in the broker's store.
            start: where to begin: ``first``, ``last``, ``next``, a number, a time, or an age such as ``1h``. A
                `name` that the broker knows begins at the offset that it keeps.
            name: of the reader, whose offset the broker keeps; one loop at a time may have it.
            credit: the number of messages that may be on their way; None: any, and none is acknowledged. A loop that is
                then slower than the stream reads what it had no room for again, if the stream has a history.

        Raises:
            ValueError: there is a `name`, whose offset needs acknowledgements, with `credit=None`.
            ClientError: the broker refuses it: the query cannot be read, `start` is none, or another reads as `name`;
                or the stream was deleted.
        """
        if credit is None and name is not None:
            raise ValueError("a reader with a name acknowledges what it has read: give it a credit")
        position: Start = start
        following = 0
        asked = {
            "x-query": query if query is None or isinstance(query, str) else list(query),
            "x-query-language": None if query is None else language,
            "x-query-body": query_body,
            "x-query-key": query_key,
            "x-stream-reader": name,
        }
        given = {argument: value for argument, value in asked.items() if value is not None}

        def arguments() -> dict[str, Any]:
            return {"x-stream-offset": position, **given}

        source = Source(self.name, credit, arguments=arguments, prepare=self.make)
        async for message in receive(self._client, source):
            if (message.number or 0) >= following:  # else its offset in the broker was behind
                position = following = (message.number or 0) + 1
                yield message

    async def make(self) -> None:
        """Make the stream, unless there is one.

        Raises:
            ClientError: there is a queue of that name that is no stream, or it may not be made.
        """
        if not self._is_known:
            if not await self._client.on_channel(self._exists):
                await self._client.on_channel(self._declare)
            self._is_known = True

    async def _declare(self, channel: AbstractChannel) -> None:
        await channel.declare_queue(self.name, durable=True, arguments={"x-queue-type": "stream", **self._retention})

    async def _exists(self, channel: AbstractChannel) -> bool:
        try:
            await channel.declare_queue(self.name, passive=True)
        except ChannelNotFoundEntity:
            return False
        return True
