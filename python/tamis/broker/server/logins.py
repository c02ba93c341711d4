"""Answers the Login of every handshake, and delays the answers to wrong ones."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from tamis.broker.log import Log
from tamis.broker.login.backoff import Backoff
from tamis.broker.login.handshake import Login, Peer
from tamis.broker.login.password_queue import PasswordQueue
from tamis.broker.rules import Rules


class LoginClient(Protocol):
    """A connection in its handshake."""

    peer: Peer

    @property
    def awaits_login(self) -> bool:
        """Whether the client still waits for the answer to its Login."""

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
        self._passwords = PasswordQueue(self._backoff)

    def log_in(self, client: LoginClient, login: Login) -> None:
        """Verify a login, and answer it now or later."""
        address, password_hash = client.peer.address, self._rules.access.password_of(login.user)
        answer = partial(self._answer, client, login)
        if login.password is None or self._passwords.is_known(password_hash, login.password):
            answer(True)
        elif not self._passwords.submit(address, password_hash, login.password, lambda: client.awaits_login, answer):
            client.answer_login(login.mechanism, "too many logins wait for their answers")

    def close(self, wait: bool) -> None:
        """End the threads; with `wait`, after the passwords that they verify now."""
        self._passwords.close(wait)

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
        self._log.warning(
            "login refused", peer=client.peer.name, user=login.user, reason=refusal, delay_s=round(delay_s, 3)
        )
        loop.call_later(delay_s, self._refuse, client, login.mechanism, refusal)

    def _refuse(self, client: LoginClient, mechanism: str, refusal: str) -> None:
        self._backoff.answered(client.peer.address)
        client.answer_login(mechanism, refusal)
