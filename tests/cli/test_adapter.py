from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tamis.query import QuerySpec
from tamis.store import Store
from tests.cli.conftest import Tamis

PIPELINE = """\
[pipeline]
name = "mail"

[[adapter]]
name = "inbox"
type = "mbox"
path = "inbox.mbox"
topic = "mail.inbox"

[[adapter]]
name = "events"
type = "jsonl"
path = "events.jsonl"
"""

MAIL = "From a@b Mon Jan  1 00:00:00 2001\nFrom: Ann <a@b>\nSubject: hello\n\nfrost\n"


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "inbox.mbox").write_text(MAIL)
    (tmp_path / "events.jsonl").write_text('{"a": 1}\n{"a": 2')
    return tmp_path


@pytest.mark.usefixtures("pipeline")
def test_adapters_are_listed_with_what_was_asked_of_them(tamis: Tamis) -> None:
    assert "inbox" in tamis("adapter", "list").stdout
    assert tamis("adapter", "pause", "inbox").stderr.startswith("inbox will be paused until ")
    assert tamis("adapter", "stop", "events").returncode == 0
    states = [json.loads(line) for line in tamis("adapter", "list", "--json").stdout.splitlines()]
    assert [(it["name"], it["desired"], it["config"]["type"]) for it in states] == [
        ("inbox", "paused", "mbox"),
        ("events", "stopped", "jsonl"),
    ]
    assert tamis("adapter", "start", "inbox", "events").returncode == 0
    states = [json.loads(line) for line in tamis("adapter", "list", "--json").stdout.splitlines()]
    assert [it["desired"] for it in states] == ["running", "running"]


def test_an_adapter_is_shown_with_its_errors(tamis: Tamis, pipeline: Path) -> None:
    with Store.open(pipeline / "tamis.sqlite") as store:
        store.report_adapter("inbox", "failed", error="no route", at=datetime(2026, 11, 23, 12, tzinfo=UTC))
        store.report_adapter("inbox", "running", read_count=7)
    shown = tamis("adapter", "show", "inbox").stdout
    for expected in (
        "source:     mbox, inbox.mbox",
        "read:       7 messages, 0 of them dead",
        f"behind:     {len(MAIL)} bytes",
        "error:      none now",
        "  2026-11-23 12:00:00 UTC  no route",
    ):
        assert expected in shown
    it = json.loads(tamis("adapter", "show", "inbox", "--json").stdout)
    assert (it["behind"], it["unit"], it["errors"][0]["error"]) == (len(MAIL), "bytes", "no route")
    (pipeline / "inbox.mbox").unlink()
    assert "behind:     " in tamis("adapter", "show", "inbox").stdout
    assert "no [[adapter]] is named 'inbix'" in tamis("adapter", "show", "inbix").stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nobody"], "no [[adapter]] is named 'nobody'"),
        (["inbox", "--since", "yesterday"], "--since: expected a date or a time as 2026-11-01, not 'yesterday'"),
        (["inbox", "--query", "nobody"], "no active query has the key 'nobody'"),
    ],
)
@pytest.mark.usefixtures("pipeline")
def test_a_backfill_that_cannot_be_is_refused_before_spark_starts(
    tamis: Tamis, arguments: list[str], expected: str
) -> None:
    done = tamis("adapter", "backfill", *arguments)
    assert (done.returncode, expected in done.stderr) == (2, True)


@pytest.mark.spark
def test_a_backfill_says_what_it_did(tamis_process: Tamis, pipeline: Path) -> None:
    with Store.open(pipeline / "tamis.sqlite") as store:
        store.add_query(QuerySpec("hello", "subject = 'hello'"))
    done = tamis_process("adapter", "backfill", "inbox", "--since", "2000-01-01", "--json")
    assert json.loads(done.stdout) == {"read": 1, "older": 0, "dead": 0, "matched": 1, "notifications": 1}
    assert "1 message read, 0 of them older; 1 matched, 1 new notification" in done.stderr


