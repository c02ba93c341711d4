"""Watches the users file, and reads it in a thread when it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from tamis.broker.config import BrokerConfig
from tamis.broker.log import Log
from tamis.broker.users.access import Access
from tamis.broker.users.user import Limits
from tamis.broker.users.users_file import UsersFile
from tamis.errors import AccessError

NAMES_MAX = 100
"""Maximum number of changed users that the log names."""


class UsersChange(NamedTuple):
    """Other users.

    Attributes:
        access: the users from now on.
        users: the names of those that are new, removed or different.
        names: the first of them in their order, for the log.
    """

    access: Access
    users: frozenset[str]
    names: list[str]


class UsersWatch:
    """Reads the users at the start and after every change.

    Args:
        file: the users.
        config: virtual hosts, and limits for users without their own.
        log: gets changes, and files that cannot be read.

    Attributes:
        initial: the users at the start.
    """

    def __init__(self, file: UsersFile, config: BrokerConfig, log: Log) -> None:
        self._file = file
        self._config = config
        self._log = log
        self._stamp = file.stamp()
        self._is_reading = False
        self.initial = self._current = self._read()

    def check(self, on_change: Callable[[UsersChange], None]) -> None:
        """Read the file if it has changed."""
        if self._file.stamp() != self._stamp:
            self.reload(on_change)

    def reload(self, on_change: Callable[[UsersChange], None]) -> None:
        """Read the file in a thread, because it may be large.

        Args:
            on_change: puts the users into force.
        """
        if self._is_reading:
            return
        self._is_reading = True
        self._stamp = self._file.stamp()
        reading = asyncio.get_running_loop().run_in_executor(None, self._changed)
        reading.add_done_callback(lambda done: self._done(done, on_change))

    def _read(self) -> Access:
        limits = self._config.limits
        defaults = Limits(connections=limits.connections_per_user, queues=limits.queues_per_user)
        return Access(self._file.read(), self._config.vhosts, defaults, self._config.is_local_only)

    def _changed(self) -> UsersChange:
        """Return what has changed. There may be many users: all of them are compared here, in a thread."""
        access = self._read()
        users = access.changed_users(self._current)
        return UsersChange(access, users, sorted(users)[:NAMES_MAX])

    def _done(self, reading: asyncio.Future[UsersChange], on_change: Callable[[UsersChange], None]) -> None:
        self._is_reading = False
        if reading.cancelled():
            return
        if error := reading.exception():
            if not isinstance(error, (AccessError, OSError)):
                raise error
            self._log.error("users not changed", reason=str(error))
            return
        change = reading.result()
        self._current = change.access
        on_change(change)
        self._log.info("users changed", count=len(change.users), users=change.names)
