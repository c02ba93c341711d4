"""Services: requests for whichever worker is ready, and their replies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tamis.client.errors import ReplyTimeoutError
from tamis.client.message import Body, ReceivedMessage, outgoing, received
from tamis.client.receiving import receive

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

        The reply is for this call alone. `send` has replies that wait in the mailbox of a client that leaves.

        Args:
            body: one blob, or several.
            headers: its headers.
            timeout_s: the time for the reply; the request expires then, too.

        Raises:
            ReplyTimeoutError: no reply has come in time.
            ClientError: the broker refuses it.
        """
        async for reply in self.replies(body, headers, timeout_s=timeout_s):
            last = reply
        return last

    async def replies(
        self, body: Body, headers: Mapping[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> AsyncGenerator[ReceivedMessage, None]:
        """Request something, and yield every reply until the last; `timeout_s` is the time for each.

        Raises:
            ReplyTimeoutError: a reply has not come in time.
            ClientError: the broker refuses it.
        """
        channel = await self._client.channel()
        try:
            queue = await channel.declare_queue(exclusive=True)
            arrived: asyncio.Queue[Any] = asyncio.Queue()
            await queue.consume(arrived.put, no_ack=True)
            options = {"correlation_id": uuid4().hex, "reply_to": queue.name, "expiration": timeout_s}
            await self._client.publish("service", self.name, outgoing(body, headers, **options))
            while True:
                try:
                    incoming = await asyncio.wait_for(arrived.get(), timeout_s)
                except TimeoutError as error:
                    raise ReplyTimeoutError(f"service '{self.name}' has not replied in {timeout_s} s") from error
                reply = received(incoming, self._client)
                yield reply
                if not reply.has_more:
                    return
        finally:
            await channel.close()

    async def send(
        self,
        body: Body,
        headers: Mapping[str, Any] | None = None,
        *,
        correlation_id: str | None = None,
        expires_s: float | None = None,
    ) -> None:
        """Request something without waiting for it: replies come to this client's mailbox, also after it has left.

        Args:
            body: one blob, or several.
            headers: its headers.
            correlation_id: what replies repeat.
            expires_s: the time after which the request is removed if no worker has taken it.

        Raises:
            ClientError: the broker refuses it.
        """
        message = outgoing(body, headers, correlation_id=correlation_id, expiration=expires_s)
        await self._client.publish("service", self.name, message)

    def offer(self, *, credit: int = 1) -> AsyncGenerator[ReceivedMessage, None]:
        """Work for the service: return requests, for ever. Answer each with `reply`, as often as it takes.

        The worker is ready for the next request when the loop asks for it. A request whose worker dies or hangs goes to
        another one, with `is_redelivered`.

        Args:
            credit: the number of requests that this worker may have at a time.

        Raises:
            ClientError: the broker refuses it.
        """
        return receive(self._client, f"amq.service.{self.name}", credit)
