"""Queries in shards give every row what the same queries give without shards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import tamis
from tamis.errors import ConfigError, TamisError
from tamis.spark import explain, match, register_function, write_shards
from tamis.spark.matching.shards import worker as shard_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SHARDS = 5
QUERIES: dict[str, Any] = {
    **{f"user{number}": f"user = 'u{number}' AND price > {number}" for number in range(30)},
    **{f"place{number}": f"place.country IN ('C{number}', 'C{number + 1}')" for number in range(6)},
    **{f"tag{number}": f"tags = 't{number}'" for number in range(10)},
    **{f"number{number}": f"n = {number}.0 OR n = {number}.5" for number in range(5)},
    **{f"mail{number}": (f"mail.u{number}.#", "topic") for number in range(10)},
    "cheap": "price < 3",
    "not": "NOT (user = 'u1')",
    "late": "sent > TIMESTAMP '2002-08-22T18:26:25Z'",
    "frost": ("frost", "text"),
}
COLUMNS = """number int, topic string, body string, user string, price double, tags array<string>, n bigint,
    sent timestamp, place struct<country: string>, counts map<string, int>, `a.b` string"""


def row(number: int) -> tuple[Any, ...]:
    return (
        number,
        f"mail.u{number % 12}.new" if number % 3 else "",
        "frost tonight" if number % 5 == 0 else None,
        f"u{number % 31}" if number % 4 else None,
        float(number % 40) if number % 6 else None,
        [f"t{number % 11}", None, f"t{number % 7}"] if number % 2 else [],
        number % 6,
        datetime(2002, 8, 23, tzinfo=UTC) if number % 10 == 0 else None,
        {"country": f"C{number % 9}"} if number % 3 else None,
        {"a": number} if number % 2 else None,
        str(number),
    )


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([row(number) for number in range(300)], COLUMNS).repartition(3).cache()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("population") / "shards"
    summary = write_shards(QUERIES, folder, SHARDS)
    assert (summary.shards, summary.met_by_all) == (SHARDS, 1)
    return folder


def by_number(frame: DataFrame) -> list[Any]:
    return sorted((it.asDict(recursive=True) for it in frame.collect()), key=lambda it: it["number"])


@pytest.mark.parametrize("ids", [False, True])
def test_columns_are_matched_as_without_shards(messages: DataFrame, folder: Path, ids: bool) -> None:
    frame = messages.transform(match(folder, ids=ids))
    wanted = messages.transform(match(QUERIES, ids=ids))
    assert frame.dtypes == wanted.dtypes
    assert by_number(frame) == by_number(wanted)
    assert sum(len(it.matched) for it in frame.select("matched").collect()) > 300


@pytest.mark.parametrize(("ids", "errors"), [(False, "raise"), (True, "null"), (False, "column")])
def test_a_stream_is_matched_as_a_batch_without_shards(
    spark: SparkSession, messages: DataFrame, folder: Path, tmp_path: Path, ids: bool, errors: Any
) -> None:
    lines = messages.selectExpr("number", "topic", "body", "to_json(struct(user, price, tags, n, place)) AS properties")
    lines.write.parquet(str(tmp_path / "in"))
    (name,) = (f"found_{ids}_{errors}",)
    stream = spark.readStream.schema(lines.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    matched = stream.transform(match(folder, ids=ids, errors=errors)).drop("topic", "body", "properties")
    query = matched.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    wanted = lines.transform(match(QUERIES, ids=ids, errors=errors)).drop("topic", "body", "properties")
    assert by_number(spark.table(name)) == by_number(wanted)


def test_a_function_of_sql_takes_shards(spark: SparkSession, messages: DataFrame, folder: Path) -> None:
    register_function(spark, folder, "in_shards")
    frame = messages.selectExpr(
        "number", "in_shards(struct(topic, body, user, price, tags, n, sent, place)) AS matched"
    )
    wanted = messages.drop("counts", "a.b").transform(match(QUERIES)).select("number", "matched")
    assert by_number(frame) == by_number(wanted)


def test_json_text_maps_and_variants(messages: DataFrame, folder: Path) -> None:
    for properties in (
        "to_json(struct(user, price, tags, n, place))",
        "map('user', user, 'tags', get(tags, 0))",
        "parse_json(to_json(struct(user, price, tags, n, place)))",
        "struct(user, price, tags, n, place, sent)",
    ):
        frame = messages.selectExpr("number", "topic", "body", f"{properties} AS properties")
        found, wanted = (frame.transform(match(it)).select("number", "matched") for it in (folder, QUERIES))
        assert by_number(found) == by_number(wanted), properties


@pytest.mark.parametrize("errors", ["null", "column"])
def test_rows_that_cannot_be_read(spark: SparkSession, folder: Path, errors: Any) -> None:
    texts = ['{"user": "u3", "price": 9}', "{", '{"n": 99999999999999999999}', '{"tags": ["t1", "t2"]}', "{}"]
    frame = spark.createDataFrame(list(enumerate(texts)), "number int, properties string").coalesce(1)
    found = by_number(frame.transform(match(folder, errors=errors)))
    assert found == by_number(frame.transform(match(QUERIES, errors=errors)))
    assert [it["matched"] is None for it in found] == [False, True, True, False, False]
    with pytest.raises(Exception, match="column 'properties', row 1"):
        frame.transform(match(folder)).collect()


def test_no_rows_no_queries_and_columns_that_nobody_asks_for(
    spark: SparkSession, messages: DataFrame, folder: Path, tmp_path: Path
) -> None:
    assert messages.limit(0).transform(match(folder)).collect() == []
    write_shards({}, tmp_path / "none", 3)
    found = messages.limit(2).transform(match(tmp_path / "none")).collect()
    assert [it.matched for it in found] == [[], []]
    frame = spark.createDataFrame([(1,)], "other int")
    assert [it.matched for it in frame.transform(match(folder, column="matched")).collect()] == [[]]


def test_what_shards_cannot_do_is_refused_by_name(spark: SparkSession, messages: DataFrame, folder: Path) -> None:
    with pytest.raises(TamisError, match="column 'user' already"):
        messages.transform(match(folder, column="user"))
    with pytest.raises(TamisError, match="shards have theirs"):
        match(folder, hierarchies={"a": {}})
    with pytest.raises(TamisError, match="a folder of shards; name the file of one"):
        explain(folder, "cheap")
    with pytest.raises(ConfigError, match=r"expected a folder of shards, with directory\.tamis"):
        match(folder.parent)


def test_a_folder_that_is_written_again_changes_nothing_for_those_who_have_it(
    messages: DataFrame, tmp_path: Path
) -> None:
    folder = tmp_path / "shards"
    write_shards({"a": "n = 1", "b": "n = 2"}, folder, 2)
    frame = messages.filter("number < 6").transform(match(folder)).select("number", "matched")
    for path in folder.iterdir():
        path.unlink()
    write_shards({"c": "n = 3"}, folder, 2)
    assert [it["matched"] for it in by_number(frame)] == [[], ["a"], ["b"], [], [], []]


@pytest.fixture
def few_are_open() -> Iterator[None]:
    shard_worker.open_shard.cache_clear()
    yield
    shard_worker.open_shard.cache_clear()


def test_a_worker_keeps_few_shards_open(folder: Path, few_are_open: None) -> None:
    snapshots = [lambda number=number: str(folder / f"shard-{number}.tamis") for number in range(SHARDS)]
    positions = [lambda number=number: str(folder / f"shard-{number}.npy") for number in range(SHARDS)]
    files = ((lambda: str(folder / "directory.tamis"), snapshots, positions), b"", b"", None)
    texts = [json.dumps({"user": f"u{number}", "price": 90}) for number in range(30)]
    column = pa.array(texts)
    shards = shard_worker.route_rows(files, ["properties"], [column]).field("shards").to_pylist()
    copies = [(number, shard) for number, met in enumerate(shards) for shard in met] + [(0, None)]
    inputs = [
        column.take(pa.array([number for number, _ in copies])),
        pa.array([shard for _, shard in copies], pa.int32()),
    ]
    found = shard_worker.match_in_shards(files, ["properties", ""], inputs).to_pylist()
    assert found.pop() is None
    keys = {(number, it["key"]) for (number, _), matched in zip(copies, found, strict=False) for it in matched}
    assert keys == {(n, f"user{n}") for n in range(30)} | {(n, "not") for n in range(30) if n != 1}
    info = shard_worker.open_shard.cache_info()
    assert info.misses == len({shard for _, shard in copies} - {None}) > shard_worker.SHARDS_OPEN_MAX
    assert info.currsize == shard_worker.SHARDS_OPEN_MAX


CLUSTER = """\
import sys, tamis.spark
options = {"spark.executor.memory": "512m"}
spark = tamis.spark.session(master="local-cluster[2,1,512]", options=options)
rows = spark.createDataFrame([(n, f"u{n % 50}") for n in range(200)], "n int, user string").repartition(4)
hits = rows.transform(tamis.spark.match(sys.argv[1]))
print(sorted((row.n, row.matched) for row in hits.collect()) == [(n, [f"q{n % 50}"]) for n in range(200)])
tamis.spark.close_session(spark)
"""


def test_the_shards_travel_to_the_workers_of_a_cluster(tmp_path: Path) -> None:
    write_shards({f"q{number}": f"user = 'u{number}'" for number in range(50)}, tmp_path / "shards", 3)
    done = subprocess.run(
        [sys.executable, "-c", CLUSTER, str(tmp_path / "shards")],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        check=False,
    )
    assert done.stdout.strip() == "True", done.stderr


def test_every_query_is_in_an_ordinary_snapshot(folder: Path) -> None:
    keys = [key for number in range(SHARDS) for key in tamis.Engine.open(folder / f"shard-{number}.tamis")]
    assert sorted(keys) == sorted(QUERIES)
