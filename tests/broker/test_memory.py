"""Tests how much memory the broker takes for its own, and that it gives back what it does not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tamis.broker import system
from tamis.broker.config import LimitsConfig
from tamis.broker.server import memory_watch

MIB = 1 << 20


def machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")
    return path


def test_without_a_group_the_limit_is_the_machines(tmp_path: Path) -> None:
    assert system.memory_limit_bytes(tmp_path, tmp_path / "none") == machine_bytes()


@pytest.mark.parametrize("text", ["max", "garbage", ""])
def test_a_group_without_a_limit_limits_nothing(tmp_path: Path, text: str) -> None:
    of_process = write(tmp_path / "cgroup", "0::/box\n")
    write(tmp_path / "fs/box/memory.max", text)
    assert system.memory_limit_bytes(tmp_path / "fs", of_process) == machine_bytes()


def test_the_lowest_limit_of_the_groups_around_a_process_counts(tmp_path: Path) -> None:
    of_process = write(tmp_path / "cgroup", "0::/outer/inner/own\n")
    write(tmp_path / "fs/outer/memory.max", f"{300 * MIB}\n")
    write(tmp_path / "fs/outer/inner/memory.max", f"{200 * MIB}\n")
    write(tmp_path / "fs/outer/inner/own/memory.max", "max\n")
    assert system.memory_limit_bytes(tmp_path / "fs", of_process) == 200 * MIB


def test_groups_of_version_1_are_read_and_their_root_in_a_container(tmp_path: Path) -> None:
    of_process = write(tmp_path / "cgroup", "5:cpu,memory:/host/only\n4:pids:/else\n")
    write(tmp_path / "fs/memory/memory.limit_in_bytes", f"{100 * MIB}\n")
    assert system.memory_limit_bytes(tmp_path / "fs", of_process) == 100 * MIB
    write(tmp_path / "fs/memory/host/memory.limit_in_bytes", f"{50 * MIB}\n")
    assert system.memory_limit_bytes(tmp_path / "fs", of_process) == 50 * MIB


def test_the_process_itself_counts_but_never_takes_more_than_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "memory_bytes", lambda: 60 * MIB)
    assert memory_watch.room_bytes(1024 * MIB) == 964 * MIB
    assert memory_watch.room_bytes(80 * MIB) == 40 * MIB


def test_the_default_is_half_of_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "memory_limit_bytes", lambda: 512 * MIB)
    assert LimitsConfig().memory_bytes == 256 * MIB
    monkeypatch.setattr(system, "memory_limit_bytes", lambda: 20 * MIB)
    assert LimitsConfig().memory_bytes == 16 * MIB


class FakeBroker:
    """A data plane that counts some memory."""

    counted = 0
    of_process = 0

    def note_process_memory(self, size_bytes: int) -> None:
        """Keep what it is told."""
        self.of_process = size_bytes

    def memory_counted_bytes(self) -> int:
        """Return what it counts."""
        return self.counted


def test_memory_goes_back_once_when_much_of_it_is_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    resident = [100 * MIB]
    given_back = []

    def give_back() -> None:
        given_back.append(resident[0])
        resident[0] = 120 * MIB

    monkeypatch.setattr(system, "memory_bytes", lambda: resident[0])
    monkeypatch.setattr(system, "give_memory_back", give_back)
    broker = FakeBroker()
    watch = memory_watch.MemoryWatch(broker, 0)  # type: ignore[arg-type]
    watch.check(0)
    resident[0], broker.counted = 900 * MIB, 790 * MIB
    watch.check(10)
    assert not given_back, "what counts is used"
    broker.counted = 0
    watch.check(10.1)
    assert given_back == [900 * MIB], "it is not left for later: much of it takes long"
    for second in range(100, 200):
        watch.check(second)
    assert len(given_back) == 1, "what could not be given back is not tried again and again"
    resident[0] = 300 * MIB
    watch.check(300)
    assert len(given_back) == 2


def test_while_the_data_plane_works_it_looks_often_and_gives_back_for_a_hundredth_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resident, given_back, clock = [100 * MIB], [], [0.0]

    def give_back() -> None:
        given_back.append(resident[0])
        clock[0] += 0.05
        resident[0] = 100 * MIB

    monkeypatch.setattr(system, "memory_bytes", lambda: resident[0])
    monkeypatch.setattr(system, "give_memory_back", give_back)
    monkeypatch.setattr(memory_watch.time, "perf_counter", lambda: clock[0])
    watch = memory_watch.MemoryWatch(FakeBroker(), 0)  # type: ignore[arg-type]
    watch.check(0)
    resident[0] = 200 * MIB
    watch.check_again(0.01)
    assert not given_back, "it has just looked"
    for piece in range(1, 9):
        resident[0] = 200 * MIB
        watch.check_again(piece * 0.03)
    assert len(given_back) == 5, "0.2 s at once, and what was left of them"
    for second in range(1, 11):
        resident[0] = 200 * MIB
        watch.check(second)
    assert len(given_back) == 6, "ten seconds give 0.1 s, and half of that was owed"


def test_the_data_plane_is_told_at_every_look_what_the_process_has_more_than_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = FakeBroker()
    watch = memory_watch.MemoryWatch(broker, 60 * MIB)  # type: ignore[arg-type]
    for now_s, resident in ((1.0, 100 * MIB), (1.1, 160 * MIB), (1.2, 50 * MIB)):
        monkeypatch.setattr(system, "memory_bytes", lambda resident=resident: resident)
        watch.check(now_s)
        assert broker.of_process == max(resident - 60 * MIB, 0)


FREED = """
from tamis.broker import system

system.let_memory_go_back()
before = system.memory_bytes()
kept = [b"x" * 200_000 + str(number).encode() for number in range(1_000)]
assert system.memory_bytes() > before + 150 * 1024 * 1024
kept.clear()
system.give_memory_back()
assert system.memory_bytes() < before + 50 * 1024 * 1024
"""


def test_the_allocator_gives_back_what_python_freed() -> None:
    """In a new process: this one may have room from earlier tests."""
    subprocess.run([sys.executable, "-c", FREED], check=True)
