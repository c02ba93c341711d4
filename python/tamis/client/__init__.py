"""Streams, mailboxes and services of a tamis broker, for asyncio programs and, by `tamis.client.blocking`, for scripts.

    async with await tamis.client.connect("amqp://guest:guest@127.0.0.1/", identity="ann") as client:
        await client.mailbox("bob").send(b"hello")

It needs aio-pika (``pip install 'tamis[client]'``). Everything that it does plain pika and aio-pika can do, too."""

from tamis.client.address import Address
from tamis.client.client import Client, connect
from tamis.client.errors import (
    ClientError,
    IdentityTakenError,
    ReplyTimeoutError,
    SendTimeoutError,
    UnconfirmedError,
    UnroutableError,
)
from tamis.client.mailbox import Mailbox
from tamis.client.message import ReceivedMessage
from tamis.client.service import Service
from tamis.client.stream import Stream

__all__ = [
    "Address",
    "Client",
    "ClientError",
    "IdentityTakenError",
    "Mailbox",
    "ReceivedMessage",
    "ReplyTimeoutError",
    "SendTimeoutError",
    "Service",
    "Stream",
    "UnconfirmedError",
    "UnroutableError",
    "connect",
]
