"""Authenticates HTTP requests: users of the broker with a role, by name and password (HTTP Basic, RFC 7617).

Users, hashes, back-off and roles are those of the broker."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from time import monotonic

from tamis.broker.login.backoff import Backoff
from tamis.broker.login.password_queue import PasswordQueue
from tamis.broker.users.access import Access
from tamis.broker.users.user import Limits
from tamis.broker.users.users_file import UsersFile
from tamis.errors import AccessError
from tamis.loopback import is_loopback

CREDENTIALS_BYTES_MAX = 4096
"""Maximum length of encoded credentials."""


class AuthError(Exception):
    """A request that is not permitted.

    Attributes:
        status: 401 (not authenticated), 403 (not permitted), 429 or 503 (not now).
        reason: one sentence for the client.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Authenticator:
    """Authenticates users and checks their role.

    Args:
        data_folder: the broker's data directory, with its users.
        is_local_only: whether HTTP listens on this machine only.
    """

    def __init__(self, data_folder: Path, is_local_only: bool) -> None:
        self._file = UsersFile(data_folder)
        self._is_local_only = is_local_only
        self._stamp: tuple[int, int, int] | None = None
        self._access = Access({}, (), Limits(), is_local_only)
        self._backoff = Backoff()
        self._passwords = PasswordQueue(self._backoff)

    async def authenticate(self, authorization: str | None, address: str, role: str) -> str:
        """Return the name of the user whom `authorization` authenticates and who has `role`.

        Args:
            authorization: the value of the header.
            address: the client's address; empty for this machine.

        Raises:
            AuthError: the credentials are missing or wrong, or the user has not the role.
        """
        name, password = _credentials(authorization)
        access = await asyncio.to_thread(self._read)
        password_hash = access.password_of(name)
        if not self._passwords.is_known(password_hash, password):
            await self._verify(password_hash, password, address)
        is_local = not address or is_loopback(address)
        if access.may_log_in(name, is_local):
            raise AuthError(401, "this user may not log in from here")
        if not access.has_role(name, role):
            raise AuthError(403, f"this needs a user with the role {role} or administrator")
        return name

    def _read(self) -> Access:
        """Return the users in force; a change of the file counts from the next request on."""
        stamp = self._file.stamp()
        if stamp != self._stamp:
            try:
                users = self._file.read()
            except (AccessError, OSError) as error:
                raise AuthError(503, "the users cannot be read") from error
            self._access = Access(users, (), Limits(), self._is_local_only)
            self._stamp = stamp
        return self._access

    async def _verify(self, password_hash: str | None, password: bytes, address: str) -> None:
        if not self._backoff.may_try(address):
            raise AuthError(429, "too many wrong passwords from this address: wait a few seconds")
        verdict: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def answer(is_right: bool) -> None:
            if not verdict.done():
                verdict.set_result(is_right)

        if not self._passwords.submit(address, password_hash, password, lambda: not verdict.done(), answer):
            raise AuthError(503, "too many logins at once: try again")
        if await verdict:
            return
        delay_s = self._backoff.failed(address, monotonic())
        try:
            await asyncio.sleep(delay_s)
        finally:
            self._backoff.answered(address)
        raise AuthError(401, "wrong password, or no such user")


def _credentials(authorization: str | None) -> tuple[str, bytes]:
    """Return user and password of a Basic authorization."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic" or len(encoded) > CREDENTIALS_BYTES_MAX:
        raise AuthError(401, "expected user and password (HTTP Basic)")
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        user = name.decode()
    except ValueError as error:
        raise AuthError(401, "expected user and password (HTTP Basic)") from error
    if not colon:
        raise AuthError(401, "expected user and password (HTTP Basic)")
    return user, password
