"""Odd files beside good ones: links, circles of links, what disappears, and many that were read before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tamis.adapters.adapter import Adapter
from tamis.adapters.options import MailOptions
from tamis.adapters.sources.eml import EmlSource
from tamis.adapters.sources.mbox import MboxSource
from tamis.adapters.sources.records import RecordSource
from tamis.adapters.sources.whole_files import WholeFileSource
from tests.adapters.reading import BEGINNING, between, join_mbox, mail, read_all, subjects

KINDS = [(EmlSource, "1.eml", "2.eml"), (MboxSource, "1", "2")]
Kind = type[WholeFileSource | RecordSource]


def _write(path: Path, number: int) -> None:
    path.write_bytes(mail(number) if path.suffix == ".eml" else join_mbox([mail(number)]))


@pytest.mark.parametrize(("kind", "good", "odd"), KINDS)
def test_a_circle_of_links_is_told_once_and_stops_no_other(kind: Kind, good: str, odd: str, tmp_path: Path) -> None:
    _write(tmp_path / good, 1)
    (tmp_path / odd).symlink_to(tmp_path / odd)
    source = kind(MailOptions(path=str(tmp_path)))
    end = source.latest(BEGINNING, None, settled=True)
    rows = between(source, BEGINNING, end)
    assert sorted(row.error is None for row in rows) == [False, True]
    assert "symbolic links" in str(next(row.error for row in rows if row.error))
    assert between(source, end, source.latest(end, None, settled=True)) == []
    assert Adapter("mail", kind.type, str(tmp_path)).test().readable


@pytest.mark.parametrize(("kind", "good", "odd"), KINDS)
def test_a_link_to_a_file_is_that_file_and_one_to_nothing_waits(
    kind: Kind, good: str, odd: str, tmp_path: Path
) -> None:
    box, elsewhere = tmp_path / "box", tmp_path / f"elsewhere-{odd}"
    box.mkdir()
    (box / good).symlink_to(elsewhere)
    (box / "folder").symlink_to(box)  # a circle of folders
    source = kind(MailOptions(path=str(box)))
    assert read_all(source) == []
    _write(elsewhere, 1)
    assert subjects(read_all(source)) == ["number 1"]


def test_files_that_were_read_are_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        _write(tmp_path / f"{number}.eml", number)
    source = EmlSource(MailOptions(path=str(tmp_path)))
    end = source.latest(BEGINNING, None, settled=True)
    assert len(between(source, BEGINNING, end)) == 50
    _write(tmp_path / "new.eml", 50)
    opened: list[str] = []
    real = source.rows
    monkeypatch.setattr(source, "rows", lambda path: opened.append(os.path.basename(path)) or real(path))  # noqa: PTH119
    assert subjects(between(source, end, source.latest(end, None, settled=True))) == ["number 50"]
    assert opened == ["new.eml"]
