"""Mailboxes, services and identities: their settings in tamis.toml, and the names that they may have.

The data plane knows queues only. A mailbox is the queue `amq.mailbox.NAME`, which the client with that identity reads.
A service is the queue `amq.service.NAME`, which workers read. Both are made on demand, and let senders wait when they
are full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from tamis.broker.limit import Limit

MAILBOX_PREFIX = "amq.mailbox."
"""The prefix of the name of a mailbox's queue; the address follows."""
SERVICE_PREFIX = "amq.service."
"""The prefix of the name of a service's queue; its name follows."""
IDENTITY_PROPERTY = "identity"
"""The client property (connection.start-ok) with which a client names its identity."""
IDENTITY_BYTES_MAX = 255 - len(MAILBOX_PREFIX)
_TIME_S_MAX = 315_360_000
_FULL = "its senders wait, and no others"
_REFUSED = "the message is refused: basic.nack with confirms, else its channel is closed with 406"


@dataclass(frozen=True)
class MailboxesConfig:
    """``[mailboxes]``: the mailboxes of clients with an identity.

    Attributes:
        durable: whether mailboxes and all messages in them survive a restart; for mailboxes that are made later.
        messages: maximum number of messages that wait in one; then senders wait.
        bytes: maximum size of the messages that wait in one; then senders wait.
        acknowledge_s: the time that an owner has to acknowledge a message; 0: no limit.
        unused_s: the time after which an unused, empty mailbox is deleted; 0: never.
        wait_s: the time that a sender waits for a full mailbox; then its message is refused. 0: no limit.
        second_client: what happens when a client comes with the identity of a connected one: it is refused, or takes
            over, and the other one is disconnected.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    durable: bool = True
    messages: Annotated[int, Gt(0), Limit("messages that wait in a mailbox", _FULL)] = 100_000
    bytes: Annotated[int, Gt(0), Limit("messages that wait in a mailbox, in bytes", _FULL, "bytes")] = 64 * 1024 * 1024
    acknowledge_s: Annotated[int, Ge(0), Le(_TIME_S_MAX)] = 0
    unused_s: Annotated[int, Ge(0), Le(_TIME_S_MAX)] = 0
    wait_s: Annotated[
        int, Ge(0), Le(_TIME_S_MAX), Limit("the time that a sender waits for a full mailbox", _REFUSED, "s")
    ] = 60
    second_client: Literal["refuse", "take_over"] = "refuse"

    def settings(self) -> dict[str, int]:
        """Return the settings by the data plane's names."""
        return _settings(self.durable, self.messages, self.bytes, self.acknowledge_s, self.unused_s, self.wait_s)


@dataclass(frozen=True)
class ServicesConfig:
    """``[services]``: the queues of requests.

    Attributes:
        durable: whether services and all requests in them survive a restart; for services that are made later.
        messages: maximum number of requests that wait in one; then requesters wait.
        bytes: maximum size of the requests that wait in one; then requesters wait.
        worker_s: the time that a worker has for a request; then its channel is closed, and the request goes to
            another worker. 0: no limit.
        unused_s: the time after which an unused, empty service is deleted; 0: never.
        wait_s: the time that a requester waits for a full service; then its request is refused. 0: no limit.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    durable: bool = True
    messages: Annotated[int, Gt(0), Limit("requests that wait in a service", _FULL)] = 100_000
    bytes: Annotated[int, Gt(0), Limit("requests that wait in a service, in bytes", _FULL, "bytes")] = 64 * 1024 * 1024
    worker_s: Annotated[
        int,
        Ge(0),
        Le(_TIME_S_MAX),
        Limit(
            "the time that a worker has for a request",
            "its channel is closed with 406, and the request goes to another worker",
            "s",
        ),
    ] = 1800
    unused_s: Annotated[int, Ge(0), Le(_TIME_S_MAX)] = 0
    wait_s: Annotated[
        int, Ge(0), Le(_TIME_S_MAX), Limit("the time that a requester waits for a full service", _REFUSED, "s")
    ] = 60

    def settings(self) -> dict[str, int]:
        """Return the settings by the data plane's names."""
        return _settings(self.durable, self.messages, self.bytes, self.worker_s, self.unused_s, self.wait_s)


def identity_of(properties: Mapping[str, Any]) -> str:
    """Return the identity that a client names in its properties; empty if it names none.

    Raises:
        ValueError: it cannot be an identity; the text says what was expected.
    """
    value = properties.get(IDENTITY_PROPERTY, "")
    identity = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if identity == "":
        return ""
    if isinstance(identity, str) and identity.isprintable() and len(identity.encode()) <= IDENTITY_BYTES_MAX:
        return identity
    raise ValueError(f"client property identity: expected printable text of at most {IDENTITY_BYTES_MAX} bytes")


def _settings(
    durable: bool, messages: int, bytes_max: int, timeout_s: int, unused_s: int, wait_s: int
) -> dict[str, int]:
    return {
        "durable": int(durable),
        "length_max": messages,
        "bytes_max": bytes_max,
        "consumer_timeout_ms": timeout_s * 1000,
        "unused_ms": unused_s * 1000,
        "wait_ms": wait_s * 1000,
    }
