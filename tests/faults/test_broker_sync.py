"""After an error of fdatasync nothing is confirmed, and the broker ends.

`TAMIS_LONG=1 pytest tests/faults/test_broker_sync.py` is the long form; TAMIS_SEED repeats a run."""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from pamqp import commands

from tests.faults.amqp import BrokerGoneError, Client, Ledger, Publisher, drain
from tests.faults.broker_process import BrokerProcess
from tests.faults.idle import IdleLoop
from tests.faults.promises import times

pytestmark = pytest.mark.serial

ERRORS = times("TAMIS_ERRORS", 3, 50)
SEED = int(os.environ.get("TAMIS_SEED", random.SystemRandom().randrange(2**32)))
QUEUE = "work"
EXITS_S_MAX = 1.0
"""The promised time; what an idle process waits at the same time is added, twice: for the broker and for the test."""
LATE_S_MIN = 0.05
"""A confirm that comes later than that was not on its way at the time of the error."""
ENDS_S_MAX = 3.0


def declare(port: int) -> None:
    client = Client(port)
    client.call(commands.Queue.Declare(queue=QUEUE, durable=True), "Queue.DeclareOk")
    client.close()


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
                try:
                    publisher = Publisher(broker.port, QUEUE, "p", ledger, window=20)
                except BrokerGoneError:
                    broker.wait(ENDS_S_MAX)  # it says why, and ends by itself
                    raise
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
