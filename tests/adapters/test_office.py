"""PDF and Office documents, made here by the definitions of their formats; and what damaged ones do."""

from __future__ import annotations

import io
import os
import signal
import zipfile
from pathlib import Path

import pytest

from tamis.adapters.adapter import Adapter
from tamis.adapters.sources import office_reader
from tamis.adapters.sources.office import OfficeOptions, OfficeSource
from tamis.adapters.sources.office_reader import OfficeReader
from tests.adapters.reading import read_all

pytest.importorskip("kreuzberg", reason="the extra office is not installed")

_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_FORMAT = "application/vnd.openxmlformats-officedocument"


def pdf(text: str, title: str = "Birds") -> bytes:
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    font = b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources " + font + b" >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        f"<< /Title ({title}) /Author (Ann) >>".encode(),
    ]
    content, places = b"%PDF-1.4\n", []
    for number, value in enumerate(objects, 1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, value)
    table = b"0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<< /Size 6 /Root 1 0 R /Info 5 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(content)
    return content + b"xref\n0 6\n" + table + trailer


def _package(main: str, main_type: str, parts: dict[str, str]) -> bytes:
    """Return an Office document whose first part is `main`."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{_TYPES}"><Default Extension="xml" ContentType="application/xml"/>'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/{main}" ContentType="{_FORMAT}.{main_type}.main+xml"/></Types>',
        )
        link = f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="{main}"/>'
        package.writestr("_rels/.rels", f'<Relationships xmlns="{_RELATIONS}">{link}</Relationships>')
        for name, content in parts.items():
            package.writestr(name, content)
    return file.getvalue()


def docx(text: str) -> bytes:
    words = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = f'<w:document xmlns:w="{words}"><w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body></w:document>'
    return _package("word/document.xml", "wordprocessingml.document", {"word/document.xml": body})


def xlsx(text: str) -> bytes:
    cells = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    link = f'<Relationship Id="r1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    row = f'<row r="1"><c r="A1" t="inlineStr"><is><t>{text}</t></is></c><c r="B1"><v>42</v></c></row>'
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{cells}" xmlns:r="{_OFFICE}"><sheets>'
        '<sheet name="Counts" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_RELATIONS}">{link}</Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{cells}"><sheetData>{row}</sheetData></worksheet>',
    }
    return _package("xl/workbook.xml", "spreadsheetml.sheet", parts)


def source_of(folder: Path, **options: int) -> OfficeSource:
    return OfficeSource(OfficeOptions(path=str(folder), **options))


def test_the_text_of_each_format_is_the_body(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("A heron stands in the pond"))
    (tmp_path / "b.docx").write_bytes(docx("Frost on the roses"))
    (tmp_path / "c.xlsx").write_bytes(xlsx("Herons"))
    (tmp_path / "d.rtf").write_bytes(rb"{\rtf1\ansi The vole has gone}")
    (tmp_path / "notes.md").write_text("not one of them")
    rows = {Path(row.partition).name: row for row in read_all(source_of(tmp_path))}
    assert {name: row.error for name, row in rows.items()} == dict.fromkeys(("a.pdf", "b.docx", "c.xlsx", "d.rtf"))
    assert "A heron stands in the pond" in str(rows["a.pdf"].body)
    assert "Frost on the roses" in str(rows["b.docx"].body)
    assert "Herons" in str(rows["c.xlsx"].body)
    assert "42" in str(rows["c.xlsx"].body)
    assert "The vole has gone" in str(rows["d.rtf"].body)
    assert isinstance(known := rows["a.pdf"].properties, dict)
    assert (known["subject"], known["author"], known["file"]) == ("Birds", "Ann", "a.pdf")
    assert rows["a.pdf"].identity == rows["a.pdf"].digest


def test_what_cannot_be_read_is_a_dead_letter_and_the_others_go_on(tmp_path: Path) -> None:
    bomb = docx("a " * 60_000_000)
    assert len(bomb) < 1_000_000
    for name, content in {
        "a.pdf": pdf("The first"),
        "b.pdf": b"%PDF-1.4 and no more",
        "c.docx": b"PK no archive",
        "d.docx": bomb,
        "e.docx": pdf("another format"),
        "f.pdf": b"",
        "g.pdf": pdf("The last"),
    }.items():
        (tmp_path / name).write_bytes(content)
    rows = {Path(row.partition).name: row for row in read_all(source_of(tmp_path))}
    assert [name for name, row in rows.items() if row.error is None] == ["a.pdf", "g.pdf"]
    assert all(str(row.error).startswith("the document cannot be read: ") for row in rows.values() if row.error)
    assert rows["b.pdf"].raw == b"%PDF-1.4 and no more"


@pytest.mark.parametrize(("sent", "reason"), [(signal.SIGSTOP, "more than 1 s"), (signal.SIGKILL, "ended the process")])
def test_a_document_that_hangs_or_ends_the_process_stops_no_other(sent: signal.Signals, reason: str) -> None:
    reader = OfficeReader(timeout_s=1)
    try:
        assert "one" in reader.read("a.pdf", pdf("one"))["text"]
        assert reader._process is not None
        os.kill(reader._process.pid, sent)
        assert reason in reader.read("a.pdf", pdf("two" * 100_000))["error"]
        assert "three" in reader.read("a.pdf", pdf("three"))["text"]
    finally:
        reader.close()


def test_the_memory_of_the_process_is_bounded() -> None:
    reader = OfficeReader(timeout_s=30)
    try:
        reader.read("a.pdf", pdf("one"))
        limits = Path(f"/proc/{reader._process.pid}/limits")  # type: ignore[union-attr]
        if not limits.exists():
            pytest.skip("no /proc here")
        assert str(office_reader.MEMORY_BYTES_MAX) in limits.read_text()
    finally:
        reader.close()


def test_a_name_that_says_no_format_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(pdf("one"))
    (row,) = read_all(OfficeSource(OfficeOptions(path=str(tmp_path), pattern="*.bin, *.pdf")))
    assert row.error is not None
    assert "expected one that ends in .pdf, .docx" in row.error


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    health = Adapter("papers", "office", str(tmp_path)).test()
    assert (health.readable, health.reason) == (
        False,
        "documents need the package kreuzberg: pip install 'tamis[office]'",
    )
