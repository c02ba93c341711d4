"""Folders of CSV, text and HTML files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tamis.adapters.options import FileOptions
from tamis.adapters.rows import Row
from tamis.adapters.sources.csv_rows import CsvOptions, CsvSource
from tamis.adapters.sources.documents import HtmlSource, TextSource
from tamis.adapters.sources.source import offset_of
from tamis.errors import AdapterError
from tests.adapters.reading import between, read_all


def csv_rows(folder: Path, **options: object) -> list[Row]:
    return read_all(CsvSource(CsvOptions(path=str(folder), **options)))  # type: ignore[arg-type]


def members(rows: list[Row]) -> list[dict[str, object]]:
    return [json.loads(str(row.properties)) for row in rows]


def test_each_row_of_a_csv_file_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(
        b'\xef\xbb\xbfcity,price,text\r\nBonn,1.5,"two\nlines, ""quoted"""\r\n\r\n007,-3,\r\n'
    )
    rows = csv_rows(tmp_path, body_field="text", id_field="price")
    assert members(rows) == [{"city": "Bonn", "price": 1.5}, {"city": "007", "price": -3}]
    assert [(row.offset, row.body) for row in rows] == [(1, 'two\nlines, "quoted"'), (3, None)]
    assert None not in [row.identity for row in rows]


def test_a_csv_file_may_have_another_form(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("caf\xe9\t2\n".encode("cp1252"))
    assert members(
        csv_rows(tmp_path, delimiter="tab", encoding="windows-1252", columns="place, count", fields="n=count")
    ) == [{"place": "caf\xe9", "n": 2}]


def test_a_csv_row_that_is_too_long_is_a_dead_letter_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2,3\n4\n")
    long, short = csv_rows(tmp_path)
    assert long.error == "row 2 has 3 fields, more than the 2 columns"
    assert members([short]) == [{"a": 4}]


def test_a_csv_file_that_grows_is_read_again_and_its_rows_keep_their_names(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    source = CsvSource(CsvOptions(path=str(tmp_path)))
    end = source.latest(offset_of({}), None, settled=True)
    (first,) = between(source, offset_of({}), end)
    path.write_text("a\n1\n2\n")
    again = between(source, end, source.latest(end, None, settled=True))
    assert again[0] == first
    assert len(again) == 2


def test_a_wrong_delimiter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="expected one character, or tab"):
        CsvSource(CsvOptions(path=str(tmp_path), delimiter=";;")).check()


def test_a_text_file_is_a_message_with_its_first_line_as_title(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_bytes("\n Frost \r\nCover the garlic, caf\xe9".encode("cp1252"))
    (row,) = read_all(TextSource(FileOptions(path=str(tmp_path), topic="notes")))
    assert isinstance(row.properties, dict)
    assert (row.properties["subject"], row.properties["source"], row.properties["file"]) == ("Frost", "notes", "a.txt")
    assert (row.topic, row.body) == ("notes", "\n Frost \nCover the garlic, caf\xe9")
    (tmp_path / "notes" / "a.txt").rename(tmp_path / "b.txt")
    (moved,) = read_all(TextSource(FileOptions(path=str(tmp_path))))
    assert moved.identity == row.identity


@pytest.mark.parametrize(
    "html",
    [
        "<meta charset='iso-8859-2'><title>M\u0119ka &amp; co</title><p>one<p>two".encode("latin2"),
        "<title>M\u0119ka\n&amp; co</title><p>one<p>two".encode(),
        "<title>M\u0119ka &amp; co</title><script>no</script><p>one<p>two".encode("utf-16"),
    ],
)
def test_an_html_file_is_a_message_with_its_title(tmp_path: Path, html: bytes) -> None:
    (tmp_path / "a.html").write_bytes(html)
    (row,) = read_all(HtmlSource(FileOptions(path=str(tmp_path))))
    assert isinstance(row.properties, dict)
    assert (row.properties["subject"], row.body) == ("M\u0119ka & co", "one\ntwo")


def test_a_csv_file_in_another_encoding_than_utf_16_is_told_and_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"n\n1\n")
    (tmp_path / "b.csv").write_bytes("n\n2\n".encode("utf-16"))
    bad, good = csv_rows(tmp_path, encoding="utf-16")
    assert bad.error == "line 1: UTF-16 stream does not start with BOM"
    assert (good.error, good.properties) == (None, '{"n":2}')
