"""Holds the lease of the pipeline while it runs, so that no other one runs over the same store.

On one machine a locked file decides, which the system releases however a process ends; of a store on a server, a lock
of the server. The lease in the store tells who it is, and decides between machines that share the store."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from tamis.errors import StoreError, TamisError
from tamis.store import Store
from tamis.store.leases import held_by
from tamis.store.records import Poll
from tamis.store_place import ServerUrl

RENEW_S = 5.0
"""Time between two renewals, which tell that the pipeline runs, and when its adapters looked for messages."""

Polls = Callable[[], Mapping[str, Poll]]


class HeldLease:
    """The lease of this run, renewed by a thread of its own.

    Attributes:
        polls: gives what each renewal tells about the adapters.
    """

    def __init__(self, store: Store, token: str) -> None:
        self._store, self._token = store, token
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="tamis-lease", daemon=True)
        self._failure: TamisError | None = None
        self.polls: Polls = dict
        self._thread.start()

    def check(self) -> None:
        """Check that the lease is still held.

        Raises:
            TamisError: another pipeline has taken it, because this one did not renew it in time.
        """
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """Record when the adapters looked last, and give the lease back."""
        self._ended.set()
        self._thread.join()
        with suppress(StoreError):  # the error that ended the run is more important; the lease expires by itself
            if self._store.renew_lease(self._token, self.polls()):
                self._store.end_lease(self._token)

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_S):
            try:
                is_held = self._store.renew_lease(self._token, self.polls())
            except StoreError:
                continue  # a full disk or a busy store: the run meets the same, and the next renewal may succeed
            if not is_held:
                self._failure = TamisError(
                    f"{self._store.path}: another pipeline has taken over this store while this one stood still"
                )
                return


@contextmanager
def held_lease(store: Store, config: Path) -> Iterator[HeldLease]:
    """Hold the lease of a store while the block runs.

    Raises:
        StoreError: another process runs a pipeline over the store; the text names it.
        OSError: the lock beside the store cannot be written.
    """
    with _alone(store) as is_alone:
        if not is_alone:
            raise StoreError(held_by(store.path, store.lease(), datetime.now(UTC)))
        lease = HeldLease(store, store.take_lease(config).token)
        try:
            yield lease
        finally:
            lease.end()


@contextmanager
def _alone(store: Store) -> Iterator[bool]:
    """Hold the lock of the store while the block runs; False if another process holds it."""
    if isinstance(store.path, ServerUrl):
        with store.alone() as is_alone:
            yield is_alone
        return
    with store.path.with_name(f"{store.path.name}.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the lock file of a pipeline's working folder. The system releases it when this process ends.

    Raises:
        TamisError: another process holds it.
    """
    path = folder / "lock"
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TamisError(f"{path}: another run of this pipeline is using {folder}; end it first") from error
        yield