@pytest.mark.usefixtures("pipeline")
def test_an_unknown_name_changes_nothing(tamis: Tamis) -> None:
    done = tamis("adapter", "stop", "inbox", "inbix")
    assert done.returncode == 2
    assert "no [[adapter]] is named 'inbix'; there are: inbox, events" in done.stderr
    states = [json.loads(line) for line in tamis("adapter", "list", "--json").stdout.splitlines()]
    assert [it["desired"] for it in states] == ["running", "running"]


@pytest.mark.usefixtures("pipeline")
def test_a_test_reads_a_few_messages_and_says_what_is_wrong(tamis: Tamis, tmp_path: Path) -> None:
    done = tamis("adapter", "test", "--json")
    assert done.returncode == 0
    inbox, events = (json.loads(line) for line in done.stdout.splitlines())
    assert (inbox["readable"], inbox["files"], inbox["sampled"], inbox["dead"]) == (True, 1, 1, 0)
    assert (events["readable"], events["sampled"], events["dead"]) == (True, 2, 1)
    (tmp_path / "inbox.mbox").unlink()
    done = tamis("adapter", "test", "inbox")
    assert done.returncode == 2
    assert "inbox.mbox" in done.stdout
    assert tamis("adapter", "test", "nobody").returncode == 2


def test_a_missing_configuration_is_one_message(tamis: Tamis) -> None:
    done = tamis("adapter", "list")
    assert done.returncode == 2
    assert done.stderr.startswith("error: pipeline.toml: ")


def _listed(tamis: Tamis) -> dict[str, dict[str, object]]:
    return {it["name"]: it for it in map(json.loads, tamis("adapter", "list", "--json").stdout.splitlines())}


def test_the_list_says_whether_anybody_runs(tamis: Tamis, pipeline: Path) -> None:
    assert tamis("adapter", "list").stderr == "not running; `tamis run` was never started over this store\n"
    with Store.open(pipeline / "tamis.sqlite") as store:
        store.report_adapter("inbox", "running", at=datetime(2001, 1, 1, tzinfo=UTC))
        lease = store.take_lease(pipeline / "pipeline.toml")
        store.report_adapter("events", "running")
        assert {name: it["status"] for name, it in _listed(tamis).items()} == {"inbox": "starting", "events": "running"}
        assert tamis("adapter", "list").stderr.endswith(f": process {os.getpid()} on {lease.host}\n")
        with subprocess.Popen([sys.executable, "-c", "pass"]) as killed:
            pass
        with store._write() as connection:
            connection.exec_driver_sql("UPDATE leases SET pid = ?", (killed.pid,))
    listed = _listed(tamis)
    assert {it["status"] for it in listed.values()} == {"not running"}
    assert listed["inbox"]["pipeline"] is None
    told = tamis("adapter", "list").stderr
    assert told.startswith("not running since ")
    assert f"(process {killed.pid} on {lease.host} ended without saying so)" in told


@pytest.mark.usefixtures("pipeline")
def test_what_was_paused_is_resumed_and_what_was_stopped_stays_off(tamis: Tamis) -> None:
    assert tamis("adapter", "resume").stderr == "no adapter is paused\n"
    assert "`resume` leaves it off" in tamis("adapter", "stop", "inbox").stderr
    assert "until `tamis adapter resume`" in tamis("adapter", "pause", "events").stderr
    assert tamis("adapter", "resume").stderr == "events will run\n"
    assert {name: it["desired"] for name, it in _listed(tamis).items()} == {"inbox": "stopped", "events": "running"}


@pytest.mark.usefixtures("pipeline")
def test_what_is_not_paused_is_not_resumed_by_its_name(tamis: Tamis) -> None:
    tamis("adapter", "stop", "inbox")
    tamis("adapter", "pause", "events")
    done = tamis("adapter", "resume", "events", "inbox")
    assert done.returncode == 2
    assert "adapter 'inbox' is stopped, not paused; `tamis adapter start inbox` starts it" in done.stderr
    assert _listed(tamis)["events"]["desired"] == "paused", "nothing is changed"
    assert tamis("adapter", "resume", "events").returncode == 0
    assert "adapter 'events' is running, not paused\n" in tamis("adapter", "resume", "events").stderr
    assert "no [[adapter]] is named 'x'" in tamis("adapter", "resume", "x").stderr
