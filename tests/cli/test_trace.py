"""`tamis trace` follows one message from its places to every step of each delivery."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tamis.query import QuerySpec
from tamis.store import BatchCounts, Outcome, Store
from tamis.store.seen import SeenBatch, SeenMessage
from tests.cli.conftest import Tamis
from tests.store.rows import message, notification, result

LATER = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def ids(tmp_path: Path) -> list[str]:
    """Store one mail at two places, matched by one of two queries, retried and then delivered; return the ids."""
    with Store.open(tmp_path / "tamis.sqlite") as store:
        store.add_query(QuerySpec("recent", "subject LIKE 'mess%'", deliveries=("mail", "rows")))
        mail = message(0, message_id="<one@example.org>")
        other = message(1, message_id="<two@example.org>", subject="about <one@example.org>")
        copy = message(7, "mail/moved.mbox", message_id="<one@example.org>")
        store.pin_batch("s", 0)
        store.commit_batch("s", 0, result([mail, other], ["recent"], dead=1))
        store.pin_batch("s", 1)
        again = [notification("recent", 1, mail)._replace(partition=copy.partition, offset=copy.offset)]
        store.commit_batch("s", 1, type(result([]))([copy], again, [], 1, 1))
        (due, _) = store.due_deliveries("mail", 3)
        store.note_pending("mail", "no route to host")
        store.note_pending("mail", "no answer")
        store.record_outcomes([Outcome(due.delivery_id, "pending", "451 later", LATER)])
        store.record_outcomes([Outcome(due.delivery_id, "delivered", "delivered at try 2")])
        return [it.id for it in store.notifications(newest_first=False)]


def test_a_message_is_followed_from_its_places_to_each_step(tamis: Tamis, ids: list[str]) -> None:
    lines = tamis("trace", "<one@example.org>").stdout.splitlines()
    assert lines[:2] == ["Message <one@example.org>", "  subject: message 0"]
    assert lines[3] == "found: inbox, mail/a.mbox"
    assert lines[4] == "found again, so nobody is told twice: inbox, mail/moved.mbox, byte 7"
    assert lines[5].startswith("matched: recent (version 1), ")
    assert lines[5].endswith(f"notification {ids[0][:12]}")
    assert lines[6] == "  because subject LIKE 'mess%'  (message 0)"
    assert lines[7] == "  mail: delivered, 2 tries: delivered at try 2"
    steps = [line.split(" UTC  ")[1] for line in lines[8:11]]
    assert steps == ["waiting: no route to host", "retried: 451 later", "delivered: delivered at try 2"]
    assert lines[11].startswith("  rows: pending")
    assert len(lines) == 12


def test_a_trace_is_one_object_for_programs(tamis: Tamis, ids: list[str]) -> None:
    traces = [json.loads(tamis("trace", it, "--json").stdout) for it in ("one@example.org", ids[0])]
    (matched,) = traces[0]["matched"]
    assert (matched["notification_id"], matched["query"]) == (ids[0], "recent")
    mail, rows = matched["deliveries"]
    assert [step["step"] for step in mail["steps"]] == ["waiting", "retried", "delivered"]
    assert (rows["delivery"], rows["steps"]) == ("rows", [])
    assert [place["offset"] for place in traces[0]["found"]] == [0, 7]
    assert traces[1]["matched"] == traces[0]["matched"]


def test_a_message_that_could_not_be_read_is_found_by_its_bytes(tamis: Tamis, ids: list[str]) -> None:
    assert ids
    lines = tamis("trace", "raw").stdout.splitlines()
    assert lines[0].startswith("could not be read: dead letter 1, ")
    assert lines[0].endswith(": no header")


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize("unknown", ["nobody@example.org", "example.org", "<>"])
def test_an_unknown_message_is_a_mistake_that_says_what_to_do(tamis: Tamis, unknown: str) -> None:
    done = tamis("trace", unknown)
    assert done.returncode == 2
    assert f"no message with the id '{unknown}' is in the store" in done.stderr
    assert "tamis adapter list" in done.stderr


def test_the_steps_of_a_delivery_are_shown(tamis: Tamis, ids: list[str]) -> None:
    shown = tamis("deliveries", "show", ids[0]).stdout
    assert shown.index("waiting: no route to host") < shown.index("retried: 451 later")
    mail = json.loads(tamis("deliveries", "show", ids[0], "--json").stdout.splitlines()[1])
    assert [step["step"] for step in mail["steps"]] == ["waiting", "retried", "delivered"]


@pytest.fixture
def notes(tmp_path: Path) -> None:
    """Store notes of a mail that matched nothing at two places, and of one whose notification was deleted."""
    silent, told = (SeenMessage("mail/a.mbox", at, f"d{at}", f"<{at}@example.org>", at) for at in (0, 5))
    with Store.open(tmp_path / "tamis.sqlite") as store:
        for batch_id, read in enumerate(([silent, told], [silent._replace(partition="mail/moved.mbox")])):
            store.pin_batch("s", batch_id)
            store.commit_batch("s", batch_id, result([]), (), SeenBatch("inbox", read, 9))


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize("name", ["0@example.org", "d0", "mail/a.mbox:0"])
def test_a_message_without_a_match_is_followed_too(tamis: Tamis, name: str) -> None:
    lines = tamis("trace", name).stdout.splitlines()
    assert lines[0] == "Message <0@example.org>"
    assert re.fullmatch(r"found: inbox, mail/a.mbox, read [-0-9]{10} [:0-9]{8} UTC in batch 0", lines[1])
    assert lines[2].startswith("found again, so nobody is told twice: inbox, mail/moved.mbox, read ")
    assert lines[3:] == ["matched: no query; `tamis explain` says why"]
    told = json.loads(tamis("trace", name, "--json").stdout)
    assert [place["partition"] for place in told["found"]] == ["mail/a.mbox", "mail/moved.mbox"]
    assert [(it["batch"], it["matches"]) for place in told["found"] for it in place["read"]] == [(0, 0), (1, 0)]
    assert (told["properties"], told["matched"]) == (None, [])


@pytest.mark.usefixtures("notes")
def test_a_message_whose_notifications_are_gone_says_so(tamis: Tamis) -> None:
    last = tamis("trace", "5@example.org").stdout.splitlines()[-1]
    assert last == "matched: 5 queries; the notifications are not in the store: deleted, or made at another place"


@pytest.mark.usefixtures("notes")
def test_an_unknown_message_is_told_how_far_the_store_remembers(tamis: Tamis, tmp_path: Path) -> None:
    assert "every message that was read since 20" in tamis("trace", "nobody@example.org").stderr
    with Store.open(tmp_path / "tamis.sqlite") as store:
        store.pin_batch("t", 0)
        store.record_batch("t", 0, BatchCounts(1, 1, 1, 0), Path("/shared/results"))
    told = tamis("trace", "nobody@example.org").stderr
    assert "in Delta tables, which `tamis trace` does not read: look in /shared/results" in told
