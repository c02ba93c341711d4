"""A declarative pipeline of Spark matches rows, in a program that Spark Connect serves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import tamis
from tamis.errors import TamisError
from tamis.spark.matching.worker import here, match_whole
from tests.spark.test_connect import server  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    Unseen = Callable[..., list[list[str]]]

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "declarative_pipeline"
REASONS = """
import tamis.spark
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()

@dp.materialized_view
def reasons():
    return spark.table("wanted").transform(tamis.spark.explain({"cheap": "price < 3"}, "cheap"))

@dp.materialized_view
def broken():
    rows = spark.range(2).selectExpr("IF(id = 0, '{', '{}') AS properties")
    return rows.transform(tamis.spark.match({"none": "price IS NULL"}, errors="column"))
"""


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A database whose tables are in a folder of the test."""
    spark.sql(f"CREATE DATABASE declarative LOCATION '{tmp_path / 'tables'}'")
    yield "declarative"
    spark.sql("DROP DATABASE declarative CASCADE")


def run_pipeline(folder: Path, server: str, database: str, *more: str) -> subprocess.CompletedProcess[str]:  # noqa: F811
    """Run the example, with more transformations, and with its tables in a database."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for number, text in enumerate(more):
        (folder / "transformations" / f"more{number}.py").write_text(text)
    spec = folder / "spark-pipeline.yml"
    storage = f"storage: file://{folder}/storage\ndatabase: {database}\n"
    kept = [line for line in spec.read_text().splitlines(keepends=True) if not line.startswith("storage:")]
    spec.write_text("".join(kept) + storage)
    command = [sys.executable, "-W", "ignore", "-m", "pyspark.pipelines.cli", "run", "--spec", str(spec)]
    environment = {**os.environ, "SPARK_REMOTE": server, "SPARK_CONNECT_MODE_ENABLED": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)


def test_the_example_finds_the_offers_that_satisfy_a_rule(
    spark: SparkSession,
    server: str,  # noqa: F811
    database: str,
    tmp_path: Path,
) -> None:
    done = run_pipeline(tmp_path / "example", server, database, REASONS)
    assert done.returncode == 0, done.stderr
    offers = [(number % 10, "EU" if number % 2 == 0 else "US") for number in range(100)]
    expected = sorted(
        ["cheap"] * (price < 3) + ["european"] * (region == "EU" and 5 <= price <= 7) for price, region in offers
    )
    found = sorted(list(row.matched) for row in spark.table(f"{database}.wanted").collect())
    assert found == [keys for keys in expected if keys]
    reasons = spark.table(f"{database}.reasons").collect()
    assert {(row.price < 3, row.explained.result) for row in reasons} == {(True, True), (False, False)}
    broken = spark.table(f"{database}.broken").collect()
    assert sorted((row.matched is None, row.matched_error is None) for row in broken) == [(False, True), (True, False)]


@pytest.fixture
def unseen(tmp_path: Path) -> Unseen:
    """Matches rows as a worker does that gets all columns in one: queries by their keys."""

    def match(rows: list[dict[str, object]], **texts: str) -> list[list[str]]:
        engine: tamis.Engine[str] = tamis.Engine()
        engine.add_many((key, tamis.selector(text)) for key, text in texts.items())
        path = tmp_path / f"{'-'.join(texts)}.tamis"
        engine.save(path)
        state = here(path)(), ()
        found: list[list[str]] = match_whole(
            state, ["row"], [pa.array(rows)], new=["matched"], is_exact=False
        ).to_pylist()
        return found

    return match


def test_a_column_that_is_there_already_is_refused_when_the_pipeline_runs(unseen: Unseen) -> None:
    with pytest.raises(TamisError, match="the DataFrame has a column 'matched' already; drop it, or name another"):
        unseen([{"price": 5, "Matched": "x"}], cheap="price < 10")


def test_parts_of_messages_are_found_whatever_their_case(unseen: Unseen) -> None:
    rows: list[dict[str, object]] = [{"Properties": {"price": 5}, "Topic": "a.b", "other": 1}]
    assert unseen(rows, cheap="price < 10", topic="TOPIC('a.#')", other="other = 1") == [["cheap", "topic"]]
    with pytest.raises(TamisError, match="columns 'Topic' and 'topic': Spark takes their names as the same"):
        unseen([{"Topic": "a", "topic": "b"}], topic="TOPIC('a')")


def test_what_no_query_asks_for_is_not_read(unseen: Unseen) -> None:
    rows: list[dict[str, object]] = [{"price": 5, "topic": 7, "since": timedelta(1)}]
    assert unseen(rows, cheap="price < 10") == [["cheap"]]
    assert unseen(rows) == [[]]
