from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tamis.adapters.mail import message as mail_module
from tamis.adapters.options import MailOptions
from tamis.adapters.sources import mbox as mbox_module
from tamis.adapters.sources.mbox import MboxSource
from tamis.errors import AdapterError
from tests.adapters.reading import BEGINNING, between, join_mbox, mail, read_all, subjects


def source_of(path: Path, **options: object) -> MboxSource:
    return MboxSource(MailOptions(path=str(path), **options))  # type: ignore[arg-type]


def age(path: Path, seconds: float = 60.0) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    path = tmp_path / "inbox.mbox"
    path.write_bytes(join_mbox([mail(1), mail(2, "From here\n>From there")]))
    return path


def test_each_message_is_a_row_at_its_place(inbox: Path) -> None:
    first, second = read_all(source_of(inbox, topic="mail.inbox", signature=True, xml=True))
    assert (first.partition, first.offset, first.topic, first.error) == (str(inbox), 0, "mail.inbox", None)
    assert inbox.read_bytes()[second.offset :].startswith(b"From someone")
    assert second.body == "From here\n>From there\n"
    assert isinstance(first.properties, dict)
    assert first.properties["source"] == "inbox"
    assert first.signature == [("hello", [0])]
    assert first.xml is not None
    assert "<subject>number 1</subject>" in first.xml


def test_the_source_can_be_named(inbox: Path) -> None:
    rows = read_all(source_of(inbox, source="CNN"))
    assert {row.properties["source"] for row in rows if isinstance(row.properties, dict)} == {"CNN"}


def test_a_message_that_is_being_appended_is_not_cut(inbox: Path) -> None:
    source = source_of(inbox)
    young = source.latest(BEGINNING, None)
    assert subjects(between(source, BEGINNING, young)) == ["number 1"]
    assert source.latest(young, None) == young
    age(inbox)
    quiet = source.latest(young, None)
    assert subjects(between(source, young, quiet)) == ["number 2"]
    assert source.latest(quiet, None) == quiet


def test_what_is_appended_is_read_from_where_reading_ended(inbox: Path) -> None:
    source = source_of(inbox)
    age(inbox)
    end = source.latest(BEGINNING, None)
    with inbox.open("ab") as file:
        file.write(join_mbox([mail(3), mail(4)]))
    age(inbox)
    assert subjects(between(source, end, source.latest(end, None))) == ["number 3", "number 4"]
    assert subjects(between(source, BEGINNING, end)) == ["number 1", "number 2"], "a replay gives the same rows"


def test_the_rest_of_a_message_that_came_late_is_a_dead_letter_not_lost(inbox: Path) -> None:
    source = source_of(inbox)
    age(inbox)
    end = source.latest(BEGINNING, None)
    with inbox.open("ab") as file:
        file.write(b"late text\n\n" + join_mbox([mail(3)]))
    age(inbox)
    late, third = between(source, end, source.latest(end, None))
    assert late.error is not None
    assert "no 'From ' line" in late.error
    assert late.raw == b"late text\n\n"
    assert subjects([third]) == ["number 3"]


@pytest.mark.parametrize("change", ["cut", "replace", "edit"])
def test_a_file_that_was_changed_is_noticed(inbox: Path, change: str) -> None:
    source = source_of(inbox)
    age(inbox)
    end = source.latest(BEGINNING, None)
    content = inbox.read_bytes()
    if change == "cut":
        inbox.write_bytes(content[:50])
    elif change == "replace":
        inbox.write_bytes(join_mbox([mail(number) for number in range(7, 12)]))
    else:
        inbox.write_bytes(content.replace(b"Hello", b"Help!") + b"From x\n\n")
    with pytest.raises(AdapterError, match="was replaced, cut or edited"):
        source.latest(end, None)


def test_a_replay_of_a_range_that_was_cut_off_is_refused(inbox: Path) -> None:
    source = source_of(inbox)
    end = source.latest(BEGINNING, None, settled=True)
    parts = source.plan(BEGINNING, end)
    inbox.write_bytes(inbox.read_bytes()[:50])
    with pytest.raises(AdapterError, match="replaced, cut or edited"):
        source.plan(BEGINNING, end)
    with pytest.raises(AdapterError, match="replaced, cut or edited"):
        [row for part in parts for row in source.read(part)]
    inbox.unlink()
    with pytest.raises(AdapterError, match="cannot be read"):
        source.plan(BEGINNING, end)


