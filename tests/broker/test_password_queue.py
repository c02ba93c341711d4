"""Wrong logins of many addresses do not hold up right ones, and too many of them are refused."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from io import StringIO

import pytest

from tamis.broker.log import Log
from tamis.broker.login import password_queue, passwords
from tamis.broker.login.backoff import Backoff
from tamis.broker.login.handshake import Login, Peer
from tamis.broker.login.password_queue import PasswordQueue
from tamis.broker.rules import Rules
from tamis.broker.server.logins import Logins
from tamis.broker.users.access import Access
from tamis.broker.users.user import ALL, Limits, User

RIGHT = b"right"


class Verifications:
    """What verifies passwords here: one is right, and wrong ones wait at a gate, which stands open at first."""

    def __init__(self) -> None:
        self.count = 0
        self.gate = threading.Event()
        self.gate.set()

    def is_right(self, _: str | None, password: bytes) -> bool:
        self.count += 1
        if password != RIGHT:
            self.gate.wait(60)
        return password == RIGHT


@pytest.fixture(autouse=True)
def verifications(monkeypatch: pytest.MonkeyPatch) -> Verifications:
    found = Verifications()
    monkeypatch.setattr(passwords, "is_right", found.is_right)
    return found


def run(work: Callable[[PasswordQueue, Backoff], Awaitable[None]]) -> None:
    async def with_queue() -> None:
        backoff = Backoff()
        queue = PasswordQueue(backoff)
        try:
            await work(queue, backoff)
        finally:
            queue.close(wait=True)

    asyncio.run(with_queue())


def ask(queue: PasswordQueue, address: str, password: bytes, done: list[str], is_wanted: bool = True) -> bool:
    return queue.submit(address, "hash", password, lambda: is_wanted, lambda is_right: done.append(address))


async def until(done: list[str], count: int) -> None:
    async with asyncio.timeout(60):
        while len(done) < count:
            await asyncio.sleep(0.001)


def test_addresses_that_have_failed_wait_behind_the_others(verifications: Verifications) -> None:
    verifications.gate.clear()

    async def work(queue: PasswordQueue, backoff: Backoff) -> None:
        now_s = asyncio.get_running_loop().time()
        bad = [f"192.0.2.{number}" for number in range(200)]
        for address in bad:
            backoff.failed(address, now_s)
            backoff.answered(address)
        done: list[str] = []
        assert all(ask(queue, address, b"wrong", done) for address in bad)
        assert ask(queue, "198.51.100.1", RIGHT, done)
        await until(done, 1)
        assert done == ["198.51.100.1"]
        assert verifications.count == 2, "one thread is held up by a wrong password, the other never takes one"
        verifications.gate.set()
        await until(done, 201)

    try:
        run(work)
    finally:
        verifications.gate.set()


def test_without_failures_a_login_waits_for_its_turn() -> None:
    async def work(queue: PasswordQueue, _: Backoff) -> None:
        done: list[str] = []
        assert all(ask(queue, f"192.0.2.{number}", b"wrong", done) for number in range(50))
        assert ask(queue, "198.51.100.1", b"wrong", done)
        await until(done, 51)
        assert done.index("198.51.100.1") >= 48, "the control of the test above"

    run(work)


def test_addresses_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_queue, "PASSWORD_THREADS", 1)

    async def work(queue: PasswordQueue, _: Backoff) -> None:
        done: list[str] = []
        assert all(ask(queue, "192.0.2.1", b"wrong", done) for _ in range(50))
        assert ask(queue, "192.0.2.2", b"wrong", done)
        await until(done, 51)
        assert done.index("192.0.2.2") == 2, "the first was verified before the other address came"

    run(work)


def test_failures_are_forgotten_in_time() -> None:
    backoff = Backoff()
    backoff.failed("192.0.2.1", 0)
    assert backoff.has_failed("192.0.2.1", 30)
    assert not backoff.has_failed("192.0.2.1", 90)
    assert not backoff.has_failed("192.0.2.2", 0)


def test_there_are_bounds_per_address_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_queue, "WAITING_MAX", 20)
    monkeypatch.setattr(password_queue, "WAITING_PER_ADDRESS_MAX", 5)

    async def work(queue: PasswordQueue, _: Backoff) -> None:
        done: list[str] = []
        of_one = [ask(queue, "192.0.2.1", b"wrong", done) for _ in range(20)]
        assert of_one.count(True) == 5 + 2, "five wait and two are verified"
        of_many = [ask(queue, f"198.51.100.{number}", b"wrong", done) for number in range(40)]
        assert of_many.count(True) == 20 - 5
        await until(done, 22)

    run(work)


def test_who_has_left_is_not_verified(verifications: Verifications) -> None:
    async def work(queue: PasswordQueue, _: Backoff) -> None:
        done: list[str] = []
        for number in range(500):
            ask(queue, f"192.0.2.{number}", b"wrong", done, is_wanted=False)
        assert ask(queue, "198.51.100.1", RIGHT, done)
        await until(done, 1)
        assert done == ["198.51.100.1"]
        assert verifications.count == 1

    run(work)


def test_a_password_that_another_login_has_shown_to_be_right_is_not_verified_again(
    verifications: Verifications,
) -> None:
    async def work(queue: PasswordQueue, _: Backoff) -> None:
        done: list[str] = []
        assert all(ask(queue, "192.0.2.1", RIGHT, done) for _ in range(200))
        await until(done, 200)
        assert verifications.count <= password_queue.PASSWORD_THREADS

    run(work)


class Client:
    """A client at an address, which notes when its login was answered."""

    awaits_login = True

    def __init__(self, address: str) -> None:
        self.peer = Peer(address)
        self.answers: list[tuple[float, str]] = []

    def answer_login(self, mechanism: str, refusal: str) -> None:
        self.answers.append((time.monotonic(), refusal))


def test_wrong_logins_are_answered_later_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []
    access = Access({"ann": User("ann", "hash").permitted("/", ALL)}, ("/",), Limits(), True)

    async def log_in() -> None:
        loop = asyncio.get_running_loop()

        def call_later(delay_s: float, callback: Callable[..., None], *arguments: object) -> None:
            delays.append(delay_s)
            callback(*arguments)

        monkeypatch.setattr(loop, "call_later", call_later)
        logins = Logins(Rules(access, None), Log("error", stream=StringIO()))
        client = Client("192.0.2.1")
        for count in range(1, 9):
            logins.log_in(client, Login("PLAIN", "ann", b"wrong"))
            while len(client.answers) < count:
                await asyncio.sleep(0)
        logins.log_in(client, Login("PLAIN", "ann", RIGHT))
        while len(client.answers) < 9:
            await asyncio.sleep(0)
        assert [refusal for _, refusal in client.answers] == ["wrong password, or no such user"] * 8 + [""]
        logins.close(wait=True)

    asyncio.run(log_in())
    assert delays[:3] == [0, 0, 0]
    assert delays[3:] == sorted(delays[3:])
    assert 0.2 < delays[3] < 1
    assert delays[-1] == 5.0
