"""The answers of SASL mechanisms that carry a name and a password. Pure.

Source: RFC 4616 (PLAIN); AMQP 0-9 annex for AMQPLAIN: a field table, without its length, of LOGIN and PASSWORD."""

from __future__ import annotations

USER_BYTES_MAX = 255
PASSWORD_BYTES_MAX = 1024
"""Longer ones are refused unseen: what is hashed has a bound."""


def plain(response: bytes) -> tuple[str, bytes]:
    """User and password of PLAIN: authorization identity, user and password, with a NUL between.

    Raises:
        ValueError: it is none, or it asks to act as somebody else.
    """
    parts = response.split(b"\x00")
    if len(parts) != 3:
        raise ValueError("expected PLAIN's three parts with a NUL between")
    acts_as, user, password = parts
    if acts_as not in (b"", user):
        raise ValueError("a user may act as nobody else")
    return _checked(user, password)


def amqplain(response: bytes) -> tuple[str, bytes]:
    """User and password of AMQPLAIN: a table of two long strings, which is all that any client sends.

    Raises:
        ValueError: it is something else.
    """
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(response):
        name, at = _slice(response, at, 1)
        if response[at : at + 1] != b"S":
            raise ValueError("expected long strings in AMQPLAIN's table")
        found[name], at = _slice(response, at + 1, 4)
    if set(found) != {b"LOGIN", b"PASSWORD"}:
        raise ValueError("expected LOGIN and PASSWORD in AMQPLAIN's table")
    return _checked(found[b"LOGIN"], found[b"PASSWORD"])


def _slice(data: bytes, at: int, size_width: int) -> tuple[bytes, int]:
    """The string at `at`, whose length comes first in `size_width` bytes, and where it ends."""
    start = at + size_width
    end = start + int.from_bytes(data[at:start], "big")
    if start > len(data) or end > len(data):
        raise ValueError("AMQPLAIN's table ends too soon")
    return data[start:end], end


def _checked(user: bytes, password: bytes) -> tuple[str, bytes]:
    if not 0 < len(user) <= USER_BYTES_MAX or len(password) > PASSWORD_BYTES_MAX:
        raise ValueError(f"expected a user of 1 to {USER_BYTES_MAX} bytes, a password of at most {PASSWORD_BYTES_MAX}")
    try:
        return user.decode("utf-8"), password
    except UnicodeDecodeError as error:
        raise ValueError("the user's name is not UTF-8") from error
