"""Files that are rotated lose no line and give none twice, however that is done and whenever it is looked at."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tamis.adapters.sources import records
from tamis.adapters.sources.jsonl import JsonlOptions, JsonlSource
from tamis.adapters.sources.rotation import base_of, turns
from tamis.errors import AdapterError
from tests.adapters.reading import BEGINNING

Rotate = Callable[[Path], None]


def shift(path: Path) -> None:
    """Give each rotated file the next number, as logrotate does."""
    for number in range(len(list(path.parent.iterdir())), 0, -1):
        if (old := path.with_name(f"{path.name}.{number}")).exists():
            old.rename(path.with_name(f"{path.name}.{number + 1}"))


def by_rename(path: Path) -> None:
    shift(path)
    path.rename(path.with_name(f"{path.name}.1"))
    path.touch()


def by_copy(path: Path) -> None:
    shift(path)
    shutil.copyfile(path, path.with_name(f"{path.name}.1"))
    os.truncate(path, 0)


def by_day(path: Path) -> None:
    days = len(list(path.parent.iterdir()))
    path.rename(path.with_name(f"{path.stem}-2026-11-{days:02}{path.suffix}"))
    path.touch()


ROTATIONS = [by_rename, by_copy, by_day]


class Reader:
    """Reads as a pipeline does, batch by batch, and counts each line that it gets."""

    def __init__(self, path: Path) -> None:
        self.path, self.at, self.got = path, BEGINNING, Counter[int]()
        self.restart()

    def restart(self) -> None:
        self.source = JsonlSource(JsonlOptions(path=str(self.path), settle_ms=0))

    def poll(self, limit: int | None = None, meanwhile: Callable[[str], None] = lambda step: None) -> bool:
        """Read a batch; return whether there was one."""
        end = self.source.latest(self.at, limit)
        if end == self.at:
            return False
        meanwhile("seen")
        parts = self.source.plan(self.at, end)
        meanwhile("planned")
        for row in [row for part in parts for row in self.source.read(part)]:
            assert row.error is None
            self.got[json.loads(row.properties)["n"]] += 1  # type: ignore[arg-type]
        self.at = end
        return True

    def finish(self) -> None:
        while self.poll():
            pass


class Writer:
    """Appends lines with numbers."""

    def __init__(self, path: Path) -> None:
        self.path, self.numbers, self.count = path, itertools.count(), 0

    def write(self, count: int = 1, path: Path | None = None) -> None:
        with (path or self.path).open("a") as file:
            for _ in range(count):
                file.write(json.dumps({"n": next(self.numbers)}) + "\n")
        self.count += count


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "app.jsonl"


@pytest.mark.parametrize("rotate", ROTATIONS)
@pytest.mark.parametrize("whole_folder", [False, True])
@pytest.mark.parametrize("seed", range(int(os.environ.get("TAMIS_ROTATIONS", 20))))
def test_each_line_comes_once_over_random_rotations(log: Path, rotate: Rotate, whole_folder: bool, seed: int) -> None:
    chance = random.Random(seed)
    writer, reader = Writer(log), Reader(log.parent if whole_folder else log)
    writer.write(3)
    reader.poll()
    for _ in range(40):
        step = chance.choice(["write", "write", "poll", "poll", "rotate", "seen", "planned", "restart"])
        if step == "write":
            writer.write(chance.randint(1, 5))
        elif step == "poll":
            reader.poll(chance.choice([None, 1, 3]))
        elif step == "restart":
            reader.restart()
        elif log.stat().st_size:
            if step == "rotate":
                rotate(log)
            else:
                reader.poll(chance.choice([None, 2]), lambda now, then=step: rotate(log) if now == then else None)
    reader.finish()
    assert sorted(reader.got.elements()) == list(range(writer.count))


def test_what_is_written_to_a_renamed_file_is_read(log: Path) -> None:
    writer, reader = Writer(log), Reader(log)
    writer.write(2)
    reader.poll()
    log.rename(old := log.with_name("app.jsonl.1"))
    log.touch()
    reader.finish()
    writer.write(2, old)  # by a program that has not opened the new file yet
    reader.finish()
    assert reader.got == Counter(range(4))


def test_a_file_that_is_copied_and_not_yet_cut_is_read_once(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = Writer(log), Reader(log.parent)
    writer.write(2)
    reader.poll()
    shutil.copyfile(log, copy := log.with_name("app-1.jsonl"))
    reader.finish()
    writer.write(1)
    os.truncate(log, 0)
    copy.write_bytes(copy.read_bytes() + b'{"n": 2}\n')
    reader.finish()
    assert reader.got == Counter(range(3))
    monkeypatch.setattr(records, "COPY_S", -1.0)
    shutil.copyfile(copy, log.with_name("app-2.jsonl"))  # a copy that stays is a file like others
    reader.finish()
    assert reader.got == Counter([*range(3), *range(3)])


def test_a_file_that_was_cut_and_is_nowhere_else_is_an_error(log: Path) -> None:
    writer, reader = Writer(log), Reader(log)
    writer.write(2)
    reader.poll()
    os.truncate(log, 0)
    writer.write(1, log.with_name("app-errors.jsonl"))
    for _ in range(2):
        with pytest.raises(AdapterError, match="it had 18 bytes and has 0"):
            reader.poll()


def test_a_run_up_to_what_was_there_ends_before_the_rotation(log: Path) -> None:
    writer, reader = Writer(log), Reader(log)
    writer.write(4)
    ceiling = reader.source.latest(BEGINNING, None)
    by_rename(log)
    writer.write(9)
    assert reader.source.latest(BEGINNING, None, ceiling=ceiling) == BEGINNING


@pytest.mark.parametrize(
    "name",
    ["app.jsonl.1", "app.jsonl-20261124", "app-2026-11-24.jsonl", "app.2026-11-24T10:00:00Z.jsonl", "app.jsonl.old"],
)
def test_a_rotated_file_is_known_by_its_name(log: Path, name: str) -> None:
    log.touch()
    (other := log.with_name(name)).touch()
    log.with_name("app-errors.jsonl").touch()
    log.with_name("app.jsonl.1.gz").touch()
    assert list(turns(str(log))) == [str(other)]
    assert base_of(str(other)) == str(log)
