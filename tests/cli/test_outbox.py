"""`tamis outbox`, `deliveries` and `dead` show what the store holds, with the reasons."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tamis.query import QuerySpec
from tamis.store import Outcome, Store
from tests.cli.conftest import Tamis
from tests.store.rows import message, result

LATER = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def ids(tmp_path: Path) -> list[str]:
    """Make a store with three notifications, one delivered, one that waits and one dead, and with a dead letter."""
    with Store.open(tmp_path / "tamis.sqlite") as store:
        text = "date > TIMESTAMP '2002-01-01T00:00:00Z'"
        store.add_query(QuerySpec("recent", text, deliveries=("mail",)))
        store.pin_batch("s", 0)
        store.commit_batch("s", 0, result([message(number) for number in range(3)], ["recent"], dead=1))
        due = store.due_deliveries("mail", 3)
        refused = {"ann@example.org": "550 no such user", "ben@example.org": None}
        store.record_outcomes(
            [
                Outcome(due[0].delivery_id, "delivered"),
                Outcome(due[1].delivery_id, "pending", "no answer", LATER),
                Outcome(due[2].delivery_id, "dead", "refused for ann@example.org", recipients=refused),
            ]
        )
        return [it.notification.id for it in due]


def _json(tamis: Tamis, *arguments: str) -> list[dict[str, Any]]:
    done = tamis(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_outbox_lists_notifications_with_what_became_of_them(tamis: Tamis, ids: list[str]) -> None:
    listed = _json(tamis, "outbox", "list", "--query", "recent")
    assert [it["id"] for it in listed] == ids[::-1]
    assert [it["deliveries"]["mail"]["state"] for it in listed] == ["dead", "pending", "delivered"]
    assert listed[0]["properties"]["subject"] == "message 2"
    assert _json(tamis, "outbox", "list", "--limit", "1") == listed[:1]
    assert _json(tamis, "outbox", "list", "--query", "other") == []
    table = tamis("outbox", "list").stdout.splitlines()
    assert table[0].split() == ["ID", "MATCHED", "QUERY", "SOURCE", "SUBJECT", "DELIVERIES"]
    assert table[3].startswith(ids[0][:12])
    assert table[3].endswith("message 0  mail delivered")


def test_a_notification_is_shown_with_its_reasons(tamis: Tamis, ids: list[str]) -> None:
    shown = tamis("outbox", "show", ids[1][:8]).stdout
    assert shown.startswith(f"Notification {ids[1]}, ")
    assert "  mail: pending, 1 try, again at 2030-01-02 03:04:05 UTC: no answer\n" in shown
    assert "  date > TIMESTAMP '2002-01-01T00:00:00Z'  (2002-08-22 18:26:25 UTC)\n" in shown
    assert "body 1" in shown
    (told,) = _json(tamis, "outbox", "show", ids[1])
    assert (told["body"], told["deliveries"]["mail"]["reason"]) == ("body 1", "no answer")


def test_deliveries_are_listed_with_state_tries_and_reason(tamis: Tamis, ids: list[str]) -> None:
    (dead,) = _json(tamis, "deliveries", "list", "--state", "dead")
    assert (dead["notification_id"], dead["delivery"], dead["attempts"]) == (ids[2], "mail", 1)
    assert dead["reason"] == "refused for ann@example.org"
    assert len(_json(tamis, "deliveries", "list", "--delivery", "mail", "--query", "recent")) == 3
    done = tamis("deliveries", "list")
    assert "2030-01-02 03:04:05  no answer" in done.stdout
    assert done.stderr == "mail: 1 dead, 1 delivered, 1 pending\n"
    shown = tamis("deliveries", "show", ids[2]).stdout
    assert "mail: dead, 1 try: refused for ann@example.org\n" in shown
    assert "  ann@example.org: 550 no such user\n  ben@example.org: delivered\n" in shown


@pytest.mark.parametrize("noun", ["deliveries", "dead"])
def test_dead_deliveries_are_tried_again(tamis: Tamis, ids: list[str], noun: str) -> None:
    assert _json(tamis, noun, "retry", ids[0]) == [{"retried": 0}]
    assert _json(tamis, noun, "retry", ids[2][:9], "--delivery", "mail") == [{"retried": 1}]
    (retried, _) = _json(tamis, "deliveries", "list", "--state", "pending")
    assert (retried["notification_id"], retried["attempts"]) == (ids[2], 0)
    assert tamis(noun, "retry").stderr == "0 dead deliveries are pending again\n"


@pytest.mark.parametrize("noun", ["deliveries", "dead"])
def test_dead_deliveries_of_one_query_are_tried_again(tamis: Tamis, ids: list[str], tmp_path: Path, noun: str) -> None:
    with Store.open(tmp_path / "tamis.sqlite") as store:
        store.add_query(QuerySpec("other", "FALSE"))
    assert _json(tamis, noun, "retry", "--query", "other") == [{"retried": 0}]
    assert _json(tamis, noun, "retry", "--query", "recent") == [{"retried": 1}]
    pending = _json(tamis, "deliveries", "list", "--state", "pending")
    assert {it["notification_id"] for it in pending} == {ids[1], ids[2]}


def test_what_was_given_up_is_listed_and_shown(tamis: Tamis, ids: list[str]) -> None:
    letter, delivery = _json(tamis, "dead", "list")
    assert (letter["kind"], letter["reason"], letter["source"], letter["size_bytes"]) == (
        "letter",
        "no header",
        "inbox",
        5,
    )
    assert (delivery["kind"], delivery["id"], delivery["query"]) == ("delivery", ids[2], "recent")
    assert _json(tamis, "dead", "list", "--source", "inbox") == [letter]
    assert "inbox, mail/a.mbox, byte 1000000" in tamis("dead", "list").stdout
    (shown,) = _json(tamis, "dead", "show", letter["id"])
    assert shown["raw"] == "\\xff raw"
    assert tamis("dead", "show", ids[2]).stdout == tamis("outbox", "show", ids[2]).stdout


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["outbox", "show", "zzz"], "no notification has the id 'zzz'; `tamis outbox list` lists them"),
        (["outbox", "show", ""], "several notifications begin with ''"),
        (["deliveries", "list", "--state", "lost"], "lost"),
        (["deliveries", "retry", "--delivery", "pager"], "no delivery is named 'pager'; there are: mail"),
        (["dead", "retry", "--query", "resent"], "no query ever had the key 'resent'"),
        (["dead", "show", "99"], "no dead letter has the number 99"),
    ],
)
def test_a_mistake_is_one_message(tamis: Tamis, arguments: list[str], expected: str) -> None:
    done = tamis(*arguments)
    assert done.returncode == 2
    assert expected in done.stderr


@pytest.mark.usefixtures("ids")
def test_the_bytes_of_a_dead_letter_come_as_they_are(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tamis", "dead", "show", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout == b"\xff raw"
    assert b"no header\ninbox, mail/a.mbox, byte 1000000\n" in done.stderr
