"""Tests how the commands read what people have: mail, Maildirs, streams and stores beside JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pytest

from tamis.cli.input_kinds import kind_of, kind_of_bytes
from tamis.cli.json_messages import MessageForm
from tamis.cli.message_input import InputMessage, open_messages
from tamis.errors import TamisError
from tamis.store import Store
from tests.cli.conftest import Tamis
from tests.store.rows import fill
from tests.stream_log import StreamLog
from tests.stream_log import message as stream_message

MAIL = "From: Jane <jane@example.org>\nDate: Thu, 22 Aug 2002 18:26:25 +0000\nSubject: {}\n\n{}\n"
FROST = MAIL.format("Frost", "Cover the garlic: frost tonight.")
OTHER = MAIL.format("Other", "Nothing.")


def mbox(folder: Path) -> Path:
    (folder / "in.mbox").write_text("".join(f"From jane Thu Aug 22 18:26:25 2002\n{mail}\n" for mail in (FROST, OTHER)))
    return folder / "in.mbox"


def eml(folder: Path) -> Path:
    (folder / "one.eml").write_text(FROST)
    return folder / "one.eml"


def eml_folder(folder: Path) -> Path:
    (folder / "mails").mkdir()
    for name, mail in (("a.eml", FROST), ("b.eml", OTHER)):
        (folder / "mails" / name).write_text(mail)
    return folder / "mails"


def maildir(folder: Path) -> Path:
    for name in ("cur", "new", "tmp"):
        (folder / "Mail" / name).mkdir(parents=True)
    (folder / "Mail" / "new" / "1.host").write_text(FROST)
    (folder / "Mail" / "cur" / "2.host:2,S").write_text(OTHER)
    (folder / "Mail" / "tmp" / "3.host").write_text("half a ma")
    return folder / "Mail"


def stream(folder: Path) -> Path:
    log = StreamLog(folder / "stream")
    log.append(stream_message("mail.in", b'{"id": 9}', pika.BasicProperties(headers={"subject": "Frost"})))
    log.append(b"", 1)
    log.sync()
    return folder / "stream"


def store(folder: Path) -> Path:
    with Store.open(folder / "s.sqlite") as opened:
        fill(opened, 1)
    return folder / "s.sqlite"


def read(path: Path | str, kind: str | None = None, **form: Any) -> list[InputMessage]:
    with open_messages(str(path), MessageForm(**form), kind) as messages:
        return list(messages)


@pytest.mark.parametrize("make", [mbox, eml_folder, maildir], ids=["mbox", "folder", "maildir"])
def test_mail_is_read_with_the_properties_of_the_adapters(make: Callable[[Path], Path], tmp_path: Path) -> None:
    first, second = read(make(tmp_path), topic="mail")
    assert first.message is not None
    assert second.message is not None
    assert first.message.properties["date"] == datetime(2002, 8, 22, 18, 26, 25, tzinfo=UTC)
    assert first.message.properties["header"]["From"] == ["Jane <jane@example.org>"]
    assert (first.message.topic, second.message.body) == ("mail", "Nothing.\n")
    assert set(first.place) == {"file", "byte"}


def test_a_stream_has_its_offsets_and_a_store_its_adapters(tmp_path: Path) -> None:
    found, broken = read(stream(tmp_path))
    assert found.message is not None
    assert found.place == {"offset": 1}
    assert found.message.topic == "mail.in"
    assert (found.message.properties["subject"], found.message.properties["body"]) == ("Frost", {"id": 9})
    assert broken.message is None
    assert "a name ends too early" in str(broken.error)
    (kept,) = read(store(tmp_path))
    assert kept.message is not None
    assert kept.place == {"adapter": "inbox", "file": "mail/a.mbox", "byte": 0}


def test_a_folder_of_json_lines_is_read_file_by_file(tmp_path: Path) -> None:
    for name, text in (("b.jsonl", '{"a": 2}\n'), ("a.jsonl", '{"a": 1}\n{"a": 0}\n')):
        (tmp_path / name).write_text(text)
    assert [(Path(it.place["file"]).name, it.place["line"]) for it in read(tmp_path)] == [
        ("a.jsonl", 1),
        ("a.jsonl", 2),
        ("b.jsonl", 1),
    ]


def test_a_folder_with_files_of_several_kinds_is_read_as_what_each_is(tmp_path: Path) -> None:
    mbox(tmp_path)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "3").write_text(OTHER)  # a mail without a suffix
    (tmp_path / "more" / "4.jsonl").write_text('{"subject": "JSON"}\n')
    (tmp_path / "notes.txt").write_text("neither")
    (tmp_path / ".hidden.eml").write_text(FROST)
    eml(tmp_path)
    found = read(tmp_path)
    assert [(Path(it.place["file"]).name, it.message and it.message.properties["subject"]) for it in found] == [
        ("in.mbox", "Frost"),
        ("in.mbox", "Other"),
        ("3", "Other"),
        ("4.jsonl", "JSON"),
        ("one.eml", "Frost"),
    ]


def test_a_folder_of_mails_without_a_suffix_is_read(tmp_path: Path) -> None:
    (tmp_path / "1").write_text(FROST)
    assert [it.message is not None for it in read(tmp_path)] == [True]


@pytest.mark.parametrize(
    ("make", "kind"),
    [(mbox, "mbox"), (eml, "eml"), (eml_folder, "eml"), (maildir, "maildir"), (stream, "journal"), (store, "store")],
)
def test_what_there_is_tells_its_kind(make: Callable[[Path], Path], kind: str, tmp_path: Path) -> None:
    assert kind_of(make(tmp_path)) == kind


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (b'{"a": 1}\n', "jsonl"),
        (b"", "jsonl"),
        (b"no json", "jsonl"),
        (b"\xef\xbb\xbfFrom a b\n", "mbox"),
        (b"\nReceived: by x\n", "eml"),
        (b"X_Odd-Name: 1\n", "eml"),
        (b'{"a":1}', "jsonl"),
        (b"SQLite format 3\0...", "store"),
    ],
)
def test_the_first_bytes_tell_the_kind_of_a_file(begin: bytes, kind: str) -> None:
    assert kind_of_bytes(begin) == kind


def test_what_cannot_be_told_or_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TamisError, match="expected mail, JSON lines, a Maildir or a stream in this folder"):
        read(tmp_path)
    with pytest.raises(TamisError, match="--format: expected one of jsonl, mbox, .*, not 'mobx'"):
        read(mbox(tmp_path), "mobx")
    with pytest.raises(OSError, match="nowhere"):
        read(tmp_path / "nowhere")


@pytest.mark.usefixtures("files")
def test_the_commands_read_mail(tamis: Tamis, files: Path) -> None:
    path = str(mbox(files))
    (files / "dates.txt").write_text("late: date > DATE '2002-01-01'\n")
    matched = tamis("match", "queries.txt", path)
    (line,) = map(json.loads, matched.stdout.splitlines())
    assert (line["keys"], line["file"], line["byte"]) == (["frost"], path, 0)
    assert line["message"]["date"] == "2002-08-22T18:26:25+00:00"
    assert line["message"]["body"] == "Cover the garlic: frost tonight.\n"
    assert tamis("match", "queries.txt", "-", stdin=Path(path).read_text()).stdout.startswith(
        '{"file": "stdin", "byte"'
    )
    assert "would have matched once in 2 messages" in tamis("backtest", "CONTAINS(body, 'frost')", path).stdout
    assert "matched none of 2 messages (2)" in tamis("analyze", "queries.txt", "--messages", path).stdout
    assert "frost: yes" in tamis("explain", "queries.txt", "--message", str(eml(files))).stdout
    assert "frost: no" in tamis("explain", "queries.txt", "--message", path, "--number", "2").stdout
    dated = tamis("explain", "dates.txt", "--message", str(eml(files))).stdout
    assert "(2002-08-22T18:26:25+00:00)" in dated
    several = tamis("explain", "queries.txt", "--message", path)
    assert (several.returncode, "say which with --number" in several.stderr) == (2, True)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("errors", "printed", "code"),
    [
        ("null", [{"line": 1, "keys": None}, {"line": 2, "keys": ["expensive"], "message": {"price": 101}}], 0),
        ("column", [{"line": 1, "keys": None, "error": "expected a JSON object, not list"}], 0),
        ("raise", [], 2),
        ("skip", [], 2),
    ],
)
def test_errors_say_what_becomes_of_what_cannot_be_read(
    tamis: Tamis, errors: str, printed: list[dict[str, Any]], code: int
) -> None:
    done = tamis("match", "queries.txt", "--errors", errors, stdin='[]\n{"price": 101}\n')
    assert done.returncode == code
    assert [json.loads(line) for line in done.stdout.splitlines()][: len(printed)] == printed
    if code == 0:
        assert "1 of 1 message matched 1 of 3 queries, 1 could not be read" in done.stderr


def test_a_page_is_made_of_the_store(tamis: Tamis, tmp_path: Path) -> None:
    store(tmp_path)
    done = tamis("report", "page.html", "--store", "s.sqlite")
    assert (done.returncode, done.stderr) == (0, "page.html: 1 notifications of 1 messages\n")
    assert "<title>tamis: 1 notifications</title>" in (tmp_path / "page.html").read_text()
    missing = tamis("report", "--store", "nowhere.sqlite")
    assert (missing.returncode, (tmp_path / "report.html").exists()) == (2, False)
