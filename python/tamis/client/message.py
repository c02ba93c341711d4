"""Messages as they are sent and received: bodies of one or several parts, headers, and who sent them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import aio_pika

if TYPE_CHECKING:
    from tamis.client.client import Client

Body = bytes | Sequence[bytes]
"""One blob, or several."""
PARTS = "x-parts"
"""The header with the sizes of a body's parts, where there are several."""
SENDER, OFFSET, MISSED, MORE = "x-sender", "x-stream-offset", "x-stream-missed", "x-more"


def outgoing(body: Body, headers: Mapping[str, Any] | None = None, **properties: Any) -> aio_pika.Message:
    """Return a persistent message with an id of its own: one that is sent twice can be recognised."""
    fields = dict(headers or {})
    if not isinstance(body, bytes):
        fields[PARTS] = [len(part) for part in body]
        body = b"".join(body)
    return aio_pika.Message(
        body,
        headers=fields,
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        message_id=uuid4().hex,
        **properties,
    )


@dataclass(frozen=True)
class ReceivedMessage:
    """A message from a stream, a mailbox or a service.

    Attributes:
        body: all of the body.
        headers: the message's own headers; the broker's are the attributes below.
        topic: the routing key with which it was published.
        sender: the identity of the sender, which the broker has checked; None for a sender without one.
        number: of a stream, the message's number, for ever.
        missed_count: of a stream, how many messages retention has removed before this one could be read.
        is_redelivered: whether it may have been received before.
        reply_to: the queue for replies; None where none is wanted.
        correlation_id: what a reply repeats.
        message_id: the sender's; the same for a message that was sent twice.
        has_more: of a reply, whether others follow.
    """

    body: bytes
    headers: Mapping[str, Any]
    topic: str
    sender: str | None = None
    number: int | None = None
    missed_count: int = 0
    is_redelivered: bool = False
    reply_to: str | None = None
    correlation_id: str | None = None
    message_id: str | None = None
    has_more: bool = False
    _incoming: Any = field(default=None, repr=False, compare=False)
    _client: Client | None = field(default=None, repr=False, compare=False)

    @property
    def parts(self) -> list[bytes]:
        """The parts of the body, in their order; a body without parts is the only one."""
        sizes = self.headers.get(PARTS)
        if not isinstance(sizes, list):
            return [self.body]
        ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
        return [self.body[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    async def ack(self) -> None:
        """Acknowledge it: the broker removes it. A loop over messages does so when it asks for the next one."""
        if not self._incoming.processed:
            await self._incoming.ack()

    async def reject(self, *, requeue: bool = False) -> None:
        """Give it back for another receiver (`requeue`), or drop it."""
        if not self._incoming.processed:
            await self._incoming.reject(requeue=requeue)

    async def reply(self, body: Body, headers: Mapping[str, Any] | None = None, *, more: bool = False) -> None:
        """Send a reply; it is stored when this returns. Without effect where no reply is wanted.

        Args:
            body: the reply.
            headers: its headers.
            more: whether further replies follow.

        Raises:
            ClientError: the broker refuses it.
        """
        if self.reply_to and self._client:
            fields = {**(headers or {}), **({MORE: True} if more else {})}
            message = outgoing(body, fields, correlation_id=self.correlation_id)
            await self._client.publish("", self.reply_to, message)


def received(incoming: Any, client: Client) -> ReceivedMessage:
    """Return what aio-pika has received."""
    headers = dict(incoming.headers or {})
    return ReceivedMessage(
        body=bytes(incoming.body),
        sender=headers.pop(SENDER, None),
        number=headers.pop(OFFSET, None),
        missed_count=headers.pop(MISSED, 0),
        has_more=bool(headers.pop(MORE, False)),
        headers=headers,
        topic=incoming.routing_key or "",
        is_redelivered=bool(incoming.redelivered),
        reply_to=incoming.reply_to,
        correlation_id=incoming.correlation_id,
        message_id=incoming.message_id,
        _incoming=incoming,
        _client=client,
    )
