"""Receives from a queue, through broken connections: each message is acknowledged when the next one is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aio_pika
from aio_pika.exceptions import ChannelClosed
from aiormq.exceptions import ChannelLockedResource

from tamis.client.errors import LOST, RETRY_S_MAX, RETRY_S_MIN, ClientError, client_error
from tamis.client.message import ReceivedMessage, received

if TYPE_CHECKING:
    from tamis.client.client import Client

WAITING_MAX, WAITING_BYTES_MAX = 10_000, 64 * 2**20
"""Without acknowledgement, how much may wait for the loop; at either the reading ends, and begins again behind it."""
RETRIES_S_MAX = 180.0
"""The time in which the broker finds that a connection is dead: more than two heartbeats, at which it closes it."""


@dataclass(frozen=True)
class Source:
    """What is received.

    Attributes:
        queue: the name of the queue.
        credit: the number of messages that may be on their way; None: any, and none is acknowledged.
        is_addressed: whether it is a mailbox or a service, into whose messages the broker writes the sender.
        arguments: returns the arguments of the consumer; called again for each connection.
        prepare: called before the queue is consumed from.
    """

    queue: str
    credit: int | None
    is_addressed: bool = False
    arguments: Callable[[], dict[str, Any]] = dict
    prepare: Callable[[], Awaitable[None]] | None = None


async def receive(client: Client, source: Source) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield the messages of a queue, for ever.

    After a broken connection the broker may take the earlier consumer for alive for two heartbeats: one that cannot
    have a second beside it is asked for again until then.

    Raises:
        ClientError: the broker refuses it, or the queue was deleted.
    """
    now = asyncio.get_running_loop().time
    has_read, wait_s, until_s = False, RETRY_S_MIN, 0.0
    while True:
        if source.prepare is not None:
            await source.prepare()
        try:
            async with _consuming(client, source) as arriving:
                has_read, wait_s, until_s = True, RETRY_S_MIN, 0.0
                while (incoming := await arriving.take()) is not None:
                    message = received(incoming, client, is_addressed=source.is_addressed)
                    yield message
                    with suppress(*LOST):  # then it comes again
                        await message.ack()
                arriving.check()
        except _LockedError as error:
            until_s = until_s or now() + RETRIES_S_MAX
            if not has_read or now() > until_s:
                raise ClientError(str(error)) from error
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, RETRY_S_MAX)
        except _ConnectionLostError:
            continue


@asynccontextmanager
async def _consuming(client: Client, source: Source) -> AsyncGenerator[Arriving, None]:
    """Consume from a queue on a channel of its own.

    Raises:
        ClientError: the broker refuses it.
        _LockedError: another consumer has it.
        _ConnectionLostError: the connection broke meanwhile.
    """
    channel = await client.channel(source.credit)
    arriving = Arriving(source)
    try:
        try:
            await arriving.watch(channel)
            queue = await channel.get_queue(source.queue, ensure=False)
            await queue.consume(arriving.put, no_ack=source.credit is None, arguments=source.arguments())
        except ChannelLockedResource as error:
            raise _LockedError(str(error)) from error
        except ChannelClosed as error:
            raise client_error(error) from error
        except LOST as error:
            raise _ConnectionLostError from error
        yield arriving
    finally:
        with suppress(*LOST):
            await channel.close()


@dataclass
class Arriving:
    """What has arrived on a channel and was not yielded. When the channel closes, that comes again."""

    source: Source
    waiting_bytes: int = 0
    _messages: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    _error: BaseException | None = None
    _is_over: bool = False

    async def watch(self, channel: aio_pika.abc.AbstractChannel) -> None:
        """Note when the channel closes, and when the broker ends its consumer."""
        channel.close_callbacks.add(lambda _, error: self._end(error))
        below = await channel.get_underlay_channel()
        below.on_consumer_cancel_callbacks.add(lambda _: self._end(self._cancelled()))

    async def put(self, incoming: Any) -> None:
        """Add a message; without acknowledgement, those beyond the bound are dropped here, and asked for again."""
        if self._is_over:
            return
        self._messages.put_nowait(incoming)
        self.waiting_bytes += len(incoming.body)
        is_full = self._messages.qsize() >= WAITING_MAX or self.waiting_bytes >= WAITING_BYTES_MAX
        if self.source.credit is None and is_full:
            self._is_over = True
            self._messages.put_nowait(None)
            with suppress(*LOST):
                await incoming.channel.basic_cancel(incoming.consumer_tag)

    async def take(self) -> Any:
        """Return the next message; None when there are no more on this channel."""
        incoming = await self._messages.get()
        if incoming is None or (self._is_over and self.source.credit is not None):
            return None
        self.waiting_bytes -= len(incoming.body)
        return incoming

    def check(self) -> None:
        """Raise the reason for which the broker has ended it.

        Raises:
            ClientError: it closed the channel, or the queue was deleted.
        """
        if isinstance(self._error, ClientError):
            raise self._error
        if isinstance(self._error, ChannelClosed):
            raise client_error(self._error)

    def _end(self, error: BaseException | None) -> None:
        self._error = self._error or error
        self._is_over = True
        self._messages.put_nowait(None)

    def _cancelled(self) -> ClientError:
        return ClientError(f"the broker has ended the reading of '{self.source.queue}': it was deleted")


class _LockedError(Exception):
    """Another consumer has what can be read by one alone."""


class _ConnectionLostError(Exception):
    """The connection broke before the consumer was there."""
