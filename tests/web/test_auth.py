"""HTTP requests need a user with the right password, role and address."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

pytest.importorskip("argon2", reason="the server is not installed: pip install 'tamis[server]'")

from tamis.broker.login import passwords
from tamis.broker.users.user import User
from tamis.broker.users.users_file import UsersFile
from tamis.web.auth import Authenticator, AuthError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = UsersFile(tmp_path)
    file.make_first()

    def add(users: dict[str, User]) -> None:
        users["watcher"] = User("watcher", passwords.hash_password(b"see"), roles=("monitoring",))
        users["local"] = User("local", passwords.hash_password(b"see"), roles=("monitoring",), local_only=True)

    file.change(add)
    return tmp_path


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def entered(authenticator: Authenticator, authorization: str | None, address: str = "127.0.0.1") -> str | int:
    """Return the user's name, or the status of the refusal."""

    async def enter() -> str | int:
        try:
            return await authenticator.authenticate(authorization, address, "monitoring")
        except AuthError as refusal:
            return refusal.status

    return asyncio.run(enter())


def test_administrators_and_those_with_the_role_may_look(data: Path) -> None:
    authenticator = Authenticator(data, is_local_only=True)
    secret = (data / "admin-password").read_text().strip()
    assert entered(authenticator, basic("admin", secret)) == "admin"
    assert entered(authenticator, basic("watcher", "see")) == "watcher"
    assert entered(authenticator, basic("watcher", "see")) == "watcher"  # now without argon2
    assert entered(authenticator, basic("guest", "guest")) == 403


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Basic",
        "Basic !",
        "Bearer abc",
        "Basic " + base64.b64encode(b"nocolon").decode(),
        "Basic " + base64.b64encode(b"\xff:x").decode(),
        "Basic " + "A" * 5000,
        basic("watcher", "wrong"),
        basic("nobody", "see"),
        basic("", ""),
        basic("watcher", ""),
    ],
)
def test_everybody_else_is_asked_who_he_is(data: Path, authorization: str | None) -> None:
    assert entered(Authenticator(data, is_local_only=True), authorization) == 401


def test_a_user_of_this_machine_may_not_come_from_another(data: Path) -> None:
    assert entered(Authenticator(data, is_local_only=True), basic("local", "see")) == "local"
    assert entered(Authenticator(data, is_local_only=True), basic("local", "see"), "192.0.2.1") == 401
    assert entered(Authenticator(data, is_local_only=False), basic("local", "see")) == 401


def test_a_change_of_the_users_counts_from_the_next_request_on(data: Path) -> None:
    authenticator = Authenticator(data, is_local_only=True)
    assert entered(authenticator, basic("watcher", "see")) == "watcher"

    def remove(users: dict[str, User]) -> None:
        del users["watcher"]

    UsersFile(data).change(remove)
    assert entered(authenticator, basic("watcher", "see")) == 401


def test_wrong_passwords_are_slowed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delays = []

    async def sleep(delay_s: float) -> None:
        delays.append(delay_s)

    monkeypatch.setattr("tamis.web.auth.asyncio.sleep", sleep)
    authenticator = Authenticator(data, is_local_only=True)
    for _ in range(6):
        assert entered(authenticator, basic("watcher", "wrong"), "192.0.2.1") == 401
    assert delays[:3] == [0, 0, 0]
    assert 0 < delays[3] < delays[4] < delays[5]
    assert entered(authenticator, basic("watcher", "see"), "192.0.2.1") == "watcher"


def test_without_users_nobody_may(tmp_path: Path) -> None:
    assert entered(Authenticator(tmp_path, is_local_only=True), basic("admin", "x")) == 503
