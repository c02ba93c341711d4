"""The broker survives power cuts, errors of fdatasync and full disks.

`TAMIS_CUTS=400 TAMIS_ERRORS=50 pytest tests/faults/test_broker_disk.py` is the long form; TAMIS_SEED repeats a run."""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from pathlib import Path

import pytest
from pamqp import commands

from tests.faults.amqp import BrokerClosedError, BrokerGoneError, Client, Consumer, Ledger, Publisher, drain
from tests.faults.broker_process import BrokerProcess
from tests.faults.disks import loop_disk, missing

pytestmark = pytest.mark.serial

CUTS = int(os.environ.get("TAMIS_CUTS", "3"))
ERRORS = int(os.environ.get("TAMIS_ERRORS", "3"))
SEED = int(os.environ.get("TAMIS_SEED", random.SystemRandom().randrange(2**32)))
QUEUE = "work"
SMALL_SEGMENTS = "[journal]\nsegment_bytes = 1048576\n"
EXITS_S_MAX = 1.0
SIZE_MIB = {"ext4": 160, "xfs": 320}
"""Size of the file system; xfs needs at least 300."""


def declare(port: int) -> None:
    client = Client(port)
    client.call(commands.Queue.Declare(queue=QUEUE, durable=True), "Queue.DeclareOk")
    client.close()


def cut_once(folder: Path, kind: str, settings: str, chance: random.Random) -> Ledger:
    """Cut the power under load; return the ledger after a restart with what the disk kept.

    Only what was confirmed before the cut counts: an fdatasync in flight during it may return 0."""
    ledger = Ledger()
    with loop_disk(folder, kind, SIZE_MIB[kind]) as disk:
        broker = BrokerProcess(disk.path / "data", settings)
        broker.log = folder.parent / f"{folder.name}.log"
        with broker.start():
            declare(broker.port)
            publisher = Publisher(broker.port, QUEUE, "p", ledger, size=300, window=200)
            publisher.start()
            time.sleep(chance.uniform(0.1, 0.5))
            confirmed = set(ledger.confirmed)
            disk.power_cut()
            publisher.join(0.2)
        publisher.stop()
        disk.unmount()
        disk.mount()
        broker = BrokerProcess(disk.path / "data", settings)
        with broker.start():
            try:
                declare(broker.port)
                drain(broker.port, QUEUE, ledger)
            except (BrokerClosedError, BrokerGoneError) as error:
                raise AssertionError(f"after the cut: {error}: {broker.said()}") from error
    ledger.confirmed = confirmed
    return ledger


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
@pytest.mark.timeout(120 + 10 * CUTS)
def test_what_was_confirmed_is_there_after_a_power_cut(tmp_path: Path, kind: str) -> None:
    if reason := missing(kind):
        pytest.skip(reason)
    print(f"TAMIS_SEED={SEED} TAMIS_CUTS={CUTS}")
    chance = random.Random(SEED)
    with_a_confirm = 0
    for cut in range(CUTS):
        ledger = cut_once(tmp_path / f"cut{cut}", kind, SMALL_SEGMENTS, chance)
        with_a_confirm += bool(ledger.confirmed)
        assert not ledger.lost, f"cut {cut}: {len(ledger.lost)} of {len(ledger.confirmed)} lost"
        assert not ledger.phantoms
    assert with_a_confirm, "no cut came after a confirm: the run is void"


def test_control_a_journal_that_does_not_sync_is_caught(tmp_path: Path) -> None:
    if reason := missing("ext4"):
        pytest.skip(reason)
    print(f"TAMIS_SEED={SEED}")
    chance = random.Random(SEED)
    for cut in range(10):
        ledger = cut_once(tmp_path / f"cut{cut}", "ext4", f"{SMALL_SEGMENTS}sync = false\n", chance)
        if ledger.lost:
            return
    pytest.fail("ten power cuts lost nothing although nothing was synced: the test cannot tell")


