"""The broker survives power cuts, errors of fdatasync and full disks.

`TAMIS_LONG=1 pytest tests/faults/test_broker_disk.py` is the long form; TAMIS_SEED repeats a run."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from pamqp import commands

from tests.faults.amqp import BrokerClosedError, BrokerGoneError, Client, Consumer, Ledger, Publisher, drain
from tests.faults.broker_process import BrokerProcess
from tests.faults.disks import LoopDisk, loop_disk, missing
from tests.faults.idle import IdleLoop
from tests.faults.paths import Paths
from tests.faults.paths import declare as declare_all
from tests.faults.promises import times

pytestmark = pytest.mark.serial

CUTS = times("TAMIS_CUTS", 3, 400)
ERRORS = times("TAMIS_ERRORS", 3, 50)
SEED = int(os.environ.get("TAMIS_SEED", random.SystemRandom().randrange(2**32)))
QUEUE = "work"
SEGMENT_BYTES = 1 << 20
SMALL_SEGMENTS = f"[journal]\nsegment_bytes = {SEGMENT_BYTES}\n"
EXITS_S_MAX, BLOCKED_S_MAX, GOES_ON_S_MAX = 1.0, 1.0, 5.0
"""The promised times; what an idle process waits at the same time is added, twice: for the broker and for the test."""
LATE_S_MIN = 0.05
"""A confirm that comes later than that was not on its way at the time of the error."""
ENDS_S_MAX = 3.0
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


@dataclass(frozen=True)
class BadSync:
    """A run in which an fdatasync went wrong: the times of confirms, and of the broker's end, in seconds after that."""

    confirms_s: list[float]
    ended_s: float | None
    noise_s: float

    def late(self) -> list[float]:
        """Return the confirms that came after it; those on their way are no matter."""
        return [at for at in self.confirms_s if at > LATE_S_MIN + self.noise_s]


def run_with_bad_sync(folder: Path, fault: str, ledger: Ledger) -> BadSync | None:
    """Publish until an fdatasync goes wrong, and a second longer. None when it did before anything was published.

    Args:
        fault: what strace does at the fdatasync, such as ``error=EIO:when=3``.
    """
    trace = folder / "trace"
    with BrokerProcess(folder / "data") as broker:  # the syncs of a first start happen before
        declare(broker.port)
        assert broker.stop() == 0
    inject = ["strace", "-f", "-ttt", "-e", "trace=fdatasync", "-o", str(trace), "-e", f"inject=fdatasync:{fault}"]
    broker = BrokerProcess(folder / "data", wrapper=inject)
    with IdleLoop() as idle:
        try:
            with broker.start():
                publisher = Publisher(broker.port, QUEUE, "p", ledger, window=20)
                publisher.start()
                injected_at = wait_for_fault(trace)
                ended_at = wait_for_end(broker, injected_at)
                publisher.stop()
        except (RuntimeError, BrokerGoneError):
            assert "INJECTED" in trace.read_text(encoding="utf-8"), broker.said()
            return None
    offset = time.time() - time.monotonic()
    noise_s = 2 * idle.longest_s(injected_at - offset, time.monotonic())
    confirms = [at - injected_at for at in publisher.confirm_times]
    return BadSync(confirms, None if ended_at is None else ended_at - injected_at, noise_s)


