"""Receives from a queue, through broken connections: each message is acknowledged when the next one is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aio_pika.exceptions import ChannelClosed

from tamis.client.errors import LOST, ClientError
from tamis.client.message import ReceivedMessage, received

if TYPE_CHECKING:
    from tamis.client.client import Client

Arguments = Callable[[], dict[str, Any]]
"""Returns the arguments of the consumer; called again for each connection."""


async def receive(
    client: Client,
    queue: str,
    credit: int | None,
    arguments: Arguments = dict,
    prepare: Callable[[], Awaitable[None]] | None = None,
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield the messages of a queue, for ever.

    Args:
        client: the connection.
        queue: the name of the queue.
        credit: the number of messages that may be on their way.
        arguments: of the consumer.
        prepare: called before the queue is consumed from.

    Raises:
        ClientError: the broker refuses it.
    """
    while True:
        if prepare is not None:
            await prepare()
        async for message in _receive_once(client, queue, credit, arguments()):
            yield message


async def _receive_once(
    client: Client, name: str, credit: int | None, arguments: dict[str, Any]
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield the messages that come before the channel closes."""
    channel = await client.channel(credit)
    arrived: asyncio.Queue[Any] = asyncio.Queue()
    closed: list[BaseException | None] = []

    def close(_: Any, error: BaseException | None) -> None:
        closed.append(error)
        arrived.put_nowait(None)

    channel.close_callbacks.add(close)
    try:
        queue = await channel.get_queue(name, ensure=False)
        try:
            await queue.consume(arrived.put, arguments=arguments)
        except ChannelClosed as error:
            raise ClientError(str(error)) from error
        except LOST:
            return
        # What has arrived and was not yielded before the channel closed comes again.
        while (incoming := await arrived.get()) is not None and not closed:
            message = received(incoming, client)
            yield message
            with suppress(*LOST):  # then it comes again
                await message.ack()
        if closed and isinstance(closed[0], ChannelClosed):
            raise ClientError(str(closed[0]))
    finally:
        with suppress(*LOST):
            await channel.close()
