"""What every sink does with the rows of a batch: a row that the queries cannot read is a dead letter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tamis import Engine, QuerySpec
from tamis.spark.matching.worker import match_ids_timed
from tamis.store import Store

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
    found = match_ids_timed(str(tmp_path / "q.tamis"), ["properties"], [pa.array(texts)])
    assert len(found) == count
    assert [number for number, ids in enumerate(found.field("ids").to_pylist()) if ids != [0]] == [1]
    errors = found.field("error").to_pylist()
    assert "expected an object" in errors.pop(1)
    assert set(errors) == {None}


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
