"""Tests how much memory the broker takes for its own, and that it gives back what it does not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tamis.broker import system
from tamis.broker.config import LimitsConfig
from tamis.broker.server import data_plane

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
    assert data_plane.room_bytes(1024 * MIB) == 964 * MIB
    assert data_plane.room_bytes(80 * MIB) == 40 * MIB


def test_the_default_is_half_of_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "memory_limit_bytes", lambda: 512 * MIB)
    assert LimitsConfig().memory_bytes == 256 * MIB
    monkeypatch.setattr(system, "memory_limit_bytes", lambda: 20 * MIB)
    assert LimitsConfig().memory_bytes == 16 * MIB


class FakeBroker:
    """A data plane that has nothing to do."""

    of_process = 0

    def tick(self, now_us: int, wall_us: int) -> None:
        """Do nothing."""

    def note_process_memory(self, size_bytes: int) -> None:
        """Keep what it is told."""
        self.of_process = size_bytes


def test_the_data_plane_is_told_at_every_tick_what_the_process_has_more_than_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, plane = FakeBroker(), data_plane.DataPlane.__new__(data_plane.DataPlane)
    plane.broker, plane._at_first_bytes = cast(Any, broker), 60 * MIB
    monkeypatch.setattr(plane, "flush", lambda: None)
    for resident in (100 * MIB, 160 * MIB, 50 * MIB):
        monkeypatch.setattr(system, "memory_bytes", lambda resident=resident: resident)
        plane.tick()
        assert broker.of_process == max(resident - 60 * MIB, 0)


FREED = """
from tamis.broker import system

system.let_memory_go_back()
before = system.memory_bytes()
kept = [b"x" * 200_000 + str(number).encode() for number in range(1_000)]
assert system.memory_bytes() > before + 150 * 1024 * 1024
kept.clear()
assert system.memory_bytes() < before + 50 * 1024 * 1024
"""


def test_the_allocator_of_python_gives_back_what_is_freed() -> None:
    """In a new process: this one may have room from earlier tests."""
    subprocess.run([sys.executable, "-c", FREED], check=True)


ENGINE_FREED = """
import time
import tamis
from tamis.broker import system

system.let_memory_go_back()
before = system.memory_bytes()
engine = tamis.Engine()
engine.add_many((number, tamis.selector(f"a > {number} AND b = 'text {number}'")) for number in range(100_000))
taken = system.memory_bytes() - before
assert taken > 20 * 1024 * 1024, taken
del engine
end = time.monotonic() + 30
while (left := system.memory_bytes() - before) > taken / 2 and time.monotonic() < end:
    time.sleep(0.05)
assert left <= taken / 2, (left, taken)
"""


def test_the_allocator_of_the_core_gives_back_what_is_freed_while_nothing_else_happens() -> None:
    subprocess.run([sys.executable, "-c", ENGINE_FREED], check=True)
