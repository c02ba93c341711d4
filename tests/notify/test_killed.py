"""Deliveries to files, killed with -9 again and again, end as if nothing had happened."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tamis.config.deliveries import EmlDelivery, JsonlDelivery
from tamis.notify.engine import NotificationEngine
from tamis.store import Store
from tests.store.rows import fill

COUNT = 600
KILLS = 12

PROGRAM = """
import os
import signal
import sys
from pathlib import Path
from tamis.notify import engine
from tamis.notify.channels import eml, jsonl
from tamis.config.deliveries import EmlDelivery, JsonlDelivery
from tamis.store import Store

eml.EmlChannel.batch_count = jsonl.JsonlChannel.batch_count = 5
folder = Path(sys.argv[1])
configs = {
    "eml": EmlDelivery(name="out", type="eml", folder=folder / "outbox"),
    "jsonl": JsonlDelivery(name="out", type="jsonl", path=folder / "out.jsonl"),
}
calls = 0


def record_and_die(self, *arguments):
    global calls
    calls += 1
    if calls == 7:
        os.kill(os.getpid(), signal.SIGKILL)  # delivered, and not on record
    return record(self, *arguments)


record = Store.record_outcomes
if "dying" in sys.argv[3:]:
    Store.record_outcomes = record_and_die
if "careless" in sys.argv[3:]:
    jsonl.JsonlChannel._cut = lambda self, file: None
with Store.open(folder / "s.sqlite") as store:
    notifier = engine.NotificationEngine(store, [configs[sys.argv[2]]])
    print("ready", flush=True)
    while notifier.deliver_pending(20).delivered:
        pass
print("done", flush=True)
"""


def _run_with_kills(folder: Path, kind: str, seed: int) -> int:
    """Deliver, with kills at random times; return the number of runs that were killed during a delivery."""
    print(f"seed {seed}")
    chance, killed = random.Random(seed), 0
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), kind], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        killed += "done" not in process.communicate()[0]
    return killed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a store that has many pending deliveries."""
    with Store.open(tmp_path / "s.sqlite") as store:
        fill(store, COUNT, deliveries=("out",))
    return tmp_path


def _run(folder: Path, kind: str, *how: str) -> int:
    return subprocess.run([sys.executable, "-c", PROGRAM, str(folder), kind, *how], capture_output=True).returncode


@pytest.mark.parametrize("kind", ["eml", "jsonl"])
def test_files_are_exact_after_kills_at_random_times(folder: Path, kind: str) -> None:
    assert _run_with_kills(folder, kind, random.randrange(2**32)) >= 10
    assert _run(folder, kind, "dying") == -signal.SIGKILL
    assert _run(folder, kind) == 0
    with Store.open(folder / "s.sqlite") as store:
        assert store.counts().deliveries_delivered == COUNT
        ids = store.notification_ids()
        never_killed = folder / "never killed"
        _deliver_afresh(store, kind, never_killed)
    if kind == "eml":
        assert _contents(folder / "outbox") == _contents(never_killed / "outbox")
        assert set(_contents(folder / "outbox")) == {f"{name}.eml" for name in ids}
    else:
        content = (folder / "out.jsonl").read_bytes()
        assert content == (never_killed / "out.jsonl").read_bytes()
        assert [json.loads(line)["offset"] for line in content.splitlines()] == list(range(COUNT))


def test_a_careless_writer_is_caught(folder: Path) -> None:
    """The control: lines are doubled if unrecorded lines are not cut off."""
    assert _run(folder, "jsonl", "careless", "dying") == -signal.SIGKILL
    assert _run(folder, "jsonl", "careless") == 0
    assert len((folder / "out.jsonl").read_bytes().splitlines()) > COUNT


def _deliver_afresh(store: Store, kind: str, folder: Path) -> None:
    """Deliver everything again in another folder, without a kill."""
    with store._write() as connection:
        connection.exec_driver_sql("UPDATE deliveries SET state = 'pending', attempts = 0")
    config = (
        EmlDelivery(name="out", type="eml", folder=folder / "outbox")
        if kind == "eml"
        else JsonlDelivery(name="out", type="jsonl", path=folder / "out.jsonl")
    )
    assert NotificationEngine(store, [config]).deliver_pending(COUNT).delivered == COUNT


def _contents(folder: Path) -> dict[str, bytes]:
    """Return every file except temporary ones of an interrupted write."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".eml"}
