"""The errors of the client: each says what the broker or the network did."""

from __future__ import annotations

import asyncio

from aio_pika.exceptions import AMQPError, ChannelClosed, ConnectionClosed
from pamqp import commands

from tamis.errors import TamisError

LOST = (AMQPError, ConnectionError, asyncio.TimeoutError, OSError, RuntimeError)
"""The errors of aio-pika for a closed connection or channel."""
RETRY_S_MIN, RETRY_S_MAX = 0.1, 5.0
"""The first wait before another attempt, and the longest; each is twice the one before."""
CONNECTION_FORCED = "CONNECTION_FORCED"
"""The reply with which a broker that stops closes connections."""


class ClientError(TamisError):
    """The broker refuses what was asked, or cannot be reached; the text has its reason."""


class IdentityTakenError(ClientError):
    """Another client has this client's identity: it was there before, or has taken over."""


class ReplyTimeoutError(ClientError, TimeoutError):
    """No worker has replied in time."""


class SendTimeoutError(ClientError, TimeoutError):
    """A message was not stored in time: there is no connection, or no room. It may still be stored later."""


class UnroutableError(ClientError):
    """No queue takes a message, so it is stored nowhere."""


class UnconfirmedError(ClientError):
    """The connection broke before a message was confirmed that is not to be sent again: it is stored, or it is not."""


TAKEN_OVER = "has taken over the identity"
_TAKEN = ("is in use by a client", TAKEN_OVER)


def client_error(error: BaseException) -> ClientError:
    """Return what the broker or the network did, as an error of the client."""
    text = _refusal(error) or str(error) or type(error).__name__
    return (IdentityTakenError if any(words in text for words in _TAKEN) else ClientError)(text)


def is_refusal(error: BaseException) -> bool:
    """Whether the broker has closed a channel or a connection because of what it was sent: it would do so again."""
    if isinstance(error, ConnectionClosed):  # a broken one has no reason
        has_reason = any(isinstance(part, str) and part for part in error.args) and error.args[0] != 0
        return has_reason and CONNECTION_FORCED not in str(error)
    return isinstance(error, ChannelClosed)


def _refusal(error: BaseException | None) -> str:
    """Return why the broker has closed a connection that was being opened.

    aiormq says only that the frame was not the expected one; the frame itself is where the error was raised. It raises
    the same error again and again, so that an error may come before itself in the chain of causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        trace = error.__traceback__
        while trace is not None:
            frame = trace.tb_frame.f_locals.get("frame")
            if isinstance(frame, commands.Connection.Close):
                return str(frame.reply_text)
            trace = trace.tb_next
        error = error.__cause__ or error.__context__
    return ""