@pytest.mark.timeout(120 + 10 * ERRORS)
def test_after_an_error_of_fdatasync_nothing_is_confirmed(tmp_path: Path) -> None:
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    chance = random.Random(SEED)
    print(f"TAMIS_SEED={SEED} TAMIS_ERRORS={ERRORS}")
    for turn in range(ERRORS):
        when = turn + 1 if ERRORS >= 50 else chance.randrange(3, 50)
        trace = tmp_path / f"trace{turn}"
        inject = ["strace", "-f", "-ttt", "-e", "trace=fdatasync", "-o", str(trace)]
        broker = BrokerProcess(tmp_path / f"data{turn}")
        with broker.start():  # the syncs of a first start happen before
            declare(broker.port)
            assert broker.stop() == 0
        broker = BrokerProcess(
            tmp_path / f"data{turn}", wrapper=[*inject, "-e", f"inject=fdatasync:error=EIO:when={when}"]
        )
        ledger = Ledger()
        try:
            broker.start()
        except RuntimeError:
            assert "EIO" in trace.read_text(encoding="utf-8"), broker.said()
            continue  # it failed at the start, so nothing could be confirmed
        with broker:
            try:
                publisher = Publisher(broker.port, QUEUE, "p", ledger, window=20)
            except BrokerGoneError:
                assert broker.wait(20) not in {0, None}
                assert "EIO" in trace.read_text(encoding="utf-8"), broker.said()
                continue  # it failed before anything could be published
            publisher.start()
            assert broker.wait(20) not in {0, None}
            ended_at = time.time()
            publisher.join(20)
        failed_at = [float(at) for at in re.findall(r"^\S+\s+([\d.]+) fdatasync\(.*EIO", trace.read_text(), re.M)]
        assert failed_at, f"when={when}: no error was injected: the run is void"
        late = [at for at in publisher.confirm_times if at > failed_at[0] + 0.05]
        assert not late, f"when={when}: {len(late)} confirms after the error"
        print(f"when={when}: ended {ended_at - failed_at[0]:.2f} s after the error, {len(ledger.confirmed)} confirmed")
        assert ended_at - failed_at[0] < 2 * EXITS_S_MAX, "on two cores, and traced"
        assert "Input/output error" in broker.said() or "EIO" in broker.said()
        with BrokerProcess(tmp_path / f"data{turn}") as again:
            drain(again.port, QUEUE, ledger)
        assert not ledger.lost
        assert not ledger.phantoms


def test_a_full_disk_blocks_publishers_and_loses_nothing(tmp_path: Path) -> None:
    if reason := missing("ext4"):
        pytest.skip(reason)
    ledger = Ledger()
    with loop_disk(tmp_path / "disk", "ext4", 96) as disk:
        filler = disk.path / "filler"
        filler.write_bytes(b"x" * (40 << 20))
        broker = BrokerProcess(disk.path / "data", SMALL_SEGMENTS)
        broker.log = tmp_path / "broker.log"
        with broker.start():
            declare(broker.port)
            publisher = Publisher(broker.port, QUEUE, "p", ledger, size=2_000)
            publisher.start()
            assert publisher.blocked.wait(60), f"never blocked: {broker.said()}"
            consumer = Consumer(broker.port, QUEUE, ledger)
            consumer.start()  # consumers go on
            began = time.monotonic()
            while len(consumer.bodies) < 1_000 and time.monotonic() < began + 10:
                time.sleep(0.05)
            assert len(consumer.bodies) >= 1_000
            filler.unlink()  # room again
            began = time.monotonic()
            while publisher.blocked.is_set() and time.monotonic() < began + 20:
                time.sleep(0.05)
            assert time.monotonic() - began < 10, (
                "goes on within 5 s of there being room, on a machine that is not busy"
            )
            attempted = len(ledger.attempted)
            time.sleep(0.5)
            publisher.stop()
            consumer.stop()
            assert publisher.error is None
            assert len(ledger.attempted) > attempted
            drain(broker.port, QUEUE, ledger)
        assert not ledger.lost
        assert not ledger.phantoms
