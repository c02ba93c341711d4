"""Folders: one that cannot be listed stops no other, and looks do not grow with what was read, and miss nothing."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest

from tamis.adapters.options import MailOptions
from tamis.adapters.sources import folders, whole_files
from tamis.adapters.sources.eml import EmlSource
from tamis.adapters.sources.jsonl import JsonlOptions, JsonlSource
from tamis.adapters.sources.mbox import MboxSource
from tamis.adapters.sources.source import Offset
from tests.adapters.reading import BEGINNING, between, join_mbox, mail, read_all, subjects

KINDS = [(EmlSource, "1.eml"), (MboxSource, "1")]
Kind = type[EmlSource | MboxSource]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def put(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(mail(number) if path.suffix == ".eml" else join_mbox([mail(number)]))


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Folders that the system refuses to list."""
    refused: set[str] = set()
    real = os.scandir

    def scandir(path: str) -> object:
        if os.path.basename(path) in refused:  # noqa: PTH119
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return refused


@pytest.mark.parametrize("path", ["", "*/*"])
@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_a_folder_that_cannot_be_listed_is_told_once_and_stops_no_other(
    kind: Kind, name: str, path: str, tmp_path: Path, closed: set[str]
) -> None:
    for number, folder in enumerate(("a", "b", "c")):
        put(tmp_path / folder / name, number)
    source = kind(MailOptions(path=f"{tmp_path}/{path}" if path else str(tmp_path), settle_ms=0))
    closed.add("b")

    def new(start: Offset) -> tuple[Offset, list[str]]:
        end = source.latest(start, None, settled=True)
        return end, sorted(subjects(between(source, start, end)))

    refusal = f"{tmp_path}/b: cannot be read: Permission denied"
    end, rows = new(BEGINNING)
    assert rows == sorted(["number 0", "number 2", refusal])
    assert new(end) == (end, [])
    put(tmp_path / "a" / name.replace("1", "2"), 7)
    end, rows = new(end)
    assert rows == ["number 7"]
    closed.clear()
    end, rows = new(end)
    assert rows == ["number 1"]
    assert new(end) == (end, [])
    closed.add("b")
    end, rows = new(end)
    assert rows == [refusal], "it is told again when it happens again"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open every folder")
@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_permissions_that_the_system_refuses(tmp_path: Path, mode: int) -> None:
    put(tmp_path / "a" / "1.eml", 1)
    put(tmp_path / "b" / "2.eml", 2)
    (tmp_path / "b").chmod(mode)
    try:
        rows = read_all(EmlSource(MailOptions(path=str(tmp_path))))
    finally:
        (tmp_path / "b").chmod(0o755)
    assert sorted(row.error is None for row in rows) == [False, True]


def test_a_folder_whose_files_may_not_be_opened_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a" / "1.eml", 1)
    put(tmp_path / "b" / "2.eml", 2)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **how: not path.endswith("/b") and real(path, mode, **how))
    rows = read_all(EmlSource(MailOptions(path=str(tmp_path))))
    assert sorted(subjects(rows)) == sorted(
        [f"{tmp_path}/b: cannot be read: the files in it may not be opened", "number 1"]
    )


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_a_look_does_not_grow_with_what_was_read(
    kind: Kind, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(folders, "FEW_FILES", 10)
    for number in range(50):
        put(tmp_path / "old" / f"{number}{name}", number)
    for root, _, names in os.walk(tmp_path):
        for old in names:
            os.utime(f"{root}/{old}", (1_000, 1_000))
        os.utime(root, (1_000, 1_000))
    source = kind(MailOptions(path=str(tmp_path), settle_ms=0))
    source.folders.clock = clock
    monkeypatch.setattr("tamis.adapters.sources.records._ACTIVE_NS", -1)  # what was just written counts as old
    end = source.latest(BEGINNING, None)
    assert len(between(source, BEGINNING, end)) == 50
    clock.now += 1
    assert source.latest(end, None) == end
    touched: list[str] = []
    real_scandir, real_status = os.scandir, whole_files.status_of

    def scandir(path: str) -> object:
        touched.append(path)
        return real_scandir(path)

    def status_of(path: str) -> object:
        touched.append(path)
        return real_status(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(whole_files, "status_of", status_of)
    monkeypatch.setattr("tamis.adapters.sources.records.status_of", status_of)
    clock.now += 0.001
    assert source.latest(end, None) == end
    assert touched == []
    put(tmp_path / "new" / f"50{name}", 50)
    clock.now += 0.001
    after = source.latest(end, None)
    assert subjects(between(source, end, after)) == ["number 50"]
    assert not any("/old/" in path for path in touched)


@pytest.mark.parametrize("kind", ["eml", "jsonl"])
@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_missed_whatever_happens_between_looks(
    kind: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "FEW_FILES", 3)
    monkeypatch.setattr(folders, "_TICK_NS", 20_000_000)
    chance, clock = random.Random(seed), Clock()
    options = {"path": str(tmp_path), "settle_ms": 10}
    source = EmlSource(MailOptions(**options)) if kind == "eml" else JsonlSource(JsonlOptions(**options))  # type: ignore[arg-type]
    source.folders.clock = clock
    at, seen, expected = BEGINNING, [], []

    def look(limit: int | None) -> None:
        nonlocal at
        end = source.latest(at, limit)
        rows = between(source, at, end)
        assert all(row.error is None for row in rows)
        texts = (row.properties if kind == "eml" else json.loads(str(row.properties)) for row in rows)
        seen.extend(one["subject"] for one in texts)  # type: ignore[index]
        at = end

    for count in range(120):
        files = sorted(tmp_path.rglob(f"*.{kind}"))
        path = tmp_path / chance.choice(["", "a", "b", "a/c"]) / f"{chance.randrange(40)}.{kind}"
        if files and chance.random() < 0.4:
            path = chance.choice(files)
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "jsonl":
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"subject": f"number {count}"}) + "\n")
            expected.append(f"number {count}")
        elif path not in files or f"number {path.read_bytes().split()[4].decode()}" in seen:  # new, or was read
            path.write_bytes(mail(count))
            expected.append(f"number {count}")
        if chance.random() < 0.7:
            clock.now += chance.choice([0, 0.0001, 0.001, 0.01])
            time.sleep(chance.choice([0, 0.005, 0.02]))
            look(chance.choice([None, 1, 3]))
    for _ in range(40):
        time.sleep(0.015)
        clock.now += 10
        look(7)
    assert sorted(seen) == sorted(expected)
