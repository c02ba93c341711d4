"""Verifies passwords in a few threads, so that wrong logins do not hold up right ones.

There are two lines. An address with a recent failure waits in the second, which never has all threads, and only gets
one when the first line is empty or another thread is free. In each line, addresses take turns. Both lines are bounded:
per address, and in all."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from tamis.broker import system
from tamis.broker.login.backoff import Backoff
from tamis.broker.login.password_verifier import PasswordVerifier

WAITING_MAX = 1000
"""Maximum number of logins that wait in each line; further ones are refused."""
WAITING_PER_ADDRESS_MAX = 250
"""Maximum number of logins of one address that wait in a line: a client may begin many connections at once."""
PASSWORD_THREADS = 2
"""Number of threads; argon2 takes 19 MiB and about 25 ms per password."""
THREADS_AFTER_FAILURE = PASSWORD_THREADS - 1
"""Maximum number of threads that verify logins from addresses with a recent failure."""


@dataclass(frozen=True)
class _Request:
    password_hash: str | None
    password: bytes
    is_wanted: Callable[[], bool]
    answer: Callable[[bool], None]
    has_failed: bool


class PasswordQueue:
    """Verifies passwords for one event loop at a time.

    Args:
        backoff: knows which addresses have failed.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._verifier = PasswordVerifier()
        self._new, self._failed = _Line(), _Line()
        self._running_count = self._failed_running_count = 0
        self._threads = ThreadPoolExecutor(PASSWORD_THREADS, "password", initializer=system.be_nice)

    def is_known(self, password_hash: str | None, password: bytes) -> bool:
        """Return whether `password` is remembered as right, as `PasswordVerifier.is_known` does."""
        return self._verifier.is_known(password_hash, password)

    def submit(
        self,
        address: str,
        password_hash: str | None,
        password: bytes,
        is_wanted: Callable[[], bool],
        answer: Callable[[bool], None],
    ) -> bool:
        """Verify a password as soon as it is its turn; return False, and do nothing, if too many wait already.

        Args:
            address: the client's.
            password_hash: None for a user that does not exist.
            is_wanted: asked before the verification; False: the client has left, so that there is nothing to do.
            answer: called on the event loop with the verdict.
        """
        has_failed = self._backoff.has_failed(address, asyncio.get_running_loop().time())
        line = self._failed if has_failed else self._new
        request = _Request(password_hash, password, is_wanted, answer, has_failed)
        if not self._backoff.may_try(address) or not line.push(address, request):
            return False
        self._start()
        return True

    def close(self, wait: bool) -> None:
        """End the threads; with `wait`, after the passwords that they verify now."""
        self._new, self._failed = _Line(), _Line()
        self._threads.shutdown(wait=wait, cancel_futures=True)

    def _start(self) -> None:
        """Give free threads their next passwords."""
        while self._running_count < PASSWORD_THREADS and (request := self._next()):
            if not request.is_wanted():
                continue
            if self._verifier.is_known(request.password_hash, request.password):  # another login has shown it
                request.answer(True)
                continue
            self._count(request, 1)
            verdict = self._threads.submit(self._verifier.is_right, request.password_hash, request.password)
            verdict.add_done_callback(self._tell(request))

    def _next(self) -> _Request | None:
        request = self._new.pop()
        if request is None and self._failed_running_count < THREADS_AFTER_FAILURE:
            request = self._failed.pop()
        return request

    def _tell(self, request: _Request) -> Callable[[Future[bool]], None]:
        """Return what a thread calls when it has a verdict."""
        loop = asyncio.get_running_loop()

        def tell(verdict: Future[bool]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._verified, request, verdict)

        return tell

    def _verified(self, request: _Request, verdict: Future[bool]) -> None:
        self._count(request, -1)
        request.answer(not verdict.cancelled() and verdict.exception() is None and verdict.result())
        if not verdict.cancelled():
            self._start()

    def _count(self, request: _Request, change: int) -> None:
        self._running_count += change
        if request.has_failed:
            self._failed_running_count += change


class _Line:
    """Requests that wait, by address; the addresses take turns."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, deque[_Request]] = OrderedDict()
        self._count = 0

    def push(self, address: str, request: _Request) -> bool:
        """Add a request, and return whether there was room."""
        waiting = self._addresses.get(address, ())
        if self._count >= WAITING_MAX or len(waiting) >= WAITING_PER_ADDRESS_MAX:
            return False
        self._addresses.setdefault(address, deque()).append(request)
        self._count += 1
        return True

    def pop(self) -> _Request | None:
        """Take the next request; its address is the last to be served again."""
        if not self._addresses:
            return None
        address, waiting = self._addresses.popitem(last=False)
        request = waiting.popleft()
        self._count -= 1
        if waiting:
            self._addresses[address] = waiting
        return request
