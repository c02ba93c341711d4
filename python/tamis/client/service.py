"""Services: requests for whichever worker is ready, and their replies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import aio_pika
from aio_pika.exceptions import ChannelClosed

from tamis.client.errors import LOST, ClientError, ReplyTimeoutError, UnconfirmedError, client_error
from tamis.client.message import Body, ReceivedMessage, outgoing, received
from tamis.client.receiving import Source, receive

if TYPE_CHECKING:
    from tamis.client.client import Client

TIMEOUT_S = 60.0


class Service:
    """A service, made on demand.

    Attributes:
        name: its name.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self._client = client

    async def request(
        self, body: Body, headers: Mapping[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> ReceivedMessage:
        """Request something, and return the last reply.

        The reply is for this call alone: if the connection breaks before it has come, the request is made again, with
        the same `message_id`. `send` has replies that wait in the mailbox of a client that leaves.

        Args:
            body: one blob, or several.
            headers: its headers.
            timeout_s: the time for the request to be stored, and for each reply; the request expires then, too.

        Raises:
            ReplyTimeoutError: no reply has come in time.
            ClientError: the broker refuses it.
        """
        async with aclosing(_Replies(self._client, self.name, body, headers, timeout_s)) as replies:
            while (reply := await replies.take(is_repeatable=True)).has_more:
                pass
            return reply

    async def replies(
        self, body: Body, headers: Mapping[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> AsyncGenerator[ReceivedMessage, None]:
        """Request something, and yield every reply until the last; `timeout_s` is the time for each.

        Raises:
            ReplyTimeoutError: a reply has not come in time.
            ClientError: the broker refuses it, or the connection broke between two replies.
        """
        async with aclosing(_Replies(self._client, self.name, body, headers, timeout_s)) as replies:
            has_more = True
            while has_more:
                reply = await replies.take(is_repeatable=False)
                has_more = reply.has_more
                yield reply

    async def send(
        self,
        body: Body,
        headers: Mapping[str, Any] | None = None,
        *,
        correlation_id: str | None = None,
        expires_s: float | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Request something without waiting for it: replies come to this client's mailbox, also after it has left.

        Args:
            body: one blob, or several.
            headers: its headers.
            correlation_id: what replies repeat.
            expires_s: the time after which the request is removed if no worker has taken it.
            timeout_s: the time in which it must be stored; None: any.

        Raises:
            SendTimeoutError: it was not stored in time. It may still be stored later.
            ClientError: the broker refuses it.
        """
        message = outgoing(body, headers, correlation_id=correlation_id, expiration=expires_s)
        await self._client.publish("service", self.name, message, timeout_s=timeout_s)

    def offer(self, *, credit: int = 1) -> AsyncGenerator[ReceivedMessage, None]:
        """Work for the service: return requests, for ever. Answer each with `reply`, as often as it takes.

        The worker is ready for the next request when the loop asks for it. A request whose worker dies or hangs goes to
        another one, with `is_redelivered`.

        Args:
            credit: the number of requests that this worker may have at a time.

        Raises:
            ClientError: the broker refuses it.
        """
        return receive(self._client, Source(f"amq.service.{self.name}", credit, is_addressed=True))


class _Replies:
    """A request, and a queue for its replies that goes with its connection."""

    def __init__(
        self, client: Client, service: str, body: Body, headers: Mapping[str, Any] | None, timeout_s: float
    ) -> None:
        self._client = client
        self._service = service
        self._timeout_s = timeout_s
        self._message = outgoing(body, headers, correlation_id=uuid4().hex, expiration=timeout_s)
        self._channel: aio_pika.abc.AbstractChannel | None = None
        self._arrived: asyncio.Queue[Any] = asyncio.Queue()
        self._taken_count = 0

    async def take(self, *, is_repeatable: bool) -> ReceivedMessage:
        """Return the next reply.

        Args:
            is_repeatable: whether the request may be made again after replies to it were taken.

        Raises:
            ReplyTimeoutError: it has not come in time.
            ClientError: the broker refuses the request; or the connection broke, and it may not be made again.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    if self._channel is None:
                        await self._request()
                    if (incoming := await self._arrived.get()) is not None:
                        self._taken_count += 1
                        return received(incoming, self._client, is_addressed=False)
                    self._channel = None
                    if self._taken_count and not is_repeatable:
                        raise ClientError(
                            f"the connection broke after reply {self._taken_count} of service '{self._service}': "
                            "request again for all of them"
                        )
        except TimeoutError as error:
            reason = f"service '{self._service}' has not replied in {self._timeout_s} s"
            raise ReplyTimeoutError(reason) from error

    async def _request(self) -> None:
        """Send the request, with a new queue for its replies."""
        while self._channel is None:
            arrived: asyncio.Queue[Any] = asyncio.Queue()
            self._arrived = arrived
            self._channel = channel = await self._client.channel()
            channel.close_callbacks.add(partial(_end, arrived))
            try:
                queue = await channel.declare_queue(exclusive=True)
                await queue.consume(arrived.put, no_ack=True)
            except ChannelClosed as error:
                raise client_error(error) from error
            except LOST:
                self._channel = None
                continue
            self._message.reply_to = queue.name
            try:
                await self._client.publish("service", self._service, self._message, resend=False)
            except UnconfirmedError:  # the queue for its replies has gone, too
                self._channel = None

    async def aclose(self) -> None:
        """End it: later replies have nowhere to go."""
        if self._channel is not None:
            with suppress(*LOST):
                await self._channel.close()


def _end(arrived: asyncio.Queue[Any], *_: Any) -> None:
    arrived.put_nowait(None)
