"""Compares the whole pipeline on real mail with brute force."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import sqlite3
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

import tamis
from tamis.adapters.mail.message import MailError
from tamis.adapters.rows import digest_of
from tamis.adapters.sources.mbox import unescape
from tamis.errors import ConfigError, StoreBusyError, StoreError, TamisError
from tamis.spark import Pipeline, Progress
from tamis.store import BatchCounts, BatchResult, Store, batches, sqlite_file
from tests.adapters.reading import join_mbox
from tests.free_port import free_port

from .conftest import Workshop
from .mail import QUERIES, Match, brute_force, outbox, real_messages, unpack_files, without_from_line, write_mbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

UNREADABLE = b"not json\n"
ARCHIVES = {
    "eml": "email-eml/mail-parser-crate-messages.tar.zst",
    "news": "usenet-20news-mini/mini20news-dev-raw.tar.zst",
}


@pytest.fixture(scope="module")
def mail(shared: Path) -> list[bytes]:
    return real_messages(shared, 120)


def write_lines(path: Path, numbers: range) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps({"n": number}) + "\n" for number in numbers)


def matched_numbers(store: Store, key: str) -> list[int]:
    """Return the messages (by their n) that `key` matched, in the order of the outbox."""
    statement = """SELECT json_extract(m.properties, '$.n') FROM outbox o JOIN messages m
        USING (source, partition, "offset", digest) WHERE o.query_key = ? ORDER BY o.seq"""
    with store._read() as connection:
        return [row[0] for row in connection.exec_driver_sql(statement, (key,))]


def test_the_outbox_equals_brute_force_and_a_second_run_adds_nothing(workshop: Workshop, mail: list[bytes]) -> None:
    workshop.store.add_queries(QUERIES)
    box, folder = workshop.folder / "inbox", workshop.folder / "eml"
    placed = list(zip(write_mbox(box, mail[:80]), map(unescape, mail), strict=False))
    folder.mkdir()
    for index, message in enumerate(mail[80:]):
        (folder / f"{index:03}.eml").write_bytes(without_from_line(message))
    workshop.adapter("inbox", "mbox", box, max_messages=30)
    workshop.adapter("files", "eml", folder)

    summary = workshop.run()

    wanted = brute_force("inbox", str(box), placed)
    for file in folder.iterdir():
        wanted |= brute_force("files", str(file), [(0, file.read_bytes())])
    found = outbox(workshop.store)
    assert len(found) == len(set(found))
    assert set(found) == wanted
    assert len(wanted) > 100
    assert (summary.read, summary.dead, summary.failed, summary.stopped_by) == (120, 0, {}, None)
    assert summary.notifications == len(wanted) == summary.delivered
    assert summary.matched == len({match[2:] for match in wanted})
    assert summary.batches == 4
    assert summary.by_query == Counter(match[0] for match in wanted)
    assert summary.match_us_p50 is not None
    assert summary.match_us_p99 is not None
    assert 0 <= summary.match_us_p50 <= summary.match_us_p99

    again = workshop.run()
    assert (again.read, again.notifications, outbox(workshop.store)) == (0, 0, found)


def test_a_query_asks_for_the_further_name_of_a_header(workshop: Workshop) -> None:
    workshop.store.add_query(tamis.QuerySpec("acme", "ticker = 'ACME' AND author = by"))
    mails = [
        b"From: a@example.org\nX-Ticker: %s\n\n%d\n" % (ticker, number)
        for number, ticker in enumerate([b"ACME", b"XYZ"])
    ]
    (workshop.folder / "inbox").write_bytes(join_mbox(mails))
    workshop.adapter("inbox", "mbox", workshop.folder / "inbox")
    workshop.toml += 'fields = "by=author, ticker=header.x-ticker"\n'
    assert workshop.run().notifications == 1


def test_a_hierarchy_that_changes_counts_from_the_next_batch_on(workshop: Workshop) -> None:
    lines = workshop.folder / "lines.jsonl"
    workshop.adapter("lines", "jsonl", lines)
    workshop.store.set_hierarchy("grp", {"American": "Options", "Options": None})
    workshop.store.add_query(tamis.QuerySpec("options", "grp UNDER 'Options'"))
    for numbers, groups in ((range(2), ("American", "Bermudan")), (range(2, 4), ("American", "Bermudan"))):
        with lines.open("a") as file:
            file.writelines(
                json.dumps({"n": number, "grp": group}) + "\n" for number, group in zip(numbers, groups, strict=True)
            )
        workshop.run()
        workshop.store.set_hierarchy("grp", {"Bermudan": "Options", "Options": None})
    assert matched_numbers(workshop.store, "options") == [0, 3]


def test_all_real_mail_goes_through_and_the_counts_add_up(workshop: Workshop, shared: Path) -> None:
    """Reads 3,000 mails, 1,300 news posts and malformed ones: each matches, does not, or is a dead letter."""
    workshop.store.add_queries(QUERIES)
    messages = real_messages(shared, 3_000)
    box = workshop.folder / "inbox"
    offsets = write_mbox(box, messages)
    parts = [("inbox", str(box), at, unescape(raw)) for at, raw in zip(offsets, messages, strict=True)]
    workshop.adapter("inbox", "mbox", box, max_messages=1_000)
    for name, archive in ARCHIVES.items():
        folder = workshop.folder / name
        folder.mkdir()
        paths = unpack_files(shared / "data" / archive, folder)
        parts += [(name, str(path), 0, path.read_bytes()) for path in paths]
        workshop.adapter(name, "eml", folder)

    summary = workshop.run()

    wanted = set()
    dead = set()
    for source, partition, offset, raw in parts:
        try:
            wanted |= brute_force(source, partition, [(offset, raw)])
        except MailError:
            dead.add((source, partition, offset))
    digests = {(source, partition, offset): digest_of(raw) for source, partition, offset, raw in parts}

    def by_message(notifications: Iterable[Match]) -> list[tuple[str, str]]:
        return sorted((key, digests[source, path, offset]) for key, _, source, path, offset in notifications)

    found = by_message(outbox(workshop.store))
    assert found == sorted(set(by_message(wanted)))  # a post in two groups is one message
    letters = workshop.store.dead_letters(limit=None)
    assert {(letter.source, letter.partition, letter.offset) for letter in letters} == dead
    assert (summary.read, summary.dead, summary.failed) == (len(parts), len(dead), {})
    assert len(parts) > 4_400
    assert summary.matched == len({match[2:] for match in wanted})


def test_a_checkpoint_that_was_removed_is_read_again_and_adds_nothing(workshop: Workshop, mail: list[bytes]) -> None:
    workshop.store.add_queries(QUERIES)
    write_mbox(workshop.folder / "inbox", mail[:10])
    workshop.adapter("inbox", "mbox", workshop.folder / "inbox")
    workshop.run()
    found = outbox(workshop.store)
    shutil.rmtree(workshop.folder / "checkpoints")
    again = workshop.run()
    assert (again.read, again.notifications) == (10, 0)
    assert outbox(workshop.store) == found != []


@pytest.mark.parametrize("left", [".0.8c1e.tmp", ".0.8c1e.tmp .0.8c1e.tmp.crc"])
def test_a_run_that_was_killed_while_it_wrote_its_first_offsets_is_begun_again(workshop: Workshop, left: str) -> None:
    workshop.store.add_queries(QUERIES)
    write_lines(workshop.folder / "lines", range(3))
    workshop.adapter("lines", "jsonl", workshop.folder / "lines")
    offsets = workshop.folder / "checkpoints" / "lines" / "offsets"
    offsets.mkdir(parents=True)
    for name in left.split():
        (offsets / name).write_text("v1")
    summary = workshop.run()
    assert (summary.read, summary.failed) == (3, {})
    assert workshop.run().read == 0


def test_the_advice_for_a_file_that_was_replaced_is_right(workshop: Workshop) -> None:
    """New messages are notified once, also at the bytes of earlier ones, and what stayed in its place is not again."""
    path, mail_file = workshop.folder / "in.jsonl", workshop.folder / "mail" / "a.eml"
    mail_file.parent.mkdir()
    mail_file.write_bytes(b"Subject: 1\n\nbefore")
    write_lines(path, range(3))
    workshop.adapter("lines", "jsonl", path)
    workshop.adapter("mail", "eml", mail_file.parent)
    workshop.store.add_query(tamis.QuerySpec("all", "n >= 0 OR subject IS NOT NULL"))
    assert workshop.run().notifications == 4

    path.write_text('{"n": 0}\n{"n": 8}\n{"n": 9}\n')
    mail_file.write_bytes(b"Subject: 1\n\nafter ")
    told = workshop.run()
    assert (told.read, told.notifications) == (1, 1)
    assert "in.jsonl: the file was replaced" in told.failed["lines"]
    assert workshop.store.notifications(1)[0].body == "after "

    shutil.rmtree(workshop.folder / "checkpoints" / "lines")
    again = workshop.run()
    assert (again.read, again.notifications, again.failed) == (3, 2, {})
    matched = matched_numbers(workshop.store, "all")  # in the order of the batches, which two adapters share
    assert (matched.count(None), sorted(n for n in matched if n is not None)) == (2, [0, 1, 2, 8, 9])
    assert workshop.run().read == 0


def test_what_cannot_be_read_becomes_a_dead_letter_and_matches_nothing(workshop: Workshop) -> None:
    workshop.store.add_query(tamis.QuerySpec("all", "NOT EXISTS(price)"))
    path = workshop.folder / "in.jsonl"
    write_lines(path, range(3))
    with path.open("ab") as file:
        offset = file.tell()
        file.write(UNREADABLE)
    write_lines(path, range(3, 5))
    workshop.adapter("lines", "jsonl", path)
    summary = workshop.run()
    assert (summary.read, summary.matched, summary.dead) == (5 + 1, 5, 1)
    (letter,) = workshop.store.dead_letters()
    assert (letter.source, letter.partition, letter.offset) == ("lines", str(path), offset)
    assert letter.raw.strip() == UNREADABLE.strip()
    assert letter.reason
    assert matched_numbers(workshop.store, "all") == [0, 1, 2, 3, 4]


def test_a_query_counts_from_the_next_batch_on(workshop: Workshop) -> None:
    path = workshop.folder / "in.jsonl"
    write_lines(path, range(10))
    workshop.adapter("lines", "jsonl", path, max_messages=5)
    workshop.store.add_query(tamis.QuerySpec("early", "n >= 0"))

    class AddsAQuery(Store):
        """Adds a query while the first batch is being committed."""

        def commit_batch(
            self,
            stream: str,
            batch_id: int,
            result: BatchResult | Iterable[BatchResult],
            default_deliveries: object = (),
            *seen: Any,
        ) -> BatchCounts:
            self.add_query(tamis.QuerySpec("late", "n >= 0"))
            return super().commit_batch(stream, batch_id, result, ("outbox",), *seen)

    with AddsAQuery.open(workshop.store.path) as store:
        workshop.run(store)
    assert matched_numbers(workshop.store, "early") == list(range(10))
    assert matched_numbers(workshop.store, "late") == list(range(5, 10))


def test_a_service_goes_on_reading_and_stops_when_told(workshop: Workshop) -> None:
    path = workshop.folder / "in.jsonl"
    write_lines(path, range(3))
    workshop.adapter("lines", "jsonl", path)
    workshop.store.add_query(tamis.QuerySpec("first", "n >= 0"))
    pipeline = Pipeline(workshop.config, workshop.store, workshop.spark)
    seen: list[Progress] = []

    def on_progress(progress: Progress) -> None:
        """After three messages add a query and three more messages; then pause the adapter, and stop in the end."""
        seen.append(progress)
        if progress.read == 3 and len(workshop.store.list_queries()) == 1:
            workshop.store.add_query(tamis.QuerySpec("second", "n >= 0"))
            write_lines(path, range(3, 6))
        if progress.read == 6:
            if progress.states["lines"] == "running":
                workshop.store.set_adapter_desired("lines", "paused")
            else:
                pipeline.stop("test")

    summary = pipeline.run(once=False, progress=on_progress)

    assert summary.stopped_by == "test"
    assert matched_numbers(workshop.store, "first") == [0, 1, 2, 3, 4, 5]
    assert matched_numbers(workshop.store, "second") == [3, 4, 5]
    assert seen[-1].delivered == 9
    assert {state for progress in seen for state in progress.states.values()} >= {"running", "paused"}
    assert 0 < seen[-1].lag_s < 60
    (state,) = workshop.store.adapter_states(["lines"])
    assert (state.read_count, state.dead_count) == (6, 0)


def test_one_click_ends_the_e_mails_while_the_pipeline_runs(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = workshop.folder / "in.jsonl", workshop.folder / "out"
    write_lines(path, range(1))
    workshop.adapter("lines", "jsonl", path)
    listen = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("LINKS", "whsec_" + b64encode(bytes(32)).decode())
    workshop.toml += f'[unsubscribe]\nurl = "https://e.org/u"\nlisten = "{listen}"\nsecret_env = "LINKS"\n'
    workshop.toml += f'[[delivery]]\nname = "mail"\ntype = "eml"\nfolder = "{out}"\n'
    workshop.store.add_query(tamis.QuerySpec("n", "n >= 0", deliveries=("mail",)))
    pipeline = Pipeline(workshop.config, workshop.store, workshop.spark)
    clicked: list[int] = []

    def on_progress(progress: Progress) -> None:
        """Click in the first e-mail; then let another message come, and stop when it is done with."""
        if progress.delivered == 1 and not clicked:
            (mail,) = out.glob("*.eml")
            link = message_from_bytes(mail.read_bytes())["List-Unsubscribe"].strip("<>")
            clicked.append(httpx2.post(link.replace("https://e.org", f"http://{listen}"), content=b"a=b").status_code)
            data = {"List-Unsubscribe": "One-Click"}
            clicked.append(httpx2.post(link.replace("https://e.org", f"http://{listen}"), data=data).status_code)
            write_lines(path, range(1, 2))
        if progress.delivered == 2:
            pipeline.stop("test")

    pipeline.run(once=False, progress=on_progress)
    assert clicked == [400, 200]
    assert len(list(out.glob("*.eml"))) == 1
    reasons = [record.reason for record in workshop.store.deliveries()]
    assert reasons == ["not sent: subscriber@localhost unsubscribed", None]


def test_a_query_that_is_paused_counts_again_from_the_batch_after_it_is_resumed(workshop: Workshop) -> None:
    path = workshop.folder / "in.jsonl"
    workshop.adapter("lines", "jsonl", path)
    workshop.store.add_query(tamis.QuerySpec("n", "n >= 0"))
    now = datetime.now(UTC)
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: workshop.store.pause_query("n"),
        lambda: workshop.store.resume_query("n"),
        lambda: workshop.store.expire_query("n", now),
        lambda: workshop.store.expire_query("n", now + timedelta(days=1)),
    ]
    for number, change in enumerate(changes):
        change()
        write_lines(path, range(number, number + 1))
        workshop.run()
    assert matched_numbers(workshop.store, "n") == [0, 2, 4]


def test_progress_comes_at_most_five_times_a_second(workshop: Workshop) -> None:
    write_lines(workshop.folder / "in.jsonl", range(3))
    workshop.adapter("lines", "jsonl", workshop.folder / "in.jsonl")
    times: list[float] = []
    Pipeline(workshop.config, workshop.store, workshop.spark).run(True, lambda _: times.append(time.monotonic()))
    assert len(times) >= 2
    assert all(after - before > 0.15 for before, after in itertools.pairwise(times[:-1]))


def test_an_adapter_that_cannot_start_is_told_and_the_others_go_on(workshop: Workshop) -> None:
    write_lines(workshop.folder / "in.jsonl", range(3))
    workshop.adapter("lines", "jsonl", workshop.folder / "in.jsonl")
    workshop.adapter("gone", "jsonl", workshop.folder / "gone.jsonl")
    summary = workshop.run()
    assert summary.read == 3
    assert list(summary.failed) == ["gone"]
    assert "gone.jsonl" in summary.failed["gone"]
    assert "\n" not in summary.failed["gone"]
    (state,) = workshop.store.adapter_states(["gone"])
    assert (state.status, state.last_error) == ("failed", summary.failed["gone"])


def test_a_store_that_cannot_be_written_ends_the_run_and_the_next_one_goes_on(workshop: Workshop) -> None:
    class FullDisk(Store):
        def commit_batch(self, *_: object, **__: object) -> BatchCounts:
            raise StoreError("the disk is full")

    write_lines(workshop.folder / "in.jsonl", range(3))
    workshop.adapter("lines", "jsonl", workshop.folder / "in.jsonl")
    workshop.store.add_query(tamis.QuerySpec("all", "n >= 0"))
    with FullDisk.open(workshop.store.path) as store, pytest.raises(StoreError, match="^the disk is full$"):
        workshop.run(store)
    assert workshop.run().notifications == 3


def test_a_store_that_another_process_holds_ends_no_run(workshop: Workshop) -> None:
    class Busy(Store):
        calls = 0

        def commit_batch(self, *arguments: Any, **options: Any) -> BatchCounts:
            self.calls += 1
            if self.calls == 1:
                raise StoreBusyError("another process has held the store for 30 s")
            return super().commit_batch(*arguments, **options)

    write_lines(workshop.folder / "in.jsonl", range(3))
    workshop.adapter("lines", "jsonl", workshop.folder / "in.jsonl")
    workshop.store.add_query(tamis.QuerySpec("all", "n >= 0"))
    with Busy.open(workshop.store.path) as store:
        summary = workshop.run(store)
        assert store.calls == 2
    assert (summary.notifications, summary.failed) == (3, {})
    assert "held the store" in workshop.store.adapter_errors("lines")[0].error


def test_a_lock_on_the_store_in_the_middle_of_a_batch_is_waited_for(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process takes the lock between two pieces, and holds it for longer than a writer waits."""
    monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT_MS", 300)
    monkeypatch.setattr(batches, "PIECE_ROWS", 2)
    other = sqlite3.connect(str(workshop.store.path), isolation_level=None, check_same_thread=False)
    left: list[int] = []

    class Contended(Store):
        pieces = 0

        def _write_piece(self, *arguments: Any) -> None:
            self.pieces += 1
            if self.pieces == 3:
                other.execute("BEGIN IMMEDIATE")
            try:
                super()._write_piece(*arguments)
            except StoreBusyError:
                other.execute("ROLLBACK")
                left.extend(row[0] for row in other.execute("SELECT count(*) FROM outbox"))
                raise

    write_lines(workshop.folder / "in.jsonl", range(6))
    workshop.adapter("lines", "jsonl", workshop.folder / "in.jsonl")
    workshop.store.add_query(tamis.QuerySpec("all", "n >= 0"))
    with closing(other), Contended.open(workshop.store.path) as store:
        summary = workshop.run(store)
        assert store.pieces == 3 + 3
    assert left == [4], "two pieces of the batch were in the file"
    assert (summary.notifications, summary.failed) == (6, {})
    assert len(outbox(workshop.store)) == len(set(outbox(workshop.store))) == 6
    assert "held the store" in workshop.store.adapter_errors("lines")[0].error


