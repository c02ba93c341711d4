from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Tamis

KEPT = Path(__file__).parent.parent.parent / "crates/core/tests/data/journal-1"
"""The log that is kept for the core's tests: 120 records in three segments."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return Path(shutil.copytree(KEPT, tmp_path / "log"))


def damage(log: Path, segment: int, offset: int) -> None:
    path = sorted(log.glob("*.segment"))[segment]
    whole = bytearray(path.read_bytes())
    whole[offset] ^= 1
    path.write_bytes(whole)


def test_a_whole_log_is_told_and_well(tamis: Tamis, log: Path) -> None:
    done = tamis("journal", "inspect", "log")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0] == "log: records 1 to 120, synced to 120; 120 intact in 3 segments, 15,792 bytes"
    assert lines[1] == "by kind: 0: 17, 1: 18, 2: 17, 3: 17, 4: 17, 5: 17, 6: 17"
    assert lines[2].split()[:4] == ["SEGMENT", "FILE", "FIRST", "RECORDS"]
    assert lines[4].split()[:4] == ["2", "00000002-00000000000000000051.segment", "51", "50"]


def test_damage_is_told_with_its_place_and_what_is_lost(tamis: Tamis, log: Path) -> None:
    damage(log, 1, 300)
    done = tamis("journal", "inspect", "log")
    assert done.returncode == 2
    assert "119 intact" in done.stdout
    assert done.stderr == (
        "error: 00000002-00000000000000000051.segment, byte 193, 130 bytes: unreadable records: record 52 is lost\n"
    )
    found = json.loads(tamis("journal", "inspect", "log", "--json").stdout)
    assert (found["first_sequence"], found["next_sequence"], found["record_count"]) == (1, 121, 119)
    assert [(place["kind"], place["first_sequence"], place["lost_count"]) for place in found["damage"]] == [
        ("records", 52, 1)
    ]


def test_records_are_listed_with_the_gaps_between_them(tamis: Tamis, log: Path) -> None:
    damage(log, 1, 300)
    sorted(log.glob("*.segment"))[0].unlink()
    done = tamis("journal", "inspect", "log", "--records", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 2
    assert [row.get("sequence", row.get("gap")) for row in rows[:3]] == [51, [52, 52], 53]
    assert rows[0] == {"sequence": 51, "time": "1970-01-01T00:00:01.000+00:00", "kind": 2, "size_bytes": 100}
    told = tamis("journal", "inspect", "log", "--records")
    assert told.stdout.splitlines()[0] == "51\t1970-01-01T00:00:01.000+00:00\t2\t100"
    assert told.stderr == "error: records 52 to 52 are missing: damaged\n"


def test_all_logs_of_a_data_directory_are_inspected(tamis: Tamis, log: Path, tmp_path: Path) -> None:
    shutil.copytree(log, tmp_path / "data/journal")
    shutil.copytree(log, tmp_path / "data/streams/abc")
    damage(tmp_path / "data/streams/abc", 0, 300)
    done = tamis("journal", "inspect", "data", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 2
    assert [(Path(it["path"]).name, len(it["damage"])) for it in found] == [("journal", 0), ("abc", 1)]


def test_kinds_of_records_have_the_names_that_the_broker_has_for_them(tamis: Tamis, log: Path, tmp_path: Path) -> None:
    journal, stream = tmp_path / "data/journal", tmp_path / "data/streams/abc"
    shutil.copytree(log, journal)
    shutil.copytree(log, stream)
    told = tamis("journal", "inspect", "data/journal").stdout.splitlines()[1]
    assert told == "by kind: 0: 17, enqueued: 17, message: 18, moved: 17, positions: 17, settled: 17, spilled: 17"
    of_stream = json.loads(tamis("journal", "inspect", "data/streams/abc", "--json").stdout)
    assert (of_stream["kinds"]["message"], of_stream["kinds"]["2"]) == (18, 17)
    listed = tamis("journal", "inspect", "data/journal", "--records").stdout.splitlines()
    assert [line.split("\t")[2] for line in listed[:3]] == ["message", "moved", "positions"]


def test_what_is_no_log_is_said(tamis: Tamis, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert tamis("journal", "inspect", "empty").stderr == "error: empty: no log of tamis is here\n"
    absent = tamis("journal", "inspect", "absent")
    assert (absent.returncode, absent.stdout) == (2, "")
    assert absent.stderr == "error: absent: expected a folder: a broker's data directory, or one log\n"


def test_a_missing_segment_is_named_and_its_loss_can_be_accepted(tamis: Tamis, log: Path) -> None:
    data = log.parent / "data"
    (data / "streams").mkdir(parents=True)
    log.rename(data / "journal")
    segments = sorted((data / "journal").glob("*.segment"))
    assert tamis("journal", "accept", "data").stderr == "nothing is missing\n"
    segments[1].unlink()
    told = tamis("journal", "inspect", "data")
    assert told.returncode == 2
    assert f"error: {segments[1].name} is missing\n" in told.stderr
    assert json.loads(tamis("journal", "inspect", "data", "--json").stdout)["missing"] == [
        f"{segments[1].name} is missing"
    ]
    done = tamis("journal", "accept", "data")
    assert (done.returncode, done.stdout) == (0, f"data/journal: {segments[1].name} is missing\n")
    assert tamis("journal", "accept", "data").stderr == "nothing is missing\n"
    again = tamis("journal", "inspect", "data")
    assert again.returncode == 2, "the records stay lost"
    assert "records 51 to 100 are lost" in again.stderr
    assert "is missing" not in again.stderr


def test_only_a_data_directory_has_losses_to_accept(tamis: Tamis, log: Path) -> None:
    for folder in ("log", "nothing"):
        done = tamis("journal", "accept", folder)
        assert done.returncode == 2
        assert "expected a broker's data directory" in done.stderr
    (log.parent / "streams" / "a.1").mkdir(parents=True)
    told = tamis("journal", "inspect", ".")
    assert told.returncode == 2
    assert "journal is missing" in told.stderr