def test_a_copy_with_the_same_content_goes_on_where_the_file_ended(inbox: Path) -> None:
    source = source_of(inbox)
    end = source.latest(BEGINNING, None, settled=True)
    content = inbox.read_bytes()
    inbox.unlink()
    inbox.write_bytes(content + join_mbox([mail(3)]))
    assert subjects(between(source, end, source.latest(end, None, settled=True))) == ["number 3"]


def test_no_batch_has_more_messages_than_asked_and_small_files_are_not_starved(tmp_path: Path) -> None:
    for name, count in (("a", 50), ("b", 3), ("c", 20)):
        (tmp_path / name).write_bytes(join_mbox([mail(number) for number in range(count)]))
    source = source_of(tmp_path)
    at, sizes = BEGINNING, []
    while (end := source.latest(at, 12, settled=True)) != at:
        rows = between(source, at, end)
        if not sizes:
            assert {Path(row.partition).name for row in rows} == {"a", "b", "c"}
        sizes.append(len(rows))
        at = end
    assert sizes == [12, 12, 12, 12, 12, 12, 1]
    assert at == source.latest(BEGINNING, None, settled=True)


def test_hidden_and_unfinished_files_are_left_alone(tmp_path: Path) -> None:
    for name in (".hidden", "inbox.lock", "inbox.tmp", "inbox~", "inbox"):
        (tmp_path / name).write_bytes(join_mbox([mail(1)]))
    assert [Path(path).name for path in source_of(tmp_path).files()] == ["inbox"]
    assert len(source_of(tmp_path / "*.tmp").files()) == 1, "a glob says itself what it wants"


def test_an_empty_file_has_no_rows_and_one_of_another_kind_is_a_dead_letter(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert read_all(source_of(tmp_path)) == []
    (tmp_path / "text").write_bytes(b"This is no mbox.\n")
    (row,) = read_all(source_of(tmp_path))
    assert row.raw == b"This is no mbox.\n"


def test_a_message_without_header_is_a_dead_letter_with_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(join_mbox([mail(1), b"no header here", mail(2)]))
    rows = read_all(source_of(tmp_path))
    assert [row.error is None for row in rows] == [True, False, True]
    assert rows[1].raw == b"no header here\n"
    assert (rows[1].properties, rows[1].body, rows[1].xml, rows[1].signature) == (None, None, None, None)


def test_a_message_over_the_limit_is_a_dead_letter_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_module, "MESSAGE_BYTES_MAX", 200)
    monkeypatch.setattr(mbox_module, "MESSAGE_BYTES_MAX", 200)
    (tmp_path / "a").write_bytes(join_mbox([mail(1, "x" * 300), mail(2)]))
    large, small = read_all(source_of(tmp_path))
    assert large.error is not None
    assert "at most 200 are read" in large.error
    assert small.error is None


@pytest.mark.parametrize("path", ["nowhere", "nowhere/*.mbox", "nowhere/deep/inbox"])
def test_a_missing_path_is_said_so(tmp_path: Path, path: str) -> None:
    with pytest.raises(AdapterError, match="nowhere.*no such file or folder"):
        source_of(tmp_path / path).latest(BEGINNING, None)


def test_an_end_is_not_passed(inbox: Path) -> None:
    source = source_of(inbox)
    ceiling = source.latest(BEGINNING, None, settled=True)
    with inbox.open("ab") as file:
        file.write(join_mbox([mail(3)]))
    (inbox.parent / "new.mbox").write_bytes(join_mbox([mail(4)]))
    assert source.latest(BEGINNING, None, ceiling=ceiling) == ceiling
    assert source.latest(ceiling, None, ceiling=ceiling) == ceiling
    assert source.latest(BEGINNING, 1, ceiling=ceiling) != ceiling
