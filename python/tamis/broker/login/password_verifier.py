"""Verifies passwords and remembers the right ones.

Verifying an unknown password blocks for 20 to 30 ms: call it in a thread. A right password is remembered as a keyed
hash, whose key exists only in the memory of this process. So a thousand connections of one user do not cost a thousand
argon2 hashes. It no longer counts when the user's hash changes."""

from __future__ import annotations

import os
from collections import OrderedDict
from hashlib import blake2b
from threading import Lock

from tamis.broker.login import passwords

REMEMBERED_MAX = 4096
"""Maximum number of right passwords that are remembered; the least recently used one makes room."""


class PasswordVerifier:
    """Verifies passwords. Thread-safe."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._lock = Lock()

    def is_known(self, password_hash: str | None, password: bytes) -> bool:
        """Return whether `password` is remembered as right for `password_hash`. Cost: a few microseconds.

        False means unknown: ask `is_right`.
        """
        if password_hash is None:
            return False
        digest = self._digest(password_hash, password)
        with self._lock:
            if digest not in self._known:
                return False
            self._known.move_to_end(digest)
            return True

    def is_right(self, password_hash: str | None, password: bytes) -> bool:
        """Return whether `password` is right, and remember it if so. Unknown users (None) take as long."""
        if not passwords.is_right(password_hash, password) or password_hash is None:
            return False
        with self._lock:
            self._known[self._digest(password_hash, password)] = None
            while len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)
        return True

    def _digest(self, password_hash: str, password: bytes) -> bytes:
        hashed = blake2b(password_hash.encode(), key=self._key, digest_size=32)
        hashed.update(b"\x00")  # hashes have no NUL, so no other pair gives the same bytes
        hashed.update(password)
        return hashed.digest()
