"""Compares the match operator with brute force, for every shape of columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis.errors import ConfigError, TamisError
from tamis.spark import match
from tamis.spark.matching import worker
from tamis.spark.matching.worker import Errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

QUERIES = [
    tamis.QuerySpec("cheap", "price < 10"),
    tamis.QuerySpec("symbol", "symbol IN ('A', 'B')"),
    tamis.QuerySpec("both", "symbol = 'A' AND price BETWEEN 5 AND 50"),
    tamis.QuerySpec("nested", "place.country = 'FR'"),
    tamis.QuerySpec("tagged", "tags = 'urgent'"),
    tamis.QuerySpec("late", "sent > TIMESTAMP '2002-08-22T18:26:25Z'"),
    tamis.QuerySpec("unknown", "NOT (symbol = 'A')"),
    tamis.QuerySpec("forex", "forex.*.usd", "topic"),
    tamis.QuerySpec("frost", "frost", "text"),
]

MESSAGES: list[dict[str, Any]] = [
    {"topic": "forex.eur.usd", "symbol": "A", "price": 7.5, "tags": ["urgent", "x"], "body": "Frost tonight"},
    {"topic": "forex.usd", "symbol": "B", "price": 70.0, "tags": [], "body": None, "place": {"country": "FR"}},
    {"topic": "", "symbol": None, "price": 5.0, "tags": None, "body": "no match for text", "place": {"country": "DE"}},
    {"topic": "x", "symbol": "C", "price": None, "sent": datetime(2002, 8, 23, tzinfo=UTC), "body": "Ökofrost"},
]

SCHEMA = """topic string, body string, properties struct<symbol: string, price: double, tags: array<string>,
    sent: timestamp, place: struct<country: string>>"""
NAMES = ("symbol", "price", "tags", "sent", "place")


def properties_of(message: dict[str, Any]) -> dict[str, Any]:
    return {name: message.get(name) for name in NAMES}


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> DataFrame:
    rows = [(message["topic"], message["body"], properties_of(message)) for message in MESSAGES]
    return spark.createDataFrame(rows, SCHEMA).coalesce(1).cache()


def expected(names: tuple[str, ...] = NAMES, topic: bool = True, body: bool = True) -> list[list[str]]:
    """Return the matches by brute force, for messages of these parts only."""
    return [
        [
            query.key
            for query in QUERIES
            if query.compile().evaluate(
                {name: message.get(name) for name in names},
                message["topic"] if topic else "",
                message["body"] if body else None,
            )
        ]
        for message in MESSAGES
    ]


def matched(frame: DataFrame, queries: Any = QUERIES, **options: bool) -> list[Any]:
    return [row.matched for row in frame.transform(match(queries, **options)).select("matched").collect()]


def test_a_struct_of_properties(messages: DataFrame) -> None:
    assert matched(messages) == expected()
    assert expected()[0] == ["cheap", "symbol", "both", "tagged", "forex", "frost"]


def test_json_text_as_properties(messages: DataFrame, spark: SparkSession) -> None:
    names = ("symbol", "price", "tags", "place")
    rows = [(m["topic"], m["body"], json.dumps({name: m.get(name) for name in names})) for m in MESSAGES]
    frame = spark.createDataFrame(rows, "topic string, body string, properties string").coalesce(1)
    assert matched(frame) == expected(names)


def test_a_map_as_properties(spark: SparkSession) -> None:
    rows = [(m["topic"], m["body"], {"symbol": m["symbol"]} if m["symbol"] else {}) for m in MESSAGES]
    frame = spark.createDataFrame(rows, "topic string, body string, properties map<string, string>").coalesce(1)
    assert matched(frame) == expected(("symbol",))


def test_without_properties_every_other_column_is_one(messages: DataFrame) -> None:
    frame = messages.select("topic", "body", "properties.*")
    assert matched(frame) == expected()


def test_topic_and_body_are_optional(messages: DataFrame) -> None:
    assert matched(messages.select("properties")) == expected(topic=False, body=False)
    assert matched(messages.select("topic")) == expected((), body=False)
    assert matched(messages.select("properties.symbol", "properties.price")) == expected(
        ("symbol", "price"), topic=False, body=False
    )


def test_a_binary_body_is_text_when_it_is_utf_8(spark: SparkSession) -> None:
    rows = [(bytearray("Frost", "utf-8"),), (bytearray(b"frost \xff"),), (None,)]
    assert matched(spark.createDataFrame(rows, "body binary").coalesce(1)) == [["frost"], [], []]


def test_a_column_with_a_dot_in_its_name(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("FR",)], "`place.country` string")
    assert matched(frame) == [["nested"]]


def test_ids_for_keys_that_are_not_text(messages: DataFrame) -> None:
    engine = tamis.Engine()
    engine.add_many(((index, query.key), query.compile()) for index, query in enumerate(QUERIES))
    found = [[key for _, key in engine.keys(ids)] for ids in matched(messages, engine, ids=True)]
    assert found == expected()
    with pytest.raises(Exception, match="match\\(..., ids=True\\)"):
        matched(messages, engine)


def test_a_file_of_queries_and_a_snapshot(messages: DataFrame, tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("b: symbol = 'B'\n# and\ncheap: price < 10\n")
    wanted = [["cheap"], ["b"], ["cheap"], []]
    assert matched(messages, tmp_path / "queries.txt") == wanted
    engine = tamis.Engine()
    engine.add_many((spec.key, spec.compile()) for spec in tamis.load_queries(tmp_path / "queries.txt"))
    engine.save(tmp_path / "queries.tamis")
    assert matched(messages, str(tmp_path / "queries.tamis")) == wanted


def steps(frame: DataFrame) -> list[str]:
    """Return the steps of the plan, the last first, without numbers."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return [re.sub(r"^[ :*+\-|(]*\d*\)?[ *]*|#\d+L?", "", line) for line in plan.splitlines()]


