"""A pipeline whose results are in Delta tables: executors write the files, and they hold what brute force finds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'tamis[delta]'")

import pyarrow as pa
from deltalake import DeltaTable

from tamis.adapters.sources.mbox import unescape
from tamis.errors import AdapterError, StoreError
from tamis.spark.sinks.delta_worker import TABLES
from tamis.store.delta_table import File, Table
from tests.spark.conftest import Workshop
from tests.spark.mail import QUERIES, brute_force, real_messages, write_mbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOTIFICATIONS = 'name = "test"\nnotifications = "results"\n'


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.table(DeltaTable(str(folder / "results" / table)).to_pyarrow_table()).to_pylist()
    return found


@pytest.fixture
def in_tables(tmp_path: Path, spark: SparkSession) -> Workshop:
    workshop = Workshop(tmp_path, spark)
    workshop.toml = f'[pipeline]\n{NOTIFICATIONS}store = "tamis.sqlite"\n'
    return workshop


def test_the_tables_hold_what_brute_force_finds_and_what_a_file_holds(in_tables: Workshop, shared: Path) -> None:
    messages = real_messages(shared, 60)
    box = in_tables.folder / "inbox"
    offsets = write_mbox(box, messages)
    in_tables.adapter("inbox", "mbox", box, max_messages=25)
    with in_tables.store as store:
        store.add_queries(QUERIES)
        summary = in_tables.run()
        wanted = brute_force("inbox", str(box), list(zip(offsets, map(unescape, messages), strict=True)))
        found = rows(in_tables.folder, "notifications")
        columns = ("query_key", "query_version", "source", "partition", "offset")
        assert sorted(tuple(row[name] for name in columns) for row in found) == sorted(wanted)
        assert summary.notifications == len(wanted) == sum(summary.by_query.values())
        assert (summary.read, summary.batches, summary.delivered) == (60, 3, 0)
        assert in_tables.run().read == 0
        assert len(rows(in_tables.folder, "notifications")) == len(wanted)
        bodies = {row["body"] for row in rows(in_tables.folder, "messages")}
        assert not store.notification_ids()
    with Workshop(in_tables.folder, in_tables.spark, "file.sqlite").store as in_file:
        in_file.add_queries(QUERIES)
        other = in_tables.toml.replace('notifications = "results"', 'checkpoints = "c"\nwork = "w"')
        in_tables.toml = other.replace("tamis.sqlite", "file.sqlite")
        in_tables.run(in_file)
        assert {row["notification_id"] for row in found} == in_file.notification_ids()
        assert bodies == {record.body for record in in_file.notifications(limit=None)}


def test_dead_letters_are_in_their_table(in_tables: Workshop) -> None:
    source = in_tables.folder / "events.jsonl"
    source.write_bytes(b'{"n": 1}\n{"n": \n')
    in_tables.adapter("events", "jsonl", source)
    in_tables.toml += "settle_ms = 0\n"
    with in_tables.store:
        in_tables.run()
    (letter,) = rows(in_tables.folder, "dead_letters")
    assert letter["raw"] == b'{"n": \n'
    assert letter["reason"]


def test_a_backfill_is_refused_by_name(in_tables: Workshop) -> None:
    from tamis.spark.backfill import backfill

    in_tables.adapter("inbox", "mbox", in_tables.folder / "inbox")
    with in_tables.store as store, pytest.raises(AdapterError, match=r"^\[pipeline\] notifications: tables cannot"):
        backfill(in_tables.config, store, "inbox", spark=in_tables.spark)


# --- the table alone --------------------------------------------------------------------------------------------------


def new_file(folder: Path, name: str) -> File:
    import pyarrow.parquet as pq

    schema = TABLES["dead_letters"]
    row = {"stream": "s", "batch_id": 0, "source": "a", "partition": "p", "offset": 0, "digest": name, "reason": "r"}
    pq.write_table(pa.Table.from_pylist([row], schema=schema), folder / name)
    return File(name, 1, (folder / name).stat().st_size)


def digests(folder: Path) -> set[str]:
    return set(pa.table(DeltaTable(str(folder)).to_pyarrow_table())["digest"].to_pylist())


def test_a_batch_is_taken_once_and_the_files_of_its_replay_are_removed(tmp_path: Path) -> None:
    table = Table(tmp_path, TABLES["dead_letters"])
    table.commit("s", 7, [new_file(tmp_path, "first")])
    for again in (table, Table(tmp_path, TABLES["dead_letters"])):
        again.commit("s", 7, [new_file(tmp_path, "replayed")])
    table.commit("other", 7, [new_file(tmp_path, "other")])
    table.commit("s", 8, [new_file(tmp_path, "next")])
    assert digests(tmp_path) == {"first", "other", "next"}
    assert not (tmp_path / "replayed").exists()


def test_two_writers_of_one_batch_add_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look at the last number and the commit are two steps: the log refuses who comes between them."""
    first, second = (Table(tmp_path, TABLES["dead_letters"]) for _ in range(2))
    last = second._last

    def overtaken(stream: str) -> int | None:
        found = last(stream)
        first.commit("s", 0, [new_file(tmp_path, "first")])
        return found

    monkeypatch.setattr(second, "_last", overtaken)
    with pytest.raises(StoreError, match="Delta table cannot be read or written"):
        second.commit("s", 0, [new_file(tmp_path, "second")])
    assert digests(tmp_path) == {"first"}


def test_a_file_that_is_not_here_is_refused(tmp_path: Path) -> None:
    table = Table(tmp_path, TABLES["dead_letters"])
    with pytest.raises(StoreError, match="a folder that this machine and all workers share"):
        table.commit("s", 0, [File("elsewhere.parquet", 1, 100)])
    half = new_file(tmp_path, "half")
    with pytest.raises(StoreError, match="and here the file has"):
        table.commit("s", 0, [half._replace(size=half.size + 1)])
    assert digests(tmp_path) == set()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=str(tmp_path / "file")):
        Table(tmp_path / "file" / "messages", TABLES["messages"])
