"""A file that was replaced is noticed, and its new messages are told from those that it had before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from tamis.adapters.options import MailOptions
from tamis.adapters.sources import records
from tamis.adapters.sources.eml import EmlSource
from tamis.adapters.sources.jsonl import JsonlOptions, JsonlSource
from tamis.adapters.sources.mbox import MboxSource
from tamis.errors import AdapterError
from tests.adapters.reading import BEGINNING, between, join_mbox, mail, read_all


def jsonl(path: Path) -> JsonlSource:
    return JsonlSource(JsonlOptions(path=str(path)))


def names(source: JsonlSource | MboxSource | EmlSource) -> list[tuple[str, int, str]]:
    """Return what names each message that exists."""
    return [(row.partition, row.offset, row.digest) for row in read_all(source)]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"price": 11}\n{"price": 12}\n')
    return path


@pytest.mark.parametrize("how", ["in place", "by another file", "while nobody looked"])
@pytest.mark.parametrize("keeps_its_time", [False, True])
def test_a_file_of_the_same_length_is_noticed(lines: Path, how: str, keeps_its_time: bool) -> None:
    source = jsonl(lines)
    end = source.latest(BEGINNING, None, settled=True)
    assert source.latest(end, None) == end
    before = lines.stat()
    other = lines.with_suffix(".other")
    (lines if how == "in place" else other).write_bytes(b'{"price": 13}\n{"price": 14}\n')
    if how != "in place":
        other.replace(lines)
    if keeps_its_time:
        os.utime(lines, ns=(before.st_atime_ns, before.st_mtime_ns))
    if how == "while nobody looked":
        source = jsonl(lines)
    with pytest.raises(AdapterError, match="the file was replaced.*'checkpoints'.*messages that are new are notified"):
        source.latest(end, None)


def test_a_file_that_was_only_touched_goes_on(lines: Path) -> None:
    source = jsonl(lines)
    end = source.latest(BEGINNING, None, settled=True)
    os.utime(lines, (1_000, 1_000))
    copy = lines.with_suffix(".copy")
    copy.write_bytes(lines.read_bytes())
    copy.replace(lines)
    assert source.latest(end, None, settled=True) == end


def test_a_file_is_looked_at_again_only_if_it_has_changed(lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = jsonl(lines)
    end = source.latest(BEGINNING, None, settled=True)
    source.latest(end, None)
    monkeypatch.setattr("tamis.adapters.sources.records.open_file", lambda path: pytest.fail(f"{path} was opened"))
    assert source.latest(end, None) == end


def test_a_message_keeps_its_name_until_its_bytes_change(lines: Path) -> None:
    before = names(jsonl(lines))
    lines.write_bytes(b'{"price": 11}\n{"price": 99}\n')
    after = names(jsonl(lines))
    assert after[0] == before[0]
    assert after[1][:2] == before[1][:2]
    assert after[1] != before[1]


@pytest.mark.parametrize("kind", ["jsonl", "mbox"])
def test_a_message_keeps_its_name_when_more_follow_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"in.{kind}"
    first, rest = {
        "jsonl": (b'{"price": 11}', b'\n{"price": 12}\n'),
        "mbox": (b"From x\nSubject: 1\n\nHello", b"\n\n" + join_mbox([mail(2)])),
    }[kind]
    source = jsonl(path) if kind == "jsonl" else MboxSource(MailOptions(path=str(path)))
    path.write_bytes(first)
    (alone,) = names(source)
    path.write_bytes(first + rest)
    assert names(source)[0] == alone
    path.write_bytes(rest.lstrip(b"\n"))
    assert alone not in names(source)


def test_two_files_of_one_name_are_two_messages(tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    source = EmlSource(MailOptions(path=str(tmp_path)))
    path.write_bytes(mail(1))
    before = names(source)
    path.touch()
    assert names(source) == before
    path.write_bytes(mail(2))
    (after,) = names(source)
    assert after[:2] == before[0][:2]
    assert after != before[0]


def test_a_file_that_is_still_being_written_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    whole = mail(1, "the words that match come last: frost")
    path.write_bytes(whole[:60])
    source = EmlSource(MailOptions(path=str(tmp_path)))
    assert source.settle_s == 1.0
    assert source.latest(BEGINNING, None) == BEGINNING
    path.write_bytes(whole)
    source.wait_until_settled()
    (part,) = source.plan(BEGINNING, source.latest(BEGINNING, None))
    (row,) = source.read(part)
    assert row.body == "the words that match come last: frost"


def _refuse(monkeypatch: pytest.MonkeyPatch, refused: set[str]) -> None:
    def guarded(path: str) -> BinaryIO:
        if Path(path).name in refused:
            raise AdapterError(f"{path}: cannot be read: Permission denied")
        return Path(path).open("rb")

    monkeypatch.setattr(records, "open_file", guarded)


def test_a_file_that_cannot_be_read_is_told_once_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n')
    (tmp_path / "b.jsonl").write_text('{"n": 2}\n')
    refused = {"b.jsonl"}
    _refuse(monkeypatch, refused)
    source, at = jsonl(tmp_path), BEGINNING

    def rows() -> list[str | None]:
        nonlocal at
        start, at = at, source.latest(at, None, settled=True)
        return [row.error or str(row.properties) for row in between(source, start, at)]

    assert rows() == ['{"n":1}', f"{tmp_path}/b.jsonl: cannot be read: Permission denied"]
    assert rows() == []
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"n": 3}\n')
    assert rows() == ['{"n":3}']
    refused.clear()
    assert rows() == ['{"n":2}']
    assert rows() == []


def test_a_replaced_file_among_others_is_told_once_and_stops_no_other(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text('{"n": 1}\n')
    source = jsonl(tmp_path)
    end = source.latest(BEGINNING, None, settled=True)
    (tmp_path / "a.jsonl").write_text('{"n": 9}\n{"n": 8}\n')
    with (tmp_path / "b.jsonl").open("a") as file:
        file.write('{"n": 2}\n')
    after = source.latest(end, None, settled=True)
    good, told = between(source, end, after)
    assert good.properties == '{"n":2}'
    assert "a.jsonl: the file was replaced, cut or edited" in str(told.error)
    assert source.latest(after, None, settled=True) == after


def test_a_file_that_was_removed_before_it_was_read_is_told_and_stops_no_other(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text('{"n": 1}\n')
    source = jsonl(tmp_path)
    end = source.latest(BEGINNING, None, settled=True)
    (tmp_path / "a.jsonl").unlink()
    good, told = between(source, BEGINNING, end)
    assert good.properties == '{"n":1}'
    assert str(told.error).startswith("bytes 0 to 9 are lost: ")
