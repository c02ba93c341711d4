from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tamis.broker.login import passwords
from tamis.broker.users.users_file import UsersFile
from tests.cli.conftest import Tamis


@pytest.fixture
def data(tmp_path: Path) -> UsersFile:
    folder = tmp_path / "tamis-data"
    folder.mkdir()
    file = UsersFile(folder)
    file.make_first()
    return file


def listed(tamis: Tamis) -> dict[str, dict[str, Any]]:
    shown = [json.loads(line) for line in tamis("users", "list", "--json").stdout.splitlines()]
    return {user["name"]: user for user in shown}


def test_a_user_is_added_permitted_listed_and_removed(tamis: Tamis, data: UsersFile) -> None:
    added = tamis("users", "add", "ann", "--role", "monitoring", "--max-queues", "5", stdin="secret\n")
    assert (added.returncode, added.stdout) == (0, ""), added.stderr
    assert added.stderr.startswith("added user ann\n")
    assert passwords.is_right(data.read()["ann"].password, b"secret")
    assert tamis("users", "permit", "ann", "--write", "logs", "--read", ".*").returncode == 0
    assert tamis("users", "permit", "ann", "--read", "ann\\..*").returncode == 0
    ann = listed(tamis)["ann"]
    assert ann["permissions"] == {"/": {"configure": "", "write": "logs", "read": "ann\\..*"}}
    assert (ann["roles"], ann["password"], ann["limits"]) == (["monitoring"], True, {"connections": None, "queues": 5})
    assert tamis("users", "permit", "ann", "--clear").returncode == 0
    assert listed(tamis)["ann"]["permissions"] == {}
    assert tamis("users", "remove", "ann").stderr == "removed user ann\n"
    assert sorted(listed(tamis)) == ["admin", "guest"]


def test_the_hint_of_what_to_do_next_can_be_run_as_it_is(tamis: Tamis, data: UsersFile) -> None:
    folder = data.admin_password_path.parent
    added = tamis("users", "add", "o'brien & co", "--no-password", "--data", str(folder))
    words = shlex.split(added.stderr.splitlines()[-1])
    assert words[:3] == ["tamis", "users", "permit"]
    assert tamis(*words[1:]).returncode == 0
    assert listed(tamis)["o'brien & co"]["permissions"] == {"/": {"configure": "", "write": ".*", "read": ".*"}}


def test_hashes_are_shown_to_nobody(tamis: Tamis, data: UsersFile) -> None:
    assert "argon2" not in tamis("users", "list").stdout + tamis("users", "list", "--json").stdout


def test_the_list_is_a_table(tamis: Tamis, data: UsersFile) -> None:
    lines = tamis("users", "list").stdout.splitlines()
    assert lines[0].split() == ["NAME", "ROLES", "FROM", "PASSWORD", "VHOST", "EXCHANGE", "CONFIGURE", "WRITE", "READ"]
    assert lines[1].split() == ["admin", "administrator", "anywhere", "yes", "/", "-", ".*", ".*", ".*"]


def test_a_password_is_changed(tamis: Tamis, data: UsersFile) -> None:
    assert tamis("users", "password", "guest", stdin="another\n").returncode == 0
    assert passwords.is_right(data.read()["guest"].password, b"another")
    assert data.read()["guest"].local_only


def test_a_user_may_have_a_certificate_and_no_password(tamis: Tamis, data: UsersFile) -> None:
    assert tamis("users", "add", "device", "--no-password").returncode == 0
    assert data.read()["device"].password is None


def test_routing_keys_are_restricted(tamis: Tamis, data: UsersFile) -> None:
    done = tamis("users", "permit", "guest", "--topic-exchange", "amq.topic", "--write", "{username}\\..*")
    assert done.returncode == 0
    expected = {"/": {"amq.topic": {"write": "{username}\\..*", "read": ""}}}
    assert listed(tamis)["guest"]["topic_permissions"] == expected
    row = tamis("users", "list").stdout.splitlines()[-1]
    assert row.split() == ["guest", "-", "this", "machine", "yes", "/", "amq.topic", "-", "{username}\\..*"]
    assert tamis("users", "permit", "guest", "--topic-exchange", "amq.topic", "--clear").returncode == 0
    assert listed(tamis)["guest"]["topic_permissions"] == {}


@pytest.mark.parametrize(
    ("arguments", "stdin", "expected"),
    [
        (["add", "guest"], "x\n", "error: there is a user 'guest' already"),
        (["add", "ann"], "\n", "error: a password needs at least one character"),
        (["add", "a\nb"], "x\n", "error: a user's name: expected 1 to 255 bytes of printable text"),
        (["add", "ann", "--role", "root"], "x\n", "error: user 'ann': roles: expected some of administrator"),
        (["remove", "gest"], "", "error: there is no user 'gest'; did you mean 'guest'?"),
        (["password", "bob"], "x\n", "error: there is no user 'bob'"),
        (["permit", "guest"], "", "error: nothing to change"),
        (["permit", "guest", "--read", "("], "", "error: user 'guest' in '/': read: position 0"),
        (["permit", "guest", "--topic-exchange", "t", "--configure", "x"], "", "error: --topic-exchange takes"),
    ],
)
def test_a_mistake_is_told_and_changes_nothing(
    tamis: Tamis, data: UsersFile, arguments: list[str], stdin: str, expected: str
) -> None:
    before = data.path.read_bytes()
    done = tamis("users", *arguments, stdin=stdin)
    assert done.returncode == 2
    assert done.stderr.startswith(expected), done.stderr
    assert data.path.read_bytes() == before


def test_without_a_broker_there_are_no_users(tamis: Tamis) -> None:
    done = tamis("users", "list")
    assert done.returncode == 2
    assert "no users yet" in done.stderr
