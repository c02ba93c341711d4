"""Who may look: users of the broker with the role, by name and password (HTTP Basic, RFC 7617).

The users, their hashes, the back-off and what a role means are the broker's own; only the way in is another."""

from __future__ import annotations

import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

from tamis.broker.access import Access
from tamis.broker.backoff import Backoff
from tamis.broker.config import is_loopback
from tamis.broker.logins import Logins
from tamis.broker.users import Limits, UsersFile
from tamis.errors import AccessError

CREDENTIALS_BYTES_MAX = 4096
WAITING_MAX = 100
"""So many passwords wait to be verified; further ones are refused unseen."""
PASSWORD_THREADS = 2
"""argon2 takes 19 MiB and some 25 ms each."""


class RefusedEntryError(Exception):
    """Not let in.

    Attributes:
        status: 401 (who are you?), 403 (not you), 429 or 503 (not now).
        reason: one sentence for whoever asked.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Gate:
    """Lets users in who have a role.

    Args:
        data_folder: the broker's, with its users.
        is_local_only: whether HTTP listens on this machine only.
    """

    def __init__(self, data_folder: Path, is_local_only: bool) -> None:
        self._file = UsersFile(data_folder)
        self._is_local_only = is_local_only
        self._stamp: tuple[int, int, int] | None = None
        self._access = Access({}, (), Limits(), is_local_only)
        self._logins = Logins()
        self._backoff = Backoff()
        self._waiting_count = 0
        self._threads = ThreadPoolExecutor(PASSWORD_THREADS, "password")

    async def enter(self, authorization: str | None, address: str, role: str) -> str:
        """The name of the user that `authorization` proves, who has `role`.

        Args:
            authorization: the header's value.
            address: where it comes from; empty for this machine.

        Raises:
            RefusedEntryError: it proves nothing, or the user may not.
        """
        name, password = _credentials(authorization)
        access = await asyncio.to_thread(self._read)
        kept = access.password_of(name)
        if not self._logins.is_known(kept, password):
            await self._verify(kept, password, address)
        is_local = not address or is_loopback(address)
        if access.may_log_in(name, is_local):
            raise RefusedEntryError(401, "this user may not log in from here")
        if not access.has_role(name, role):
            raise RefusedEntryError(403, f"this needs a user with the role {role} or administrator")
        return name

    def _read(self) -> Access:
        """The users in force; who was changed counts from the next request on."""
        stamp = self._file.stamp()
        if stamp != self._stamp:
            try:
                users = self._file.read()
            except (AccessError, OSError) as error:
                raise RefusedEntryError(503, "the users cannot be read") from error
            self._access = Access(users, (), Limits(), self._is_local_only)
            self._stamp = stamp
        return self._access

    async def _verify(self, kept: str | None, password: bytes, address: str) -> None:
        if not self._backoff.may_try(address):
            raise RefusedEntryError(429, "too many wrong passwords from this address: wait a few seconds")
        if self._waiting_count >= WAITING_MAX:
            raise RefusedEntryError(503, "too many logins at once: try again")
        self._waiting_count += 1
        try:
            loop = asyncio.get_running_loop()
            is_right = await loop.run_in_executor(self._threads, self._logins.is_right, kept, password)
        finally:
            self._waiting_count -= 1
        if is_right:
            return
        delay_s = self._backoff.failed(address, monotonic())
        try:
            await asyncio.sleep(delay_s)
        finally:
            self._backoff.answered(address)
        raise RefusedEntryError(401, "wrong password, or no such user")


def _credentials(authorization: str | None) -> tuple[str, bytes]:
    """User and password of a Basic authorization."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic" or len(encoded) > CREDENTIALS_BYTES_MAX:
        raise RefusedEntryError(401, "expected user and password (HTTP Basic)")
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        user = name.decode()
    except ValueError as error:
        raise RefusedEntryError(401, "expected user and password (HTTP Basic)") from error
    if not colon:
        raise RefusedEntryError(401, "expected user and password (HTTP Basic)")
    return user, password
