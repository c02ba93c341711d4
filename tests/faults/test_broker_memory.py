"""Memory is bounded: unconsumed messages wait on disk, and publishers are blocked before memory runs short.

`TAMIS_LONG=1 pytest tests/faults/test_broker_memory.py` is the long form."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from tests.faults.amqp import Client, Ledger, Publisher
from tests.faults.broker_process import BrokerProcess
from tests.faults.promises import times

pytestmark = pytest.mark.serial

UNCONSUMED_MB = times("TAMIS_UNCONSUMED_MB", 300, 5_000)
LIMIT_MIB, WATERMARK_MIB = (512, 256) if UNCONSUMED_MB > 1_000 else (224, 75)
QUEUE = "unread"
SIZE = 4_000


@contextlib.contextmanager
def memory_limit(name: str, mib: int) -> Iterator[Path]:
    """Make a memory cgroup for the block; a process joins it by writing its pid into `cgroup.procs`."""
    root = Path("/sys/fs/cgroup")
    if (root / "memory").is_dir():
        group, limit = root / "memory" / name, "memory.limit_in_bytes"
    else:
        group, limit = root / name, "memory.max"
    try:
        group.mkdir()
        (group / limit).write_text(str(mib << 20), encoding="ascii")
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        yield group
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "transient"])
def test_what_nobody_reads_waits_on_disk_within_the_memory_limit(tmp_path: Path, persistent: bool) -> None:
    settings = f"[limits]\nmemory_bytes = {WATERMARK_MIB << 20}\n"
    ledger = Ledger()
    count = UNCONSUMED_MB * 1_000_000 // SIZE
    with memory_limit(f"tamis-test-{os.getpid()}-{persistent}", LIMIT_MIB) as group:
        join = (group / "cgroup.procs").open("wb", buffering=0)
        broker = BrokerProcess(tmp_path / "data", settings, preexec=lambda: join.write(b"0"))
        with join, broker.start():
            client = Client(broker.port)
            client.call(commands.Queue.Declare(queue=QUEUE, durable=True), "Queue.DeclareOk")
            publisher = Publisher(broker.port, QUEUE, "p", ledger, size=SIZE, persistent=persistent)
            publisher.start()
            while len(ledger.confirmed) < count and not publisher.blocked.is_set() and publisher.error is None:
                time.sleep(0.1)
            publisher.stop()
            assert publisher.error is None, broker.said()
            state = client.call(commands.Queue.Declare(queue=QUEUE, passive=True), "Queue.DeclareOk", 120)
            assert len(ledger.confirmed) <= state.message_count <= len(ledger.attempted)
            ended = "blocked" if publisher.blocked.is_set() else "all taken"
            told = f"{state.message_count} messages of {SIZE} bytes, {ended}"
            print(f"{told}, peak {peak_mib(broker.pid):.0f} MiB of {LIMIT_MIB}")
            assert broker.running(), f"killed for its memory: {broker.said()}"
            client.send(commands.Basic.Consume(queue=QUEUE, no_ack=True))
            taken, until = 0, time.monotonic() + 120
            while taken < state.message_count and time.monotonic() < until:
                taken += sum(1 for _ in client.deliveries(1.0))
            assert taken == state.message_count
            assert broker.running()
