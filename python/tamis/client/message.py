"""Messages as they are sent and received: bodies of one or several parts, headers, and who sent them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeGuard
from uuid import uuid4

import aio_pika

from tamis.client.errors import UnroutableError

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
        sender: of a mailbox or service, the identity of the sender, which the broker has checked; None for a sender
            without one, and for a message that came another way.
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
        """The parts of the body, in their order. A body without parts, or with sizes that are not its own, is one."""
        sizes = self.headers.get(PARTS)
        if not _are_sizes(sizes, len(self.body)):
            return [self.body]
        ends = accumulate(sizes)
        return [self.body[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    async def ack(self) -> None:
        """Acknowledge it: the broker removes it. A loop over messages does so when it asks for the next one."""
        if not self._incoming.processed:
            await self._incoming.ack()

    async def reject(self, *, requeue: bool = False) -> None:
        """Give it back for another receiver (`requeue`), or drop it."""
        if not self._incoming.processed:
            await self._incoming.reject(requeue=requeue)

    async def reply(self, body: Body, headers: Mapping[str, Any] | None = None, *, more: bool = False) -> bool:
        """Send a reply, and return whether it is stored: not where none is wanted, or where the requester has left.

        A requester of `Service.send` has a mailbox, which keeps its replies. One of `Service.request` has a queue that
        goes with its connection. If it connects again, it makes the request again.

        Args:
            body: the reply.
            headers: its headers.
            more: whether further replies follow.

        Raises:
            ClientError: the broker refuses it.
        """
        if not self.reply_to or self._client is None:
            return False
        fields = {**(headers or {}), **({MORE: True} if more else {})}
        message = outgoing(body, fields, correlation_id=self.correlation_id)
        try:
            await self._client.publish("", self.reply_to, message)
        except UnroutableError:
            return False
        return True


def _are_sizes(sizes: Any, total: int) -> TypeGuard[list[int]]:
    """Whether these can be the sizes of a body's parts: any client may write the header."""
    return isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes) and sum(sizes) == total


def received(incoming: Any, client: Client, *, is_addressed: bool) -> ReceivedMessage:
    """Return what aio-pika has received.

    Args:
        incoming: the message.
        client: the connection, for replies.
        is_addressed: whether it was read from a mailbox or a service, into which the broker writes the sender.
    """
    headers = dict(incoming.headers or {})
    sender = headers.pop(SENDER, None)
    return ReceivedMessage(
        body=bytes(incoming.body),
        sender=sender if is_addressed and isinstance(sender, str) else None,
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
