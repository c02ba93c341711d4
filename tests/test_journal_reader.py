"""Tests `tamis._core.JournalReader` with the log of the core's tests: 120 records in three segments."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tamis._core import JournalReader
from tamis.errors import JournalError

KEPT = Path(__file__).parent.parent / "crates/core/tests/data/journal-1"
MASK = 2**64 - 1


def body_of(number: int) -> bytes:
    """Return the body of record `number` in the core's tests: SplitMix64 seeded with the number."""
    state, body = number, bytearray()
    for _ in range(100):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & MASK
        body.append((mixed ^ (mixed >> 31)) & 0xFF)
    return bytes(body)


def record_of(number: int) -> tuple[int, int, int, bytes]:
    return number, 1_000_000 + number * 10, number % 7, body_of(number)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return Path(shutil.copytree(KEPT, tmp_path / "log"))


def test_everything_is_read_in_order_whatever_the_size_of_the_batches(log: Path) -> None:
    for count_max, bytes_max in [(1000, 4_194_304), (7, 4_194_304), (1000, 250), (1, 1)]:
        reader = JournalReader(log)
        records = []
        while True:
            batch, gaps = reader.read(count_max, bytes_max)
            assert len(batch) <= count_max
            assert sum(len(record[3]) for record in batch) < bytes_max + 100
            assert gaps == []
            if not batch:
                break
            records += batch
        assert records == [record_of(number) for number in range(1, 121)]
        assert reader.position == 121


def test_a_reader_begins_where_it_is_told(log: Path) -> None:
    assert JournalReader(log, 77).read(1) == ([record_of(77)], [])
    assert JournalReader(str(log), time_us=1_000_000 + 501).read(1) == ([record_of(51)], [])
    assert JournalReader(log, 500).read() == ([], [])
    reader = JournalReader(log)
    assert (reader.first_sequence(), reader.next_sequence(), reader.position) == (1, 121, 1)
    reader.seek(120)
    assert reader.read() == ([record_of(120)], [])
    with pytest.raises(ValueError, match="expected start or time_us, not both"):
        JournalReader(log, 5, time_us=1)


def test_what_was_removed_and_what_is_damaged_are_gaps(log: Path) -> None:
    segments = sorted(log.glob("*.segment"))
    segments[0].unlink()
    place = segments[1].read_bytes().index(body_of(60)) + 50
    with segments[1].open("r+b") as file:
        file.seek(place)
        file.write(b"\xff\x00\xff")
    reader = JournalReader(log, 5)
    records, gaps = reader.read()
    assert gaps == [(5, 50, "removed"), (60, 60, "records")]
    assert records == [record_of(number) for number in range(51, 121) if number != 60]


def test_inspecting_counts_records_and_says_what_is_wrong(log: Path) -> None:
    clean = JournalReader.inspect(log)
    assert clean["damage"] == []
    assert clean["synced"] == 120
    assert [segment["first_sequence"] for segment in clean["segments"]] == [1, 51, 101]
    assert [segment["record_count"] for segment in clean["segments"]] == [50, 50, 20]
    assert [segment["is_sealed"] for segment in clean["segments"]] == [True, True, False]
    assert sum(clean["segments"][0]["kinds"].values()) == 50
    assert clean["segments"][1]["first_time_us"] == 1_000_510
    middle = log / clean["segments"][1]["file"]
    content = bytearray(middle.read_bytes())
    content[content.index(body_of(60))] ^= 1
    content[-10] ^= 1  # in the trailer
    middle.write_bytes(content)
    damage = JournalReader.inspect(log)["damage"]
    assert [(found["kind"], found["segment"], found["lost_count"]) for found in damage] == [
        ("index", 2, 0),
        ("records", 2, 1),
    ]
    assert damage[1]["first_sequence"] == 60


def test_what_is_no_log_is_refused(tmp_path: Path, log: Path) -> None:
    with pytest.raises(FileNotFoundError):
        JournalReader(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(JournalError, match="no log of tamis is here"):
        JournalReader(tmp_path / "empty")
    for path in log.iterdir():
        path.write_bytes(bytes(100))
    with pytest.raises(JournalError, match="neither the mark nor the header"):
        JournalReader.inspect(log)
