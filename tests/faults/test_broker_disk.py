"""The broker survives power cuts and full disks.

`TAMIS_LONG=1 pytest tests/faults/test_broker_disk.py` is the long form; TAMIS_SEED repeats a run."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from pamqp import commands

from tests.faults.amqp import BrokerClosedError, BrokerGoneError, Client, Consumer, Ledger, Publisher, drain
from tests.faults.broker_process import BrokerProcess
from tests.faults.disks import loop_disk, missing
from tests.faults.paths import Paths
from tests.faults.paths import declare as declare_all
from tests.faults.promises import times

pytestmark = pytest.mark.serial

CUTS = times("TAMIS_CUTS", 3, 400)
SEED = int(os.environ.get("TAMIS_SEED", random.SystemRandom().randrange(2**32)))
QUEUE = "work"
SMALL_SEGMENTS = "[journal]\nsegment_bytes = 1048576\n"
SIZE_MIB = {"ext4": 160, "xfs": 320}
"""Size of the file system; xfs needs at least 300."""


def declare(port: int) -> None:
    client = Client(port)
    client.call(commands.Queue.Declare(queue=QUEUE, durable=True), "Queue.DeclareOk")
    client.close()


def cut_once(folder: Path, kind: str, settings: str, chance: random.Random) -> Paths:
    """Cut the power under load; return the ledgers after a restart with what the disk kept.

    Only what was confirmed before the cut counts: an fdatasync in flight during it may return 0."""
    paths = Paths()
    with loop_disk(folder, kind, SIZE_MIB[kind]) as disk:
        broker = BrokerProcess(disk.path / "data", settings)
        broker.log = folder.parent / f"{folder.name}.log"
        with broker.start():
            threads = paths.start(broker.port, "p", size=300)
            time.sleep(chance.uniform(0.2, 0.6))
            confirmed = paths.confirmed()
            disk.power_cut()
            threads[0].join(0.2)
        for thread in threads:
            thread.stop()
        disk.unmount()
        disk.mount()
        broker = BrokerProcess(disk.path / "data", settings)
        with broker.start():
            try:
                declare_all(broker.port)
                paths.drain(broker.port)
            except (BrokerClosedError, BrokerGoneError) as error:
                raise AssertionError(f"after the cut: {error}: {broker.said()}") from error
    paths.only_confirmed(confirmed)
    return paths


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
@pytest.mark.timeout(120 + 10 * CUTS)
def test_what_was_confirmed_is_there_after_a_power_cut(tmp_path: Path, kind: str) -> None:
    if reason := missing(kind):
        pytest.skip(reason)
    print(f"TAMIS_SEED={SEED} TAMIS_CUTS={CUTS}")
    chance = random.Random(SEED)
    confirmed: Counter[tuple[str, ...]] = Counter()
    for cut in range(CUTS):
        paths = cut_once(tmp_path / f"cut{cut}", kind, SMALL_SEGMENTS, chance)
        confirmed.update({place: len(ledger.confirmed) for place, ledger in paths.ledgers.items()})
        assert not paths.wrong(), f"cut {cut}: {paths.wrong()}"
    print(f"confirmed before the cut: {dict(confirmed)}")
    assert all(confirmed.values()), "no cut came after a confirm on one of the paths: the run is void"


def test_control_a_journal_that_does_not_sync_is_caught(tmp_path: Path) -> None:
    if reason := missing("ext4"):
        pytest.skip(reason)
    print(f"TAMIS_SEED={SEED}")
    chance = random.Random(SEED)
    for cut in range(10):
        paths = cut_once(tmp_path / f"cut{cut}", "ext4", f"{SMALL_SEGMENTS}sync = false\n", chance)
        if wrong := paths.wrong():
            print(f"caught by cut {cut + 1}: {wrong}")
            return
    pytest.fail("ten power cuts lost nothing although nothing was synced: the test cannot tell")


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