def test_a_snapshot_that_cannot_be_written_is_told(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(_engine: object, path: Path, **_options: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(tamis.Engine, "save", no_space)
    write_lines(workshop.folder / "in.jsonl", range(3))
    workshop.adapter("lines", "jsonl", workshop.folder / "in.jsonl")
    with pytest.raises(
        TamisError, match=r"queries-[0-9a-f]+-1\.tamis: cannot be written or read: No space left on device"
    ):
        workshop.run()


def test_two_runs_of_one_pipeline_do_not_meet(workshop: Workshop) -> None:
    write_lines(workshop.folder / "in.jsonl", range(3))
    workshop.adapter("lines", "jsonl", workshop.folder / "in.jsonl")
    first = Pipeline(workshop.config, workshop.store, workshop.spark)
    refused: list[str] = []

    def second() -> None:
        try:
            workshop.run()
        except TamisError as error:
            refused.append(str(error))
        finally:
            first.stop()

    thread = threading.Thread(target=second)
    first.run(once=False, progress=lambda _: thread.start() if thread.ident is None else None)
    thread.join()
    assert len(refused) == 1
    assert f"process {os.getpid()} on " in refused[0]
    assert "Two would send everything twice" in refused[0]


def test_two_pipelines_over_two_stores_do_not_share_a_folder(workshop: Workshop) -> None:
    workshop.config.pipeline.work.mkdir()
    with (workshop.config.pipeline.work / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TamisError, match="another run of this pipeline is using"):
            workshop.run()


def test_adapters_tell_when_they_looked_and_will_look(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.spark.lease.RENEW_S", 0.2)
    write_lines(workshop.folder / "in.jsonl", range(3))
    workshop.adapter("lines", "jsonl", workshop.folder / "in.jsonl")
    began = datetime.now(UTC)
    pipeline = Pipeline(workshop.config, workshop.store, workshop.spark)

    def on_progress(_: Progress) -> None:
        if workshop.store.adapter_states(["lines"])[0].polled_at or datetime.now(UTC) > began + timedelta(minutes=2):
            pipeline.stop()

    pipeline.run(once=False, progress=on_progress)
    (state,) = workshop.store.adapter_states(["lines"])
    assert state.polled_at is not None
    assert began - timedelta(seconds=1) < state.polled_at < datetime.now(UTC)
    assert state.next_poll_at is not None
    assert state.next_poll_at > state.polled_at


def test_a_query_for_a_delivery_that_is_not_there_ends_the_run_before_it_begins(workshop: Workshop) -> None:
    workshop.store.add_query(tamis.QuerySpec("all", "TRUE", deliveries=("outbx",)))
    told = r"query 'all': .*pipeline.toml has no \[\[delivery\]\] named 'outbx'; did you mean 'outbox'\?"
    with pytest.raises(ConfigError, match=told):
        workshop.run()
    assert workshop.store.running_pipeline() is None


def test_run_pipeline_imports_the_queries_of_the_file(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    from tamis.spark import pipeline

    def given_session(*_: object, **__: object) -> SparkSession:
        return workshop.spark

    closed: list[Callable[..., None]] = []
    monkeypatch.setattr(pipeline, "session", given_session)
    monkeypatch.setattr(pipeline, "close_session", closed.append)
    (workshop.folder / "queries.txt").write_text("even: n IN (0, 2, 4)\n")
    workshop.toml = workshop.toml.replace("[queries]", '[queries]\nfile = "queries.txt"')
    write_lines(workshop.folder / "in.jsonl", range(5))
    workshop.adapter("lines", "jsonl", workshop.folder / "in.jsonl")
    summary = pipeline.run_pipeline(workshop.config.path, once=True)
    assert summary.by_query == {"even": 3}
    assert closed == [workshop.spark]
