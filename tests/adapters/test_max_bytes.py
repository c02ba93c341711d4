"""No batch is larger than `max_bytes`, but for its last message, whatever the source."""

from __future__ import annotations

from pathlib import Path

from tamis.adapters.options import MailOptions
from tamis.adapters.sources.eml import EmlSource
from tamis.adapters.sources.journal import JournalOptions, JournalSource
from tamis.adapters.sources.jsonl import JsonlOptions, JsonlSource
from tamis.adapters.sources.live.maildir import MaildirSource
from tamis.adapters.sources.mbox import MboxSource
from tamis.adapters.sources.source import Source
from tests.adapters.live_reader import readers
from tests.adapters.reading import BEGINNING, between, join_mbox, mail
from tests.stream_log import StreamLog, message

BODY = "x" * 1_000
MAX_BYTES = 2_500
"""Two messages are smaller and three are larger, with any header."""


def sizes(source: Source) -> list[int]:
    """Return the number of messages of each batch."""
    at, found = BEGINNING, []
    while (end := source.latest(at, 100, settled=True)) != at:
        found.append(len(between(source, at, end)))
        at = end
    return found


def test_a_file_of_mails_is_cut_at_the_message_that_is_too_much(tmp_path: Path) -> None:
    path = tmp_path / "inbox"
    path.write_bytes(join_mbox([mail(number, BODY) for number in range(7)]))
    assert sizes(MboxSource(MailOptions(path=str(path), max_bytes=MAX_BYTES))) == [3, 3, 1]
    assert sizes(MboxSource(MailOptions(path=str(path)))) == [7]


def test_files_share_what_a_batch_may_have(tmp_path: Path) -> None:
    for name, count in (("a", 6), ("b", 2)):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"body": "{BODY}"}}\n' * count)
    source = JsonlSource(JsonlOptions(path=str(tmp_path), max_bytes=MAX_BYTES))
    first = source.latest(BEGINNING, 100, settled=True)
    assert {Path(row.partition).stem for row in between(source, BEGINNING, first)} == {"a", "b"}
    assert max(sizes(source)) <= 4, "at most one message too much for each file"
    assert sum(sizes(source)) == 8


def test_whole_files_are_taken_up_to_the_one_that_is_too_much(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"{number}.eml").write_bytes(mail(number, BODY))
    assert sizes(EmlSource(MailOptions(path=str(tmp_path), max_bytes=MAX_BYTES))) == [3, 3, 1]


def test_live_sources_keep_the_others_in_their_spool(tmp_path: Path) -> None:
    box = tmp_path / "Maildir"
    for name in ("tmp", "new", "cur"):
        (box / name).mkdir(parents=True)
    for number in range(7):
        (box / "new" / f"{number}.M1P1.host").write_bytes(mail(number, BODY))
    with readers(MaildirSource, tmp_path) as make:
        reader = make(path=str(box), max_bytes=MAX_BYTES)
        assert [len(reader.next(100)) for _ in range(4)] == [3, 3, 1, 0]


def test_streams_are_cut_once_their_log_is_larger(tmp_path: Path) -> None:
    log = StreamLog(tmp_path / "stream")
    for _ in range(7):
        log.append(message("a.b", BODY.encode()))
    log.sync()
    assert sizes(JournalSource(JournalOptions(path=str(log.folder), max_bytes=MAX_BYTES))) == [3, 3, 1]
    assert sizes(JournalSource(JournalOptions(path=str(log.folder)))) == [7]


def test_a_message_that_is_too_much_by_itself_is_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "inbox"
    path.write_bytes(join_mbox([mail(number, BODY) for number in range(3)]))
    assert sizes(MboxSource(MailOptions(path=str(path), max_bytes=1))) == [1, 1, 1]
