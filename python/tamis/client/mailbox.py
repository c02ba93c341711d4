"""Mailboxes: messages for one client, kept until it acknowledges them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from tamis.client.message import Body, ReceivedMessage, outgoing
from tamis.client.receiving import Source, receive

if TYPE_CHECKING:
    from tamis.client.client import Client


class Mailbox:
    """The mailbox of a client, made on demand.

    Attributes:
        address: the client's identity.
    """

    def __init__(self, client: Client, address: str) -> None:
        self.address = address
        self._client = client

    async def send(
        self,
        body: Body,
        headers: Mapping[str, Any] | None = None,
        *,
        correlation_id: str | None = None,
        expires_s: float | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Send a message; it is stored when this returns. While the mailbox is full, this waits, alone.

        Args:
            body: one blob, or several.
            headers: its headers.
            correlation_id: what a reply repeats.
            expires_s: the time after which it is removed if nobody has taken it.
            timeout_s: the time in which it must be stored; None: any.

        Raises:
            SendTimeoutError: it was not stored in time. It may still be stored later.
            ClientError: the broker refuses it.
        """
        message = outgoing(body, headers, correlation_id=correlation_id, expiration=expires_s)
        await self._client.publish("mailbox", self.address, message, timeout_s=timeout_s)

    def messages(self, *, credit: int = 100) -> AsyncGenerator[ReceivedMessage, None]:
        """Return the messages of this client's own mailbox, oldest first, for ever.

        A message is acknowledged when the loop asks for the next one. If the loop ends before that, it stays.

        Args:
            credit: the number of messages that may be on their way.

        Raises:
            ClientError: it is another client's mailbox, or it was deleted.
        """
        return receive(self._client, Source(f"amq.mailbox.{self.address}", credit, is_addressed=True))
