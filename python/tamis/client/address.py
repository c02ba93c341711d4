"""Addresses such as ``tamis://host/stream/name``: a broker, and a stream, mailbox or service on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast
from urllib.parse import quote, unquote, urlsplit

Kind = Literal["stream", "mailbox", "service"]
KINDS = ("stream", "mailbox", "service")
_AMQP_PORT = 5672


@dataclass(frozen=True)
class Address:
    """A stream, mailbox or service, with the broker that has it.

    Attributes:
        broker: the broker's URL, ``amqp://...``, for `connect`.
        kind: stream, mailbox or service.
        name: its name on the broker.

    >>> Address.parse("tamis://news.example/stream/forex")
    Address(broker='amqp://news.example:5672/', kind='stream', name='forex')
    >>> str(Address.parse("tamis://ann:secret@news.example:5673/mailbox/a%20b"))
    'tamis://ann:secret@news.example:5673/mailbox/a%20b'
    """

    broker: str
    kind: Kind
    name: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address.

        Raises:
            ValueError: it is none; the text says what was expected.
        """
        expected = f"expected tamis://host/stream/name, .../mailbox/name or .../service/name, not {text!r}"
        url = urlsplit(text)
        kind, _, name = url.path.lstrip("/").partition("/")
        if url.scheme != "tamis" or not url.hostname or kind not in KINDS or not name or "/" in name:
            raise ValueError(expected)
        return cls(broker_url(text), cast(Kind, kind), unquote(name))

    def __str__(self) -> str:
        return (
            f"tamis://{urlsplit(self.broker).netloc.removesuffix(f':{_AMQP_PORT}')}/{self.kind}/{quote(self.name, '')}"
        )


def broker_url(text: str) -> str:
    """Return the URL for AMQP of a broker that ``amqp://``, ``amqps://`` or ``tamis://`` names.

    Raises:
        ValueError: it is of another kind.
    """
    url = urlsplit(text)
    if url.scheme in ("amqp", "amqps"):
        return text
    if url.scheme != "tamis" or not url.hostname:
        raise ValueError(f"expected amqp://, amqps:// or tamis:// and a host, not {text!r}")
    port = "" if url.port else f":{_AMQP_PORT}"
    return f"amqp://{url.netloc}{port}/"
