"""Addresses such as ``tamis://host/stream/name``: a broker, and a stream, mailbox or service on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast
from urllib.parse import parse_qs, quote, unquote, urlsplit

Kind = Literal["stream", "mailbox", "service"]
KINDS = ("stream", "mailbox", "service")
_AMQP = {"tamis": "amqp", "tamiss": "amqps"}
"""Scheme of an address -> that of its broker; ``tamiss`` is with TLS."""
_PORTS = {"amqp": 5672, "amqps": 5671}


@dataclass(frozen=True)
class Address:
    """A stream, mailbox or service, with the broker that has it.

    Attributes:
        broker: the broker's URL, ``amqp://...`` or with TLS ``amqps://...``, for `connect`.
        kind: stream, mailbox or service.
        name: its name on the broker.

    >>> Address.parse("tamis://news.example/stream/forex")
    Address(broker='amqp://news.example:5672/', kind='stream', name='forex')
    >>> Address.parse("tamiss://news.example/service/resize?vhost=prod").broker
    'amqps://news.example:5671/prod'
    >>> str(Address.parse("tamis://ann:secret@news.example:5673/mailbox/a%20b"))
    'tamis://ann:secret@news.example:5673/mailbox/a%20b'
    """

    broker: str
    kind: Kind
    name: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address.

        Args:
            text: ``tamis://user:password@host:port/stream/name?vhost=name``, or ``/mailbox/`` or ``/service/``;
                ``tamiss://`` with TLS. Only host and name are necessary.

        Raises:
            ValueError: it is none; the text says what was expected.
        """
        expected = f"expected tamis://host/stream/name, .../mailbox/name or .../service/name, not {text!r}"
        url = urlsplit(text)
        kind, _, name = url.path.lstrip("/").partition("/")
        if url.scheme not in _AMQP or not url.hostname or kind not in KINDS or not name or "/" in name:
            raise ValueError(expected)
        return cls(broker_url(text), cast(Kind, kind), unquote(name))

    def __str__(self) -> str:
        url = urlsplit(self.broker)
        scheme = next(name for name, amqp in _AMQP.items() if amqp == url.scheme)
        vhost = f"?vhost={url.path[1:]}" if url.path[1:] else ""
        return (
            f"{scheme}://{url.netloc.removesuffix(f':{_PORTS[url.scheme]}')}/{self.kind}/{quote(self.name, '')}{vhost}"
        )


def broker_url(text: str) -> str:
    """Return the URL for AMQP of a broker that ``amqp://``, ``amqps://``, ``tamis://`` or ``tamiss://`` names.

    An address of something on a broker names the broker, too.

    Raises:
        ValueError: it is of another kind, or has something that is not known.
    """
    url = urlsplit(text)
    if url.scheme in _PORTS:
        return text
    if url.scheme not in _AMQP or not url.hostname:
        raise ValueError(f"expected amqp://, amqps://, tamis:// or tamiss:// and a host, not {text!r}")
    query = parse_qs(url.query, keep_blank_values=True)
    if url.fragment or set(query) - {"vhost"} or len(query.get("vhost", [])) > 1:
        raise ValueError(f"expected nothing but ?vhost=name behind the path, not {text!r}")
    scheme = _AMQP[url.scheme]
    port = "" if url.port else f":{_PORTS[scheme]}"
    vhost = query.get("vhost", ["/"])[0]
    return f"{scheme}://{url.netloc}{port}/{'' if vhost == '/' else quote(vhost, '')}"
