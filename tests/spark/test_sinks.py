"""What every sink does with the rows of a batch: a row that the queries cannot read is a dead letter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tamis import Engine, QuerySpec
from tamis.errors import TamisError
from tamis.spark.matching.worker import match_ids_timed
from tamis.store import Store
from tests.spark.mail import outbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = """topic string, properties string, body string, xml string, partition string, offset bigint, digest string,
    error string, raw binary, identity string"""


@pytest.mark.parametrize("count", [3, 250])
def test_a_row_that_cannot_be_read_keeps_no_other_from_matching(tmp_path: Path, count: int) -> None:
    engine = Engine()
    engine.add(("q", 1), QuerySpec("q", "a >= 0").compile())
    engine.save(tmp_path / "q.tamis")
    texts = [f'{{"a": {number}}}' for number in range(count)]
    texts[1] = "[1]"
    found = match_ids_timed((str(tmp_path / "q.tamis"), ()), ["properties"], [pa.array(texts)])
    assert len(found) == count
    assert [number for number, ids in enumerate(found.field("ids").to_pylist()) if ids != [0]] == [1]
    errors = found.field("error").to_pylist()
    assert "expected an object" in errors.pop(1)
    assert set(errors) == {None}


@pytest.mark.spark
def test_only_what_queries_ask_for_goes_to_python(tmp_path: Path, spark: SparkSession) -> None:
    from tamis.spark.sinks.sink import Matching
    from tamis.spark.snapshots import Snapshots

    struct = ROWS.replace("properties string", "properties struct<price: bigint, size: bigint>")
    with Store.open(tmp_path / "s.sqlite") as store:
        snapshots = Snapshots(store, tmp_path / "work")
        for text, asked in (("price > 1", {"price"}), ("price > 1 AND CONTAINS(body, 'frost')", {"price", "body"})):
            store.add_query(QuerySpec("q", text))
            with snapshots.at(store.revision()) as snapshot:
                rows = Matching(spark.createDataFrame([], struct), snapshot, None).rows
                plan = rows._jdf.queryExecution().optimizedPlan().toString()  # type: ignore[operator]
            (call,) = set(
                re.findall(r"ArrowEvalPython \[matched\((.*?)\)#\d+ AS|ArrowEvalPython \[matched\((.*?)\)#", plan)
            )
            inputs = "".join(call)
            assert {name for name in ("price", "size", "body", "topic") if re.search(rf"\b{name}\b", inputs)} == asked


@pytest.mark.spark
def test_names_of_parts_count_as_those_of_spark_do(spark: SparkSession) -> None:
    from tamis.spark.matching.columns import message_columns

    frame = spark.createDataFrame([("t", "b", 1)], "Topic string, BODY string, Price int")
    assert list(message_columns(frame)) == ["topic", "body", "Price"]
    row = frame.select(*(column.alias(name) for name, column in message_columns(frame).items())).first()
    assert row is not None
    assert row.asDict() == {"topic": "t", "body": "b", "Price": 1}
    with pytest.raises(TamisError, match="columns 'body' and 'Body'"):
        message_columns(spark.createDataFrame([("a", "b")], "body string, Body string"))
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert list(message_columns(frame)) == ["Topic", "BODY", "Price"]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.spark
def test_a_row_that_cannot_be_read_is_a_dead_letter(tmp_path: Path, spark: SparkSession) -> None:
    from tamis.spark.batch import process_batch
    from tamis.spark.sinks.driver import DriverSink
    from tamis.spark.sinks.sink import Batch
    from tamis.spark.snapshots import Snapshots

    texts = ('{"a": 1}', "[1]", '{"a": -1}')
    rows = [("t", text, None, None, "p", at, f"d{at}", None, None, None) for at, text in enumerate(texts)]
    rows.append(("t", None, None, None, "p", 9, "d9", "no message", bytearray(b"raw"), None))
    with Store.open(tmp_path / "s.sqlite") as store:
        store.add_query(QuerySpec("q", "a >= 0"))
        batch, snapshots = Batch("s", 0, "inbox", ()), Snapshots(store, tmp_path / "work")
        report = process_batch(store, snapshots, DriverSink(store), batch, spark.createDataFrame(rows, ROWS))
        assert report is not None
        assert (report.read, report.matched, report.notifications, report.dead) == (4, 1, 1, 2)
        letters = {letter.offset: (letter.reason, letter.raw) for letter in store.dead_letters()}
    assert letters[9] == ("no message", b"raw")
    assert "expected an object" in letters[1][0]
    assert letters[1][1] == b"[1]"


@pytest.mark.spark
def test_workers_apply_what_changed_between_two_batches(tmp_path: Path, spark: SparkSession) -> None:
    from tamis.spark.batch import process_batch
    from tamis.spark.sinks.driver import DriverSink
    from tamis.spark.sinks.sink import Batch
    from tamis.spark.snapshots import Snapshots

    changes = (
        lambda: store.add_queries([QuerySpec("a", "n >= 0"), QuerySpec("b", "n > 5")]),
        lambda: store.add_query(QuerySpec("c", "size = 1")),  # no query before asked for the size
        lambda: (store.remove_query("a"), store.add_query(QuerySpec("b", "n = 0"))),
    )
    with Store.open(tmp_path / "s.sqlite") as store:
        snapshots, sink = Snapshots(store, tmp_path / "work"), DriverSink(store)
        for number, change in enumerate(changes):
            change()
            row = ("t", '{"n": 9, "size": 1}', None, None, "p", number, f"d{number}", None, None, None)
            batch = Batch("s", number, "inbox", ())
            process_batch(store, snapshots, sink, batch, spark.createDataFrame([row], ROWS))
        found = {(offset, key, version) for key, version, _, _, offset in outbox(store)}
    assert found == {(0, "a", 1), (0, "b", 1), (1, "a", 1), (1, "b", 1), (1, "c", 1), (2, "c", 1)}
    assert len(list((tmp_path / "work").glob("*.tamis"))) == 1
