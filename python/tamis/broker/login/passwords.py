"""Hashes passwords with argon2id.

Slow on purpose, 20 to 30 ms and 19 MiB each: never call it on the event loop.

Source: RFC 9106; OWASP's parameters for servers with little memory (t=2, m=19 MiB, p=1)."""

from __future__ import annotations

import re
import secrets
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argon2 import PasswordHasher

TIME_COST, MEMORY_KIB, LANES = 2, 19 * 1024, 1
_MEMORY_KIB_MAX, _TIME_COST_MAX, _LANES_MAX = 256 * 1024, 16, 16
_HASH = re.compile(
    r"\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=(\d{1,3})\$[A-Za-z0-9+/]{11,88}\$[A-Za-z0-9+/]{16,128}"
)
GENERATED_BYTES = 18
"""Length of generated passwords: 144 bits cannot be guessed, and are 24 characters to copy."""


def hash_password(password: bytes) -> str:
    """Return the hash to keep; it contains its parameters and its salt."""
    return _hasher().hash(password)


def is_right(password_hash: str | None, password: bytes) -> bool:
    """Return whether `password_hash` is a hash of `password`.

    Args:
        password_hash: None for a user that does not exist or has no password: the answer is False and takes as long,
            so that its time does not reveal which users exist.
    """
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        _hasher().verify(password_hash if password_hash is not None else _unknown_hash(), password)
    except (VerificationError, InvalidHashError):
        return False
    return password_hash is not None


def is_hash(text: str) -> bool:
    """Return whether `text` is an argon2id hash that can be verified at a bounded cost."""
    parameters = _HASH.fullmatch(text)
    if not parameters:
        return False
    memory_kib, time_cost, lanes = map(int, parameters.groups())
    return memory_kib <= _MEMORY_KIB_MAX and time_cost <= _TIME_COST_MAX and lanes <= _LANES_MAX


def generated() -> str:
    """Return a new random password."""
    return secrets.token_urlsafe(GENERATED_BYTES)


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=TIME_COST, memory_cost=MEMORY_KIB, parallelism=LANES)


@cache
def _unknown_hash() -> str:
    return hash_password(secrets.token_bytes(16))
