"""Passwords as argon2id hashes. Slow on purpose: 20 to 30 ms and 19 MiB each; never call it on the event loop.

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
"""144 bits: nobody guesses that, and it is 24 characters to copy."""


def hash_password(password: bytes) -> str:
    """The hash to keep, with its parameters and a salt of its own in it."""
    return _hasher().hash(password)


def is_right(kept: str | None, password: bytes) -> bool:
    """Whether `password` is the one that `kept` was made of.

    Args:
        kept: None for a user that is not there or has no password; that takes as long and is never right, so that
            time does not tell which users there are.
    """
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        _hasher().verify(kept if kept is not None else _nobodys(), password)
    except (VerificationError, InvalidHashError):
        return False
    return kept is not None


def is_hash(text: str) -> bool:
    """Whether `text` is an argon2id hash that can be verified at a bounded cost."""
    found = _HASH.fullmatch(text)
    if not found:
        return False
    memory_kib, time_cost, lanes = map(int, found.groups())
    return memory_kib <= _MEMORY_KIB_MAX and time_cost <= _TIME_COST_MAX and lanes <= _LANES_MAX


def generated() -> str:
    """A password that nobody has chosen."""
    return secrets.token_urlsafe(GENERATED_BYTES)


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=TIME_COST, memory_cost=MEMORY_KIB, parallelism=LANES)


@cache
def _nobodys() -> str:
    return hash_password(secrets.token_bytes(16))
