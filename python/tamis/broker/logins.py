"""Whether a login is right. Blocking, 20 to 30 ms for a password that is not known yet: call it in a thread.

A password that was right is remembered, as a hash under a key that exists in this process's memory alone, so that a
thousand connections of one user do not cost a thousand argon2 hashes. It is forgotten when the user's hash changes."""

from __future__ import annotations

import os
from collections import OrderedDict
from hashlib import blake2b
from threading import Lock

from tamis.broker import passwords

REMEMBERED_MAX = 4096
"""So many right passwords are remembered; the one longest unused makes room."""


class Logins:
    """Right logins that were seen, thread-safe."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._lock = Lock()

    def is_known(self, kept: str | None, password: bytes) -> bool:
        """Whether `password` has been found right for the hash `kept`. Cost: a few microseconds.

        A no says nothing: ask `is_right`.
        """
        if kept is None:
            return False
        mark = self._mark(kept, password)
        with self._lock:
            if mark not in self._seen:
                return False
            self._seen.move_to_end(mark)
            return True

    def is_right(self, kept: str | None, password: bytes) -> bool:
        """Whether `password` is right; takes as long for users that are not there (None)."""
        if not passwords.is_right(kept, password) or kept is None:
            return False
        with self._lock:
            self._seen[self._mark(kept, password)] = None
            while len(self._seen) > REMEMBERED_MAX:
                self._seen.popitem(last=False)
        return True

    def _mark(self, kept: str, password: bytes) -> bytes:
        hashed = blake2b(kept.encode(), key=self._key, digest_size=32)
        hashed.update(b"\x00")  # a kept hash has none, so the two cannot be mistaken for other two
        hashed.update(password)
        return hashed.digest()