@pytest.mark.parametrize("errors", ["raise", "null", "column"])
def test_rows_are_matched_once_where_a_filter_follows(messages: DataFrame, errors: Errors) -> None:
    frame = messages.transform(match(QUERIES, errors=errors)).filter("size(matched) > 1").select("topic", "matched")
    assert sum("ArrowEvalPython" in step for step in steps(frame)) == 1
    assert [row.matched for row in frame.collect()] == [keys for keys in expected() if len(keys) > 1]


@pytest.mark.parametrize("errors", ["raise", "null", "column"])
def test_a_filter_on_other_columns_goes_below_the_match(
    spark: SparkSession, messages: DataFrame, tmp_path: Path, errors: Errors
) -> None:
    messages.write.parquet(str(tmp_path / "in"))
    matches = spark.read.parquet(str(tmp_path / "in")).transform(match(QUERIES, errors=errors))
    frame = matches.filter("topic = 'forex.usd' AND size(matched) > 0").select("topic", "matched")
    after = matches.select("topic", "matched").collect()
    assert sorted(frame.collect()) == sorted(row for row in after if row.topic == "forex.usd" and row.matched)
    told = steps(frame)
    place = next(index for index, step in enumerate(told) if step.startswith("ArrowEvalPython"))
    assert any(step.startswith("Filter") and "forex.usd" in step for step in told[place:])
    assert "EqualTo(topic,forex.usd)" in told[-1], "Parquet is read with the filter"
    assert sum("ArrowEvalPython" in step for step in told) == 1


def test_rows_that_a_limit_drops_are_not_matched(messages: DataFrame, spark: SparkSession) -> None:
    ordered = messages.orderBy("topic")
    first = ordered.limit(2).select("topic", "body").transform(match(QUERIES))
    assert any(step.startswith("TakeOrderedAndProject") for step in steps(first)), "and not all are sorted"
    broken = spark.createDataFrame([("{", 1), ('{"price": 5}', 2)], "properties string, n int")
    later = broken.orderBy("n").offset(1).transform(match([("cheap", "price < 10")]))
    assert [row.matched for row in later.collect()] == [["cheap"]]


def test_a_row_that_cannot_be_read_has_no_answer_where_filters_follow(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("{", 1), ('{"price": 5}', 1), ("{}", 2)], "properties string, part int")
    frame = rows.transform(match([("cheap", "price < 10")], errors="null")).filter("part = 1")
    assert [row.matched for row in frame.collect()] == [None, ["cheap"]]
    assert [row.matched for row in frame.filter("matched IS NULL").collect()] == [None]


def test_no_rows_and_no_queries(messages: DataFrame) -> None:
    assert matched(messages.limit(0)) == []
    assert matched(messages, []) == [[], [], [], []]


def test_a_stream(messages: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    messages.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(messages.schema).parquet(str(tmp_path / "in")).transform(match(QUERIES))
    query = stream.writeStream.format("memory").queryName("hits").trigger(availableNow=True).start()
    query.awaitTermination()
    found = {row.topic: row.matched for row in spark.table("hits").collect()}
    assert found == dict(zip((message["topic"] for message in MESSAGES), expected(), strict=True))


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ("1 AS topic", "column 'topic': expected a string, not int"),
        ("'x' AS topic, 1.5D AS body", "column 'body': expected a string or binary, not double"),
        ("array(1) AS properties", "column 'properties': expected a struct, a map, a variant or a string of JSON"),
    ],
)
def test_a_column_that_cannot_be_a_part_of_a_message_is_refused(spark: SparkSession, columns: str, error: str) -> None:
    with pytest.raises(TamisError, match=error):
        spark.sql(f"SELECT {columns}").transform(match(QUERIES))


def test_a_query_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("# two\nfine: a = 1\nbad: a >> 1\n")
    with pytest.raises(ConfigError, match="queries.txt, line 3: query 'bad': expected"):
        match(tmp_path / "queries.txt")


def test_a_worker_opens_a_snapshot_once_and_again_when_it_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    open_snapshot: Callable[..., tamis.Engine] = tamis.Engine.open

    def counting(path: str, **options: Any) -> tamis.Engine:
        opened.append(path)
        return open_snapshot(path, **options)

    monkeypatch.setattr(worker.Engine, "open", counting)
    path = tmp_path / "queries.tamis"
    for key in ("first", "second"):
        engine = tamis.Engine()
        engine.add(key, tamis.selector("a = 1"))
        engine.save(path)
        for _ in range(3):
            assert worker.open_engine((str(path), ())).match({"a": 1}) == [key]
    assert len(opened) == 2


def test_a_snapshot_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(tamis.SnapshotError, match="nowhere.tamis"):
        worker.open_engine((str(tmp_path / "nowhere.tamis"), ()))


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=6) | st.none(), max_size=8),
    st.sampled_from([0, 3, worker.KEYS_KEPT_MAX]),
    st.sampled_from([0, 4, worker.ID_MAX]),
)
def test_the_column_of_keys_is_what_the_engine_says(rows: list[list[int] | None], kept_max: int, id_max: int) -> None:
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add_many((f"é{number}", tamis.selector("a = 1")) for number in range(10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "KEYS_KEPT_MAX", kept_max)
        patch.setattr(worker, "ID_MAX", id_max)
        for end in range(len(rows) + 1):
            ids = pa.array(rows[:end], pa.list_(pa.uint64()))
            wanted = [None if row is None else engine.keys(row) for row in rows[:end]]
            assert worker._keys(engine, ids).to_pylist() == wanted
