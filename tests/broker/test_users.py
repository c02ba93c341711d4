"""The users' file round-trips, refuses what is not valid, and is never half written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.broker.login import passwords
from tamis.broker.login.backoff import ADDRESSES_MAX, DELAY_S_MAX, FREE_FAILURES, WAITING_MAX, Backoff
from tamis.broker.users.user import ALL, Limits, Permission, TopicPermission, User
from tamis.broker.users.users_file import UsersFile
from tamis.errors import AccessError

HASH = passwords.hash_password(b"secret")


@pytest.fixture
def file(tmp_path: Path) -> UsersFile:
    made = UsersFile(tmp_path)
    made.make_first()
    return made


def put(file: UsersFile, user: User) -> None:
    file.change(lambda users: users.update({user.name: user}))


def test_the_first_start_makes_an_administrator_and_guest(tmp_path: Path) -> None:
    file = UsersFile(tmp_path)
    assert file.make_first(("/", "other"))
    users = file.read()
    assert sorted(users) == ["admin", "guest"]
    secret = file.admin_password_path.read_text().strip()
    assert passwords.is_right(users["admin"].password, secret.encode())
    assert users["admin"].roles == ("administrator",)
    assert users["admin"].permissions == {"/": ALL, "other": ALL}
    assert users["guest"].local_only
    assert passwords.is_right(users["guest"].password, b"guest")
    for path in (file.path, file.admin_password_path):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not file.make_first(), "the next start changes nothing"
    assert file.read() == users


def test_all_that_a_user_has_survives_the_file(file: UsersFile) -> None:
    ann = User("ann", HASH, ("monitoring",), limits=Limits(connections=3))
    ann = ann.permitted("/", Permission("a", "b", "c")).permitted_topics("/", "amq.topic", TopicPermission("w", "r"))
    put(file, ann)
    assert file.read()["ann"] == ann
    put(file, ann.permitted("/", None).permitted_topics("/", "amq.topic", None))
    assert file.read()["ann"] == User("ann", HASH, ("monitoring",), limits=Limits(connections=3))


def test_every_change_has_another_stamp(file: UsersFile) -> None:
    stamps = [file.stamp()]
    for name in ("a", "b"):
        put(file, User(name))
        stamps.append(file.stamp())
    assert len(set(stamps)) == 3


def test_an_edit_that_is_refused_changes_nothing(file: UsersFile) -> None:
    before = file.path.read_bytes()
    for bad in (User(""), User("a\nb"), User("x" * 256), User("ann").permitted("/", Permission(configure="("))):
        with pytest.raises(AccessError):
            put(file, bad)
    assert file.path.read_bytes() == before
    assert sorted(path.name for path in file.path.parent.iterdir()) == ["admin-password", "users.json", "users.lock"]


def test_edits_of_several_processes_are_all_kept(tmp_path: Path) -> None:
    UsersFile(tmp_path).make_first()
    program = (
        "import sys; from pathlib import Path\n"
        "from tamis.broker.users.user import User; from tamis.broker.users.users_file import UsersFile\n"
        "file = UsersFile(Path(sys.argv[1]))\n"
        "for number in range(10):\n"
        "    name = f'{sys.argv[2]}{number}'\n"
        "    file.change(lambda users: users.update({name: User(name)}))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), letter]) for letter in "abc"]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(UsersFile(tmp_path).read()) == 32


MISTAKES: list[tuple[Any, str]] = [
    ([], "the file: expected a table"),
    ({"version": 2, "users": {}}, "expected version 1, not 2"),
    ({"version": 1, "usrs": {}}, "unknown key 'usrs'"),
    ({"version": 1, "users": []}, "users: expected a table"),
    ({"ann": {"pasword": None}}, "user 'ann': unknown key 'pasword'; known: password, roles"),
    ({"ann": {"password": "secret"}}, "user 'ann': password: expected an argon2 hash or null"),
    ({"ann": {"password": HASH.replace("m=19456", "m=9999999")}}, "password: expected an argon2 hash"),
    ({"ann": {"roles": ["root"]}}, "roles: expected some of administrator"),
    ({"ann": {"local_only": 1}}, "local_only: expected true or false, not 1"),
    (
        {"ann": {"permissions": {"/": {"read": "("}}}},
        "user 'ann' in '/': read: position 0: expected a regular expression",
    ),
    ({"ann": {"permissions": {"/": {"read": 1}}}}, "read: expected a regular expression as text, not 1"),
    ({"ann": {"topic_permissions": {"/": {"t": {"configure": ""}}}}}, "in '/' on 't': unknown key 'configure'"),
    ({"ann": {"limits": {"queues": -1}}}, "limits: queues: expected a whole number from 0 or null, not -1"),
]


@pytest.mark.parametrize(("document", "expected"), MISTAKES)
def test_a_mistake_is_told_with_its_place(file: UsersFile, document: Any, expected: str) -> None:
    if isinstance(document, dict) and "version" not in document:
        document = {"version": 1, "users": document}
    file.path.write_text(json.dumps(document))
    with pytest.raises(AccessError) as error:
        file.read()
    assert str(error.value).startswith(f"{file.path}: ")
    assert expected in str(error.value)


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    file = UsersFile(tmp_path)
    with pytest.raises(AccessError, match="no users yet"):
        file.read()
    for text in (b"", b"{", b"\xff", b"[" * 100_000):
        file.path.write_bytes(text)
        with pytest.raises(AccessError, match="expected JSON in UTF-8"):
            file.read()


def test_a_password_is_right_or_not_and_nobodys_never() -> None:
    assert passwords.is_right(HASH, b"secret")
    assert not passwords.is_right(HASH, b"Secret")
    assert not passwords.is_right(None, b"secret")
    assert not passwords.is_right("no hash", b"secret")
    assert passwords.is_hash(HASH)
    assert "m=19456,t=2,p=1" in HASH


# ---- back-off ----


def test_wrong_logins_wait_longer_and_longer_up_to_a_limit() -> None:
    backoff = Backoff()
    delays = []
    for second in range(12):
        delays.append(backoff.failed("192.0.2.1", second * 0.01))
        backoff.answered("192.0.2.1")
    assert delays[:FREE_FAILURES] == [0.0] * FREE_FAILURES
    assert delays == sorted(delays)
    assert delays[-1] == DELAY_S_MAX
    assert backoff.failed("192.0.2.2", 1.0) == 0.0, "another address is not meant"
    assert backoff.failed("192.0.2.1", 3600.0) == 0.0, "an hour later it is forgotten"


def test_an_address_cannot_try_on_many_connections_while_its_answers_wait() -> None:
    backoff = Backoff()
    for _ in range(WAITING_MAX):
        assert backoff.may_try("192.0.2.1")
        backoff.failed("192.0.2.1", 0.0)
    assert not backoff.may_try("192.0.2.1")
    assert backoff.may_try("192.0.2.2")
    backoff.answered("192.0.2.1")
    assert backoff.may_try("192.0.2.1")


def test_a_customer_of_ipv6_is_one_address() -> None:
    backoff = Backoff()
    for number in range(WAITING_MAX):
        backoff.failed(f"2001:db8:1:2::{number:x}", 0.0)
    assert not backoff.may_try("2001:db8:1:2:ffff::1")
    assert backoff.may_try("2001:db8:1:3::1")


def test_no_more_addresses_are_remembered_than_there_is_room_for() -> None:
    backoff = Backoff()
    for number in range(ADDRESSES_MAX + 10):
        backoff.failed(str(number), 0.0)
    assert len(backoff._records) == ADDRESSES_MAX


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 100)), max_size=60))
def test_a_delay_is_never_out_of_bounds(failures: list[tuple[str, float]]) -> None:
    backoff, now_s = Backoff(), 0.0
    for address, passed in failures:
        now_s += passed
        assert 0.0 <= backoff.failed(address, now_s) <= DELAY_S_MAX
