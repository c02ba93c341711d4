"""Answers the Login of every handshake: verifies passwords in threads, and delays answers to wrong ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Protocol

from tamis.broker import system
from tamis.broker.log import Log
from tamis.broker.login.backoff import Backoff
from tamis.broker.login.handshake import Login, Peer
from tamis.broker.login.password_verifier import PasswordVerifier
from tamis.broker.rules import Rules

WAITING_MAX = 1000
"""Maximum number of logins that wait for the threads; further ones are refused."""
PASSWORD_THREADS = 2


class LoginClient(Protocol):
    """A connection in its handshake."""

    peer: Peer

    def answer_login(self, mechanism: str, refusal: str) -> None:
        """Answer the handshake's Login; an empty `refusal` accepts it."""


class Logins:
    """Verifies the logins of one broker.

    Args:
        rules: have the users in force.
        log: gets logins that are refused.
    """

    def __init__(self, rules: Rules, log: Log) -> None:
        self._rules = rules
        self._log = log
        self._backoff = Backoff()
        self._verifier = PasswordVerifier()
        self._waiting_count = 0
        self._threads = ThreadPoolExecutor(PASSWORD_THREADS, "password", initializer=system.be_nice)

    def log_in(self, client: LoginClient, login: Login) -> None:
        """Verify a login, and answer it now or later."""
        address, password_hash = client.peer.address, self._rules.access.password_of(login.user)
        answer = partial(self._answer, client, login)
        if login.password is None or self._verifier.is_known(password_hash, login.password):
            answer(True)
        elif not self._backoff.may_try(address) or self._waiting_count >= WAITING_MAX:
            client.answer_login(login.mechanism, "too many wrong logins wait for their answers")
        else:
            self._waiting_count += 1
            loop = asyncio.get_running_loop()
            verdict = self._threads.submit(self._verifier.is_right, password_hash, login.password)
            verdict.add_done_callback(lambda done: loop.call_soon_threadsafe(self._verified, answer, done))

    def close(self, wait: bool) -> None:
        """End the threads; with `wait`, after the passwords that they verify now."""
        self._threads.shutdown(wait=wait, cancel_futures=True)

    def _verified(self, answer: Callable[[bool], None], verdict: Future[bool]) -> None:
        self._waiting_count -= 1
        answer(not verdict.cancelled() and verdict.exception() is None and verdict.result())

    def _answer(self, client: LoginClient, login: Login, is_right: bool) -> None:
        """Accept a right login at once; refuse a wrong one after a delay that grows with each failure."""
        refusal = "wrong password, or no such user"
        if is_right:
            refusal = self._rules.access.may_log_in(login.user, client.peer.is_local)
        if not refusal:
            client.answer_login(login.mechanism, "")
            return
        loop, address = asyncio.get_running_loop(), client.peer.address
        delay_s = self._backoff.failed(address, loop.time())
        self._log.warning("login refused", peer=address, user=login.user, reason=refusal, delay_s=round(delay_s, 3))
        loop.call_later(delay_s, self._refuse, client, login.mechanism, refusal)

    def _refuse(self, client: LoginClient, mechanism: str, refusal: str) -> None:
        self._backoff.answered(client.peer.address)
        client.answer_login(mechanism, refusal)
