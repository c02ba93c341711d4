"""Publishes with confirms: each message on its way has a channel of its own, so that one that waits stops no other.

The broker lets a message to a full mailbox wait with its channel, and reads a connection no further only at another
frame of that channel. So a channel carries one message at a time, and is used again when that message is confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import aio_pika
from aio_pika.exceptions import DeliveryError
from aiormq.abc import DeliveredMessage

from tamis.client.errors import (
    LOST,
    RETRY_S_MIN,
    ClientError,
    SendTimeoutError,
    UnconfirmedError,
    UnroutableError,
    client_error,
    is_refusal,
)

CHANNELS_MAX = 1_024
"""Maximum number of messages of a client that are on their way; more wait in the client."""
DESTINATION_MAX = 16
"""Maximum number of messages to one exchange and routing key that are on their way: a full mailbox leaves channels to
others."""

Destination = tuple[str, str]
"""An exchange and a routing key."""
Channel = aio_pika.abc.AbstractChannel


class Publisher:
    """The channels on which a client publishes.

    Args:
        open_channel: returns a new channel, after connecting again if that is necessary, however long it takes.
    """

    def __init__(self, open_channel: Callable[[], Awaitable[Channel]]) -> None:
        self._open_channel = open_channel
        self._idle: list[Channel] = []
        self._turns = asyncio.Semaphore(CHANNELS_MAX)
        self._destinations: dict[Destination, _Turns] = {}
        self._sending: set[asyncio.Task[Any]] = set()

    async def publish(
        self, to: Destination, message: aio_pika.Message, timeout_s: float | None, *, resend: bool = True
    ) -> None:
        """Publish a message; it is stored when this returns. It waits while there is no connection, or no room.

        A message whose connection broke before it was confirmed is sent again, with the same `message_id`. One that was
        sent before the time-out may still be stored afterwards.

        Raises:
            SendTimeoutError: it was not confirmed within `timeout_s`.
            UnconfirmedError: the connection broke, and `resend` is false.
            UnroutableError: no queue takes it.
            ClientError: the broker refuses it.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not await self._publish_once(to, message):
                    if not resend:
                        raise UnconfirmedError(f"the connection broke: exchange '{to[0]}', key '{to[1]}'")
                    await asyncio.sleep(RETRY_S_MIN)
        except TimeoutError as error:
            raise SendTimeoutError(f"not stored in {timeout_s} s: exchange '{to[0]}', key '{to[1]}'") from error

    async def _publish_once(self, to: Destination, message: aio_pika.Message) -> bool:
        """Publish a message; return whether it was confirmed, or is to be sent again on another connection."""
        sending = await self._begin(to, message)
        try:
            # A caller who gives up leaves the message where it is, and its channel in use until it is confirmed.
            await asyncio.shield(sending)
        except DeliveryError as error:
            where = f"exchange '{to[0]}', key '{to[1]}'"
            if isinstance(error.message, DeliveredMessage):
                raise UnroutableError(f"no queue takes the message: {where}") from error
            raise ClientError(f"the broker refuses the message: {where}") from error
        except LOST as error:
            if is_refusal(error):
                raise client_error(error) from error
            return False
        return True

    async def _begin(self, to: Destination, message: aio_pika.Message) -> asyncio.Task[Any]:
        """Wait for a turn and a channel, and begin to send; both are free again when the task is done."""
        with ExitStack() as stack:
            turns = self._enter(to)
            stack.callback(self._leave, to)
            for turn in (turns.free, self._turns):
                await turn.acquire()
                stack.callback(turn.release)
            channel = await self._take()
            stack.callback(self._give_back, channel)
            sending = asyncio.create_task(_send(channel, to, message))
            resources = stack.pop_all()

        def end(sending: asyncio.Task[Any]) -> None:
            self._sending.discard(sending)
            if not sending.cancelled():
                sending.exception()  # or asyncio reports one that nobody waits for any more
            resources.close()

        self._sending.add(sending)
        sending.add_done_callback(end)
        return sending

    def _enter(self, to: Destination) -> _Turns:
        turns = self._destinations.setdefault(to, _Turns())
        turns.users_count += 1
        return turns

    def _leave(self, to: Destination) -> None:
        self._destinations[to].users_count -= 1
        if self._destinations[to].users_count == 0:
            del self._destinations[to]

    async def _take(self) -> Channel:
        while self._idle:
            if not (channel := self._idle.pop()).is_closed:
                return channel
        return await self._open_channel()

    def _give_back(self, channel: Channel) -> None:
        if not channel.is_closed:
            self._idle.append(channel)


class _Turns:
    """The turns of the messages to one destination, and how many messages want or have one."""

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(DESTINATION_MAX)
        self.users_count = 0


async def _send(channel: Channel, to: Destination, message: aio_pika.Message) -> None:
    exchange = await channel.get_exchange(to[0], ensure=False)
    await exchange.publish(message, to[1])
