"""Stores who runs a pipeline over the store: a lease that the runner renews, so that nobody else runs one."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection, select, update

from tamis.errors import StoreError
from tamis.store.database import Database
from tamis.store.dialect import insert_or_update
from tamis.store.models import adapters, leases
from tamis.store.records import Lease, Poll
from tamis.store_place import Place

LEASE_S = 60.0
"""The time after which a lease ends unless it is renewed: longer than a large batch can hold the store."""

_NAME = "pipeline"  # one pipeline at a time: two would send everything twice
_l = leases.c


class Leases(Database):
    """The part of the store that keeps the lease of the pipeline."""

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Hold the pipeline's lock of the server while the block runs; False if another process holds it.

        The server releases it when this process ends. If the connection is lost, the lease decides.
        """
        from tamis.store.postgres import PIPELINE_LOCK, try_lock, unlock

        with self._explained():
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            connection.detach()  # closing it ends the session, and with it the lock
        with connection:
            with self._explained():
                is_alone = try_lock(connection, PIPELINE_LOCK)
            try:
                yield is_alone
            finally:
                with suppress(StoreError), self._explained():  # a server that has stopped has released it
                    unlock(connection, PIPELINE_LOCK)

    def take_lease(self, config: Path, now: datetime | None = None) -> Lease:
        """Take the lease for this process. An earlier holder on this machine must have ended.

        Args:
            config: the pipeline's configuration.
            now: the time; default: the clock's.

        Raises:
            StoreError: a process on another machine has it; the text names it.
        """
        now, host = now or datetime.now(UTC), socket.gethostname()
        with self._write() as connection:
            held = _lease(connection)
            if held is not None and held.is_valid(now) and held.host != host:
                raise StoreError(held_by(self.path, held, now))
            row = {"name": _NAME, "token": uuid.uuid4().hex, "pid": os.getpid(), "host": host}
            row |= {"config": str(config.resolve()), "taken_at": now, "renewed_at": now}
            row |= {"expires_at": now + timedelta(seconds=LEASE_S), "ended_at": None}
            connection.execute(insert_or_update(connection, leases, row, list(row)))
            taken = _lease(connection)
        assert taken is not None  # noqa: S101 - written above; for the type checker
        return taken

    def renew_lease(self, token: str, polls: Mapping[str, Poll] | None = None) -> bool:
        """Renew the lease, and record when each adapter looked for messages; False if another process has it now.

        Args:
            token: the token of the lease.
            polls: adapter -> when it looked for messages, and when it will look again.
        """
        now = datetime.now(UTC)
        renewed = update(leases).where(_l.token == token, _l.ended_at.is_(None))
        with self._write() as connection:
            values = {"renewed_at": now, "expires_at": now + timedelta(seconds=LEASE_S)}
            if connection.execute(renewed.values(values)).rowcount != 1:
                return False
            for name, poll in (polls or {}).items():
                of_name = update(adapters).where(adapters.c.name == name)
                connection.execute(of_name.values(polled_at=poll.at, next_poll_at=poll.next_at))
        return True

    def end_lease(self, token: str) -> None:
        """Give the lease back."""
        ended = update(leases).where(_l.token == token).values(ended_at=datetime.now(UTC))
        with self._write() as connection:
            connection.execute(ended)

    def lease(self) -> Lease | None:
        """Return the lease of the pipeline that runs, or of the one that ran last; None if none ever did."""
        with self._read() as connection:
            return _lease(connection)

    def running_pipeline(self, now: datetime | None = None) -> Lease | None:
        """Return the lease of the pipeline that runs now; None if none does.

        A process that was killed counts until its lease expires, but on its own machine only while it exists.
        """
        lease = self.lease()
        return lease if lease is not None and lease.is_valid(now or datetime.now(UTC)) and _exists(lease) else None


def _lease(connection: Connection) -> Lease | None:
    columns = (_l.token, _l.pid, _l.host, _l.config, _l.taken_at, _l.renewed_at, _l.expires_at, _l.ended_at)
    row = connection.execute(select(*columns).where(_l.name == _NAME)).one_or_none()
    return None if row is None else Lease(*row)


def held_by(store: Place, held: Lease | None, now: datetime) -> str:
    """Say that another pipeline runs over `store`, which process it is, and what to do."""
    told = "Two would send everything twice: end it, or give another store"
    if held is None or held.ended_at is not None:
        return f"{store}: another pipeline runs over this store. {told}"
    since = f"since {held.taken_at:%Y-%m-%d %H:%M:%S} UTC"
    told = f"process {held.pid} on {held.host} runs {held.config} over this store {since}. {told}"
    wait_s = round((held.expires_at - now).total_seconds())
    elsewhere = held.host != socket.gethostname() and wait_s > 0
    return f"{store}: {told}" + (f"; if it was killed, its lease ends in {wait_s} s" if elsewhere else "")


def _exists(lease: Lease) -> bool:
    """Return whether the process of a lease may exist."""
    if lease.host != socket.gethostname():
        return True
    try:
        os.kill(lease.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's
    return True