def wait_for_fault(trace: Path) -> float:
    """Return the time at which strace injected a fault."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if found := re.search(r"^\S+\s+([\d.]+) fdatasync\(.*INJECTED", trace.read_text(encoding="utf-8"), re.M):
            return float(found[1])
        time.sleep(0.01)
    raise AssertionError("no fault was injected: the run is void")


def wait_for_end(broker: BrokerProcess, injected_at: float) -> float | None:
    """Return the time at which the broker ended, or None if it runs on."""
    while time.time() < injected_at + ENDS_S_MAX:
        if not broker.running():
            return time.time()
        time.sleep(0.002)
    return None


@pytest.mark.timeout(120 + 10 * ERRORS)
def test_after_an_error_of_fdatasync_nothing_is_confirmed(tmp_path: Path) -> None:
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    chance = random.Random(SEED)
    print(f"TAMIS_SEED={SEED} TAMIS_ERRORS={ERRORS}")
    for turn in range(ERRORS):
        when = turn + 1 if ERRORS >= 50 else chance.randrange(3, 50)
        ledger, folder = Ledger(), tmp_path / f"turn{turn}"
        folder.mkdir()
        run = run_with_bad_sync(folder, f"error=EIO:when={when}", ledger)
        said = (folder / "data.log").read_text(encoding="utf-8")
        assert "Input/output error" in said or "EIO" in said
        if run is None:
            continue
        print(f"when={when}: ended {run.ended_s} s after the error (noise {run.noise_s:.3f} s)")
        assert not run.late(), f"when={when}: {len(run.late())} confirms after the error"
        assert run.ended_s is not None, f"when={when}: it runs on"
        assert run.ended_s < EXITS_S_MAX + run.noise_s
        with BrokerProcess(folder / "data") as again:
            drain(again.port, QUEUE, ledger)
        assert not ledger.lost
        assert not ledger.phantoms


def test_control_a_disk_that_hides_its_errors_is_caught(tmp_path: Path) -> None:
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    run = run_with_bad_sync(tmp_path, "retval=0:when=10+", Ledger())
    assert run is not None
    assert run.late(), "the test would not see confirms after an error"
    assert run.ended_s is None, "the test would not see a broker that runs on"


@dataclass(frozen=True)
class FullDisk:
    """How long after the disk was full the publisher was told to wait, or None, and how late the machine was."""

    blocked_s: float | None
    noise_s: float


def fill(disk: LoopDisk, publisher: Publisher, limit_s: float) -> FullDisk:
    """Wait until the publisher is told to wait, at most `limit_s` after the disk has no room for another segment."""
    full_at, until = None, time.monotonic() + 60
    with IdleLoop() as idle:
        while not publisher.blocked.is_set() and time.monotonic() < until:
            state = os.statvfs(disk.path)
            if full_at is None and state.f_bavail * state.f_frsize < SEGMENT_BYTES:
                full_at = time.monotonic()
                until = full_at + limit_s
            time.sleep(0.005)
    now = time.monotonic()
    if not publisher.blocked.is_set() or publisher.blocked_at is None:
        return FullDisk(None, 0.0)
    since = full_at or now
    return FullDisk(max(0.0, publisher.blocked_at - since), 2 * idle.longest_s(since, now))


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
            full = fill(disk, publisher, 20)
            print(f"blocked {full.blocked_s} s after the disk was full (noise {full.noise_s:.3f} s)")
            assert full.blocked_s is not None, f"never blocked: {broker.said()}"
            assert full.blocked_s < BLOCKED_S_MAX + full.noise_s
            consumer = Consumer(broker.port, QUEUE, ledger)
            consumer.start()  # consumers go on
            began = time.monotonic()
            while len(consumer.bodies) < 1_000 and time.monotonic() < began + 10:
                time.sleep(0.05)
            assert len(consumer.bodies) >= 1_000
            with IdleLoop() as idle:
                began = time.monotonic()
                filler.unlink()  # room again
                while publisher.blocked.is_set() and time.monotonic() < began + 20:
                    time.sleep(0.01)
                took_s = time.monotonic() - began
            print(f"goes on {took_s:.2f} s after there is room")
            assert took_s < GOES_ON_S_MAX + 2 * idle.longest_s(began, began + took_s)
            attempted = len(ledger.attempted)
            time.sleep(0.5)
            publisher.stop()
            consumer.stop()
            assert publisher.error is None
            assert len(ledger.attempted) > attempted
            drain(broker.port, QUEUE, ledger)
        assert not ledger.lost
        assert not ledger.phantoms


def test_control_a_publisher_that_is_never_blocked_is_caught(tmp_path: Path) -> None:
    if reason := missing("ext4"):
        pytest.skip(reason)
    with loop_disk(tmp_path / "disk", "ext4", 96) as disk:
        broker = BrokerProcess(tmp_path / "data", SMALL_SEGMENTS)  # elsewhere: there is room
        with broker.start():
            declare(broker.port)
            publisher = Publisher(broker.port, QUEUE, "p", Ledger(), size=2_000)
            publisher.start()
            fill_up(disk)
            assert fill(disk, publisher, 2 * BLOCKED_S_MAX).blocked_s is None
            publisher.stop()


def fill_up(disk: LoopDisk) -> None:
    """Leave no room on a disk."""
    with contextlib.suppress(OSError), (disk.path / "filler").open("wb") as filler:
        while True:
            filler.write(b"x" * SEGMENT_BYTES)
            filler.flush()
