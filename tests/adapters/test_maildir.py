"""A Maildir: each mail once, whatever happens to its file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tamis.adapters.sources.live import maildir
from tamis.adapters.sources.live.maildir import MaildirOptions, MaildirSource
from tamis.errors import AdapterError
from tests.adapters.live_reader import Reader, readers
from tests.adapters.reading import mail, subjects

Open = Callable[..., Reader]


@pytest.fixture
def box(tmp_path: Path) -> Path:
    for name in ("tmp", "new", "cur", ".Lists/new", ".Lists/cur"):
        (tmp_path / "Maildir" / name).mkdir(parents=True)
    return tmp_path / "Maildir"


@pytest.fixture
def opened(box: Path, tmp_path: Path) -> Iterator[Open]:
    with readers(MaildirSource, tmp_path) as make:
        yield lambda **options: make(path=str(box), **options)


def _deliver(box: Path, number: int, folder: str = "new", flags: str = "") -> Path:
    path = box / folder / f"{number}.M1P1.host{flags}"
    path.write_bytes(mail(number))
    return path


def test_a_mail_is_read_once_however_its_file_is_moved(box: Path, opened: Open) -> None:
    new = _deliver(box, 1)
    (box / "tmp" / "2.M1P1.host").write_bytes(b"half")
    reader = opened()
    assert subjects(reader.next()) == ["number 1"]
    read = new.rename(box / "cur" / "1.M1P1.host:2,S")
    assert reader.later() == []
    read.rename(box / "cur" / "1.M1P1.host:2,SF")
    _deliver(box, 2, "cur", ":2,")
    reader.restart()
    assert subjects(reader.later()) == ["number 2"]


def test_a_look_at_what_has_not_changed_lists_nothing(box: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        _deliver(box, number)
    reader = opened()
    reader.now = (box / "new").stat().st_mtime + 60
    assert len(reader.next()) == 20
    listed: list[str] = []
    list_folder = os.listdir
    monkeypatch.setattr(maildir.os, "listdir", lambda folder: listed.append(folder) or list_folder(folder))
    assert reader.later() == []
    assert listed == []
    _deliver(box, 99)
    assert subjects(reader.later()) == ["number 99"]
    assert listed == [str(box / "new")]


def test_a_look_takes_at_most_max_messages(box: Path, opened: Open) -> None:
    for number in range(5):
        _deliver(box, number)
    reader = opened(max_messages=2)
    assert [len(reader.next()) for _ in range(4)] == [2, 2, 1, 0]


def test_a_mail_that_cannot_be_read_is_told_once_and_read_when_it_can(
    box: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    _deliver(box, 1)
    closed = _deliver(box, 2)
    refused = {str(closed)}

    def guarded(path: str, mode: str) -> object:
        if path in refused:
            raise PermissionError(13, "Permission denied", path)
        return open(path, mode)  # noqa: PTH123

    monkeypatch.setattr(maildir, "open", guarded, raising=False)
    reader = opened()
    rows = reader.next()
    assert subjects(rows) == ["number 1", "the file cannot be read: Permission denied"]
    assert reader.later() == []
    refused.clear()
    assert subjects(reader.later()) == ["number 2"]


def test_names_are_kept_as_long_as_their_mails_are_there(box: Path, opened: Open) -> None:
    for number in range(4):
        _deliver(box, number)
    reader = opened()
    assert len(reader.next()) == 4
    names = reader.source.spool().names()
    assert len(names) == 4
    first, second, *_ = sorted((box / "new").iterdir())
    first.rename(box / "cur" / f"{first.name}:2,S")
    second.unlink()
    assert reader.later() == []
    assert reader.source.spool().names() == names - {second.name}
    reader.restart()
    assert reader.later() == []


def test_subfolders_are_read_when_asked_for(box: Path, opened: Open) -> None:
    _deliver(box, 1, ".Lists/new")
    assert opened().next() == []
    assert subjects(opened(subfolders=True).next()) == ["number 1"]


def test_with_next_only_what_comes_later_is_read(box: Path, opened: Open) -> None:
    _deliver(box, 1)
    reader = opened(starting_offset="next")
    assert reader.next() == []
    _deliver(box, 2)
    assert subjects(reader.later()) == ["number 2"]


def test_what_is_no_maildir_is_said(tmp_path: Path, box: Path, opened: Open) -> None:
    with pytest.raises(AdapterError, match="expected a Maildir, with the folders new and cur"):
        MaildirSource(MaildirOptions(path=str(tmp_path))).check()
    reader = opened()
    reader.next()
    box.rename(tmp_path / "moved")
    with pytest.raises(AdapterError, match="the next try is at"):
        reader.later()


def test_after_a_correction_of_the_clock_it_looks_again(box: Path, opened: Open) -> None:
    reader = opened()
    reader.now += 40_000_000
    assert reader.next() == []
    reader.now -= 40_000_000
    _deliver(box, 1)
    reader.restart()
    assert subjects(reader.next()) == ["number 1"]
