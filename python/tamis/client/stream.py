"""Streams: numbered messages that stay, for readers that start where they like and resume where they were."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from aio_pika.exceptions import ChannelClosed, ChannelNotFoundEntity

from tamis.client.errors import ClientError
from tamis.client.message import Body, ReceivedMessage, outgoing
from tamis.client.receiving import receive

if TYPE_CHECKING:
    from tamis.client.client import Client

Start = str | int | datetime
"""``first``, ``last``, ``next``, a message's number, a time, or an age such as ``1h``."""


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

    async def publish(self, body: Body, headers: Mapping[str, Any] | None = None) -> None:
        """Add a message; it has its number, and is on disk, when this returns.

        Args:
            body: one blob, or several.
            headers: what readers' queries see.

        Raises:
            ClientError: the broker refuses it.
        """
        await self.make()
        await self._client.publish("", self.name, outgoing(body, headers))

    async def subscribe(
        self,
        query: str | None = None,
        *,
        language: str = "selector",
        start: Start = "next",
        name: str | None = None,
        credit: int = 100,
    ) -> AsyncGenerator[ReceivedMessage, None]:
        """Yield messages, for ever. After a broken connection it goes on behind the last message that it has yielded.

        With a `name`, the broker keeps the reader's offset, and the next loop of that name resumes there, in any
        program. A message counts as read when the next one is asked for. After a crash of the broker, some may come
        again.

        Args:
            query: which messages; None: all.
            language: of the query.
            start: where to begin: ``first``, ``last``, ``next``, a number, a time, or an age such as ``1h``. A
                `name` that the broker knows begins at the offset that it keeps.
            name: of the reader, whose offset the broker keeps; one loop at a time may have it.
            credit: the number of messages that may be on their way.

        Raises:
            ClientError: the broker refuses it: the query cannot be read, `start` is none, or another reads as `name`.
        """
        position: Start = start
        following = 0

        def arguments() -> dict[str, Any]:
            asked = {} if query is None else {"x-query": query, "x-query-language": language}
            if name is not None:
                asked["x-stream-reader"] = name
            return {"x-stream-offset": position, **asked}

        async for message in receive(self._client, self.name, credit, arguments, self.make):
            if (message.number or 0) >= following:  # else its offset in the broker was behind
                position = following = (message.number or 0) + 1
                yield message

    async def make(self) -> None:
        """Make the stream, unless there is one.

        Raises:
            ClientError: there is a queue of that name that is no stream, or it may not be made.
        """
        if self._is_known:
            return
        if not await self._exists():
            channel = await self._client.channel()
            try:
                await channel.declare_queue(
                    self.name, durable=True, arguments={"x-queue-type": "stream", **self._retention}
                )
            except ChannelClosed as error:
                raise ClientError(str(error)) from error
            finally:
                with suppress(ChannelClosed):
                    await channel.close()
        self._is_known = True

    async def _exists(self) -> bool:
        channel = await self._client.channel()
        try:
            await channel.declare_queue(self.name, passive=True)
        except ChannelNotFoundEntity:
            return False
        except ChannelClosed as error:
            raise ClientError(str(error)) from error
        with suppress(ChannelClosed):
            await channel.close()
        return True
