"""Reads the responses of the SASL mechanisms PLAIN and AMQPLAIN.

Source: RFC 4616 (PLAIN); AMQP 0-9 annex for AMQPLAIN: a field table, without its length, of LOGIN and PASSWORD."""

from __future__ import annotations

USER_BYTES_MAX = 255
PASSWORD_BYTES_MAX = 1024
"""Maximum length of a password; longer ones are not hashed."""


def plain(response: bytes) -> tuple[str, bytes]:
    """Return user and password of PLAIN: authorization identity, user and password, separated by NUL.

    Raises:
        ValueError: the response is malformed, or asks to act as another user.
    """
    parts = response.split(b"\x00")
    if len(parts) != 3:
        raise ValueError("PLAIN: expected three parts separated by NUL")
    acts_as, user, password = parts
    if acts_as not in (b"", user):
        raise ValueError("PLAIN: a user may not act as another user")
    return _checked(user, password)


def amqplain(response: bytes) -> tuple[str, bytes]:
    """Return user and password of AMQPLAIN: a table of two long strings, which is all that clients send.

    Raises:
        ValueError: the response is malformed.
    """
    fields: dict[bytes, bytes] = {}
    at = 0
    while at < len(response):
        name, at = _slice(response, at, 1)
        if response[at : at + 1] != b"S":
            raise ValueError("AMQPLAIN: expected long strings in the table")
        fields[name], at = _slice(response, at + 1, 4)
    if set(fields) != {b"LOGIN", b"PASSWORD"}:
        raise ValueError("AMQPLAIN: expected LOGIN and PASSWORD in the table")
    return _checked(fields[b"LOGIN"], fields[b"PASSWORD"])


def _slice(data: bytes, at: int, size_width: int) -> tuple[bytes, int]:
    """Return the string at `at`, which begins with its length in `size_width` bytes, and its end."""
    start = at + size_width
    end = start + int.from_bytes(data[at:start], "big")
    if start > len(data) or end > len(data):
        raise ValueError("AMQPLAIN: the table is incomplete")
    return data[start:end], end


def _checked(user: bytes, password: bytes) -> tuple[str, bytes]:
    if not 0 < len(user) <= USER_BYTES_MAX or len(password) > PASSWORD_BYTES_MAX:
        raise ValueError(f"expected a user of 1 to {USER_BYTES_MAX} bytes, a password of at most {PASSWORD_BYTES_MAX}")
    try:
        return user.decode("utf-8"), password
    except UnicodeDecodeError as error:
        raise ValueError("the name of the user is not UTF-8") from error
