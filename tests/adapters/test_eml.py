from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tamis.adapters.options import MailOptions
from tamis.adapters.sources import whole_files as eml_module
from tamis.adapters.sources.eml import EmlSource
from tamis.adapters.sources.source import Offset
from tamis.errors import AdapterError
from tests.adapters.reading import BEGINNING, between, mail, read_all, subjects


def source_of(path: Path, **options: object) -> EmlSource:
    return EmlSource(MailOptions(path=str(path), **{"settle_ms": 100} | options))  # type: ignore[arg-type]


def put(folder: Path, *numbers: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (folder / f"{number:03}.eml").write_bytes(mail(number))


def settled(source: EmlSource, start: Offset) -> Offset:
    source.wait_until_settled()
    return source.latest(start, None)


def test_each_file_is_a_row_and_folders_below_count(tmp_path: Path) -> None:
    put(tmp_path / "alt.atheism", 1)
    put(tmp_path / "alt.atheism" / "more", 2)
    put(tmp_path / ".hidden", 3)
    (tmp_path / "notes.txt").write_text("not mail")
    rows = read_all(source_of(tmp_path))
    assert sorted(subjects(rows)) == ["number 1", "number 2"]
    assert {row.offset for row in rows} == {0}
    assert sorted(row.properties["source"] for row in rows if isinstance(row.properties, dict)) == [
        "alt.atheism",
        "more",
    ]


def test_new_files_are_read_once_and_a_replay_gives_the_same_rows(tmp_path: Path) -> None:
    source = source_of(tmp_path)
    at, ranges, seen = BEGINNING, [], []
    for batch in range(5):
        put(tmp_path, *range(batch * 10, batch * 10 + 10))
        end = settled(source, at)
        ranges.append((at, end))
        seen.append([row.partition for row in between(source, at, end)])
        at = end
    assert sorted(path for batch in seen for path in batch) == [
        str(tmp_path / f"{number:03}.eml") for number in range(50)
    ]
    assert [[row.partition for row in between(source, start, end)] for start, end in ranges] == seen
    assert source.latest(at, None) == at


def test_nothing_is_missed_while_files_come_faster_than_the_clock_ticks(tmp_path: Path) -> None:
    source = source_of(tmp_path, settle_ms=20)
    names = list(range(400))
    random.Random(7).shuffle(names)
    at, seen = BEGINNING, []
    for number in names:
        put(tmp_path, number)
        end = source.latest(at, 13)
        seen += [row.partition for row in between(source, at, end)]
        at = end
    while (end := settled(source, at)) != at:
        seen += [row.partition for row in between(source, at, end)]
        at = end
    assert sorted(seen) == sorted(str(tmp_path / f"{number:03}.eml") for number in names)


def test_young_files_wait(tmp_path: Path) -> None:
    source = source_of(tmp_path, settle_ms=60_000)
    put(tmp_path, 1)
    assert source.latest(BEGINNING, None) == BEGINNING
    assert source.latest(BEGINNING, None, settled=True) != BEGINNING


def test_a_folder_that_is_moved_here_is_read_although_its_files_are_old(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", 1, 2)
    time.sleep(0.02)
    put(tmp_path / "mail", 3)
    source = source_of(tmp_path / "mail", settle_ms=0)
    end = source.latest(BEGINNING, None, settled=True)
    (tmp_path / "elsewhere").rename(tmp_path / "mail" / "moved")
    after = source.latest(end, None, settled=True)
    assert sorted(subjects(between(source, end, after))) == ["number 1", "number 2"]


def test_the_oldest_come_first_and_no_batch_is_larger_than_asked(tmp_path: Path) -> None:
    put(tmp_path / "a", *range(7))
    put(tmp_path / "b", *range(7))
    source = source_of(tmp_path)
    at, sizes = BEGINNING, []
    while (end := source.latest(at, 4, settled=True)) != at:
        sizes.append(len(between(source, at, end)))
        at = end
    assert sizes == [4, 4, 4, 2]


def test_a_file_that_is_changed_is_read_again_at_the_same_place(tmp_path: Path) -> None:
    put(tmp_path, 1, 2)
    source = source_of(tmp_path)
    end = settled(source, BEGINNING)
    (tmp_path / "001.eml").write_bytes(mail(7))
    (row,) = between(source, end, settled(source, end))
    assert (row.partition, row.offset, subjects([row])) == (str(tmp_path / "001.eml"), 0, ["number 7"])


def test_a_file_that_cannot_be_read_is_a_dead_letter_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eml_module, "MESSAGE_BYTES_MAX", 300)
    put(tmp_path, 1, 2, 3)
    (tmp_path / "001.eml").write_bytes(b"")
    (tmp_path / "004.eml").write_bytes(mail(4, "x" * 400))
    source = source_of(tmp_path)
    parts = source.plan(BEGINNING, source.latest(BEGINNING, None, settled=True))
    (tmp_path / "002.eml").unlink()
    by_name = {Path(row.partition).name: row for part in parts for row in source.read(part)}
    assert by_name["001.eml"].error == "the message is empty"
    assert by_name["002.eml"].error == "the file cannot be read: No such file or directory"
    assert by_name["003.eml"].error is None
    assert "at most 300 are read" in str(by_name["004.eml"].error)


def test_a_pattern_says_which_files_are_mail(tmp_path: Path) -> None:
    (tmp_path / "101").write_bytes(mail(1))
    put(tmp_path, 2)
    assert subjects(read_all(source_of(tmp_path, pattern="[0-9]??"))) == ["number 1"]
    assert subjects(read_all(source_of(tmp_path / "*.eml"))) == ["number 2"]
    assert subjects(read_all(source_of(tmp_path / "101"))) == ["number 1"]


def test_an_end_is_not_passed(tmp_path: Path) -> None:
    put(tmp_path, 1, 2)
    source = source_of(tmp_path)
    ceiling = settled(source, BEGINNING)
    put(tmp_path, 3)
    put(tmp_path / "new", 4)
    source.wait_until_settled()
    assert source.latest(BEGINNING, None, ceiling=ceiling) == ceiling
    assert source.latest(ceiling, None, ceiling=ceiling) == ceiling


def test_folders_that_are_gone_leave_the_offset(tmp_path: Path) -> None:
    put(tmp_path / "old", 1)
    source = source_of(tmp_path)
    end = settled(source, BEGINNING)
    (tmp_path / "old" / "001.eml").unlink()
    (tmp_path / "old").rmdir()
    assert source.latest(end, None) == end, "nothing new, no batch"
    put(tmp_path / "new", 2)
    assert [os.path.basename(place) for place in settled(source, end)["places"]] == ["new"]  # noqa: PTH119


def test_a_name_that_is_no_text_and_a_pipe_do_no_harm(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.eml")
    (tmp_path / os.fsdecode(b"caf\xe9.eml")).write_bytes(mail(1))
    (row,) = read_all(source_of(tmp_path))
    assert row.partition == f"{tmp_path}/caf\\xe9.eml"
    with pytest.raises(AdapterError, match="a pipe or a device"):
        source_of(tmp_path / "pipe.eml").check()


def test_files_that_were_just_moved_here_are_part_of_what_there_is_now(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", 1)
    os.utime(tmp_path / "elsewhere" / "001.eml", (1_000, 1_000))
    (tmp_path / "mail").mkdir()
    (tmp_path / "elsewhere" / "001.eml").rename(tmp_path / "mail" / "001.eml")
    source = source_of(tmp_path / "mail")
    assert len(between(source, BEGINNING, settled(source, BEGINNING))) == 1
