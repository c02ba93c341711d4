from __future__ import annotations

import json
from pathlib import Path

import pytest

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
    assert tamis("adapter", "pause", "inbox").stderr == "inbox will be paused\n"
    assert tamis("adapter", "stop", "events").returncode == 0
    states = [json.loads(line) for line in tamis("adapter", "list", "--json").stdout.splitlines()]
    assert [(it["name"], it["desired"], it["config"]["type"]) for it in states] == [
        ("inbox", "paused", "mbox"),
        ("events", "stopped", "jsonl"),
    ]
    assert tamis("adapter", "start", "inbox", "events").returncode == 0
    states = [json.loads(line) for line in tamis("adapter", "list", "--json").stdout.splitlines()]
    assert [it["desired"] for it in states] == ["running", "running"]


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
