"""A pipeline over a store on a PostgreSQL server: executors write the results, and the outbox is as in a file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.errors import AdminShutdown, CrashShutdown, DiskFull, OutOfMemory

from tamis import QuerySpec
from tamis.adapters.sources.mbox import unescape
from tamis.errors import StoreError
from tamis.spark.sinks import postgres_worker
from tamis.store import Store, notification_id
from tamis.store.postgres import is_lost
from tamis.store.staging import Staging
from tamis.store_place import ServerUrl
from tests.postgres_server import PASSWORD, Server
from tests.spark.conftest import Workshop
from tests.spark.mail import QUERIES, brute_force, outbox, real_messages, write_mbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def on_server(tmp_path: Path, spark: SparkSession, postgres: Server) -> Workshop:
    return Workshop(tmp_path, spark, postgres.new_database())


def test_the_outbox_is_that_of_brute_force_and_a_second_run_adds_nothing(on_server: Workshop, shared: Path) -> None:
    messages = real_messages(shared, 60)
    box = on_server.folder / "inbox"
    offsets = write_mbox(box, messages)
    on_server.adapter("inbox", "mbox", box, max_messages=25)
    with on_server.store as store:
        store.add_queries(QUERIES)
        summary = on_server.run()
        wanted = brute_force("inbox", str(box), list(zip(offsets, map(unescape, messages), strict=True)))
        assert sorted(outbox(store)) == sorted(wanted)
        assert summary.notifications == len(wanted) == sum(summary.by_query.values())
        assert (summary.read, summary.batches, summary.delivered) == (60, 3, len(wanted))
        bodies = {record.body for record in store.notifications(limit=None)}
        assert on_server.run().read == 0
        assert sorted(outbox(store)) == sorted(wanted)
        with Store.open(on_server.folder / "tamis.sqlite") as in_file:
            assert in_file.add_queries(QUERIES)
            on_server.toml = on_server.toml.replace(str(store.path), "tamis.sqlite")
            on_server.toml = on_server.toml.replace('name = "test"', 'name = "other"\ncheckpoints = "c"\nwork = "w"')
            on_server.run(in_file)
            assert in_file.notification_ids() == store.notification_ids(), "a file and a server name them alike"
            assert {record.body for record in in_file.notifications(limit=None)} == bodies
            assert in_file.query_matches()[0].matches == store.query_matches()[0].matches


def test_odd_texts_and_dead_letters_arrive(on_server: Workshop) -> None:
    lines = on_server.folder / "lines.jsonl"
    odd = r"tab\t back\\slash nul\u0000 newline\n \\N \u00e9"
    lines.write_text(f'{{"a": 1, "text": "{odd}"}}\nnot json\n{{"a": 2}}\n')
    on_server.adapter("lines", "jsonl", lines)
    on_server.toml = on_server.toml.replace('type = "jsonl"', 'type = "jsonl"\nbody_field = "text"')
    with on_server.store as store:
        store.add_query(QuerySpec('odd "key" \\ \t é', "a > 0"))
        summary = on_server.run()
        assert (summary.notifications, summary.dead, summary.matched) == (2, 1, 2)
        second, first = store.notifications()
        assert first.body == "tab\t back\\slash nul\ufffd newline\n \\N é"
        assert second.body is None
        assert first.query_key == 'odd "key" \\ \t é'
        (letter,) = store.dead_letters()
        assert letter.raw == b"not json\n"


def test_a_query_added_and_one_changed_have_their_versions(on_server: Workshop) -> None:
    lines = on_server.folder / "lines.jsonl"
    lines.write_text('{"a": 1}\n')
    on_server.adapter("lines", "jsonl", lines)
    with on_server.store as store:
        store.add_query(QuerySpec("q", "a > 5"))
        store.add_query(QuerySpec("q", "a > 0"))
        on_server.run()
        store.add_query(QuerySpec("q", "a > 1"))
        with lines.open("a") as file:
            file.write('{"a": 2}\n')
        on_server.run()
        assert [(it.query_key, it.query_version) for it in store.notifications(newest_first=False)] == [
            ("q", 2),
            ("q", 3),
        ]


def test_the_same_mail_in_two_folders_is_told_once(on_server: Workshop, shared: Path) -> None:
    messages = real_messages(shared, 30)
    for name in ("one", "two"):
        write_mbox(on_server.folder / name, messages)
        on_server.adapter(name, "mbox", on_server.folder / name, max_messages=7)
    with on_server.store as store:
        store.add_query(QuerySpec("all", "TRUE"))
        on_server.run()
        assert len(outbox(store)) == 30


def _numbered_lines(workshop: Workshop, more: str = "", max_messages: int = 10_000) -> None:
    """Make 300 messages, and an adapter that reads them."""
    lines = workshop.folder / "lines.jsonl"
    lines.write_text("".join(f'{{"a": {number}}}\n' for number in range(300)) + more)
    workshop.adapter("lines", "jsonl", lines, max_messages)


def _before_first_commit(monkeypatch: pytest.MonkeyPatch, store: Store, work: Callable[[], None]) -> threading.Event:
    """Do `work` just before the store commits its first batch; the event tells that it was done."""
    commit, done = store.commit_staged, threading.Event()

    def work_and_commit(*arguments: object, **options: object) -> object:
        if not done.is_set():
            done.set()
            work()
        return commit(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "commit_staged", work_and_commit)
    return done


def test_a_server_that_restarts_is_waited_for(
    on_server: Workshop,
    postgres: Server,
    in_background: Callable[[Callable[[], object]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def restart() -> None:
        time.sleep(1)
        postgres.start()

    def lose() -> None:
        postgres.stop()
        in_background(restart)

    _numbered_lines(on_server, max_messages=100)
    with on_server.store as store:
        store.add_query(QuerySpec("q", "a >= 0"))
        lost = _before_first_commit(monkeypatch, store, lose)
        on_server.run()
        assert lost.is_set()
        assert sorted(it[4] for it in outbox(store)) == sorted({it[4] for it in outbox(store)})
        assert len(outbox(store)) == 300


def test_a_server_that_crashes_loses_no_staged_rows(
    on_server: Workshop, postgres: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def crash() -> None:
        postgres.crash()
        postgres.start()

    _numbered_lines(on_server, "no message\n")
    with on_server.store as store:
        store.add_query(QuerySpec("q", "a >= 0"))
        _before_first_commit(monkeypatch, store, crash)
        summary = on_server.run()
        assert "lost 300 of 300 rows of the batch" in caplog.text, "recovery empties tables that are not logged"
        assert (summary.notifications, summary.dead) == (300, 1)
        assert len(outbox(store)) == 300


def test_what_keeps_a_task_from_writing_is_one_sentence(postgres: Server, tmp_path: Path) -> None:
    url = postgres.new_database()
    postgres.sql(f"CREATE USER nobody_more CONNECTION LIMIT 0 PASSWORD '{PASSWORD}'")

    def copy(conninfo: str) -> None:
        staging = Staging.named("none")
        options = {"conninfo": conninfo, "place": url, "staging": staging, "source": "inbox", "seen": False}
        list(postgres_worker.copy_rows(("no snapshot", ()), iter(()), **options))  # type: ignore[arg-type]

    with patch.object(postgres_worker, "WAIT_S", 0.0):
        with pytest.raises(StoreError, match=f"{url}: wrong user or password"):
            copy(f"{url}?password=wrong")
        with pytest.raises(StoreError, match="the server has no connection left; raise its max_connections"):
            copy(f"{url.replace('tamis@', 'nobody_more@')}?password={quote(PASSWORD)}")
        with pytest.raises(postgres_worker.ServerLostError):
            copy("postgresql://127.0.0.1:1/x")
    for error, lost in ((DiskFull(), False), (AdminShutdown(), True), (CrashShutdown(), True), (OutOfMemory(), False)):
        assert is_lost(error) is lost


def test_a_second_pipeline_over_the_database_is_refused(on_server: Workshop) -> None:
    from tamis.spark.lease import held_lease

    with (
        on_server.store as store,
        held_lease(store, Path("one.toml")),
        Store.open(str(store.path)) as other,
        pytest.raises(StoreError, match=r"one\.toml over this store"),
        held_lease(other, Path("two.toml")),
    ):
        pytest.fail("two run")


def test_what_a_killed_run_staged_is_dropped(on_server: Workshop) -> None:
    with on_server.store as store:
        store.begin_staging()
        on_server.adapter("lines", "jsonl", on_server.folder / "lines.jsonl")
        (on_server.folder / "lines.jsonl").write_text("{}\n")
        store.add_query(QuerySpec("q", "a > 0"))
        on_server.run()
        with store._read() as connection:
            assert connection.exec_driver_sql("SELECT 1 FROM pg_tables WHERE tablename ~ '^staging_'").all() == []


@given(st.text(), st.integers(1, 9), st.none() | st.text(), st.text(), st.integers())
def test_ids_are_the_same_in_workers(key: str, version: int, identity: str | None, partition: str, offset: int) -> None:
    from tamis.spark.sinks.names import NamedQuery, named

    place = {"partition": partition, "offset": offset, "digest": "d"}
    message = ("source", *place.values()) if identity is None else (identity,)
    row = place | {"identity": identity}
    assert NamedQuery(key, version).id_of(named(row, "source")) == notification_id(key, version, *message)


def test_the_password_reaches_executors_and_no_file(on_server: Workshop) -> None:
    with on_server.store as store:
        assert isinstance(store.path, ServerUrl)
        assert "password=" in store.conninfo()
        assert "secret" not in str(store.path)
