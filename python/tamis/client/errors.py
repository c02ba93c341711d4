"""The errors of the client: each says what the broker or the network did."""

from __future__ import annotations

import asyncio

from aio_pika.exceptions import AMQPError

from tamis.errors import TamisError

LOST = (AMQPError, ConnectionError, asyncio.TimeoutError, OSError, RuntimeError)
"""The errors of aio-pika for a closed connection or channel."""


class ClientError(TamisError):
    """The broker refuses what was asked, or cannot be reached; the text has its reason."""


class IdentityTakenError(ClientError):
    """Another client has this client's identity: it was there before, or has taken over."""


class ReplyTimeoutError(ClientError, TimeoutError):
    """No worker has replied in time."""
