"""Tests what `match` offers beside the plain column: forms of rules, errors, names, explanations, the SQL function."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest

import tamis
from tamis.errors import ConfigError, TamisError
from tamis.query.predicates import load_predicate
from tamis.spark import explain, match, register, register_function
from tamis.spark.matching.columns import message_columns
from tamis.spark.matching.operator import in_worker
from tamis.spark.matching.rules import RuleSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

RULES = {"cheap": "price < 10", "frost": ("frost", "text")}


@pytest.fixture(scope="module")
def offers(spark: SparkSession) -> DataFrame:
    rows = [(5, "frost tonight"), (50, "no"), (None, None)]
    return spark.createDataFrame(rows, "price int, body string").coalesce(1).cache()


def found(frame: DataFrame, column: str = "matched") -> list[Any]:
    return [row[column] for row in frame.select(column).collect()]


def test_rules_from_a_table_as_spark_collects_it(spark: SparkSession, offers: DataFrame) -> None:
    schema = "key int, text string, language string, note string"
    rules = spark.createDataFrame([(1, "price < 10", None, "x"), (2, "frost", "text", "y")], schema)
    assert found(offers.transform(match(rules))) == [["1", "2"], [], []]
    assert found(offers.transform(match(rules.collect()))) == [["1", "2"], [], []]
    with pytest.raises(ConfigError, match="the table has no key"):
        match(rules.drop("key"))


def test_rows_that_cannot_be_read_are_null_or_have_their_reason(spark: SparkSession) -> None:
    texts = [('{"price": 5}',), ("{bad",), ("[1]",), (None,)]
    frame = spark.createDataFrame(texts, "properties string").coalesce(1)
    assert found(frame.transform(match(RULES, errors="null"))) == [["cheap"], None, None, []]
    both = frame.transform(match(RULES, column="rules", errors="column", ids=True))
    assert both.columns == ["properties", "rules", "rules_error"]
    rows = both.filter("rules_error IS NOT NULL").collect()
    assert [(row.rules, row.rules_error.split(":")[0]) for row in rows] == [(None, "column 'properties'")] * 2
    with pytest.raises(Exception, match="column 'properties', row 1"):
        frame.transform(match(RULES)).collect()
    with pytest.raises(ValueError, match="errors: expected 'raise', 'null' or 'column', not 'skip'"):
        match(RULES, errors="skip")  # type: ignore[arg-type]


def test_only_columns_that_queries_ask_for_go_to_python(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 5 AS price, INTERVAL '1' DAY AS span, 'x' AS body, 'a.b' AS topic, map(1, 2) AS odd")
    asked = RuleSet.of({"cheap": "price < 10"}).engine.asked
    assert list(message_columns(frame, asked)) == ["price"]
    assert found(frame.transform(match({"cheap": "price < 10"}))) == [["cheap"]]
    nested = frame.selectExpr("struct(price, span, odd) AS properties", "body", "topic")
    assert found(nested.transform(match({"cheap": "price < 10 AND topic = 'a.b'"}))) == [["cheap"]]
    nothing = frame.transform(match({"all": "TRUE"}))
    assert found(nothing) == [["all"]]
    absent = spark.sql("SELECT CAST(NULL AS struct<price: int, x: int>) AS properties")
    assert found(absent.transform(match({"there": "EXISTS(price)", "null": "price IS NULL"}))) == [["null"]]


def test_under_follows_the_hierarchies_that_are_given(offers: DataFrame) -> None:
    rules, trees = {"up": "weather UNDER 'cold'"}, {"weather": {"frost tonight": "cold", "cold": None}}
    with pytest.raises(ConfigError, match="query 'up'.*weather"):
        match(rules)
    named = offers.withColumnRenamed("body", "weather")
    assert found(named.transform(match(rules, hierarchies=trees))) == [["up"], [], []]
    with pytest.raises(TamisError, match="an engine and a snapshot have their own"):
        match(tamis.Engine(), hierarchies=trees)


def test_the_new_column_has_a_name_of_its_own(offers: DataFrame) -> None:
    twice = offers.transform(match(RULES, column="a")).transform(match({"dear": "price > 10"}, column="b"))
    assert [tuple(row) for row in twice.select("a", "b").collect()] == [
        (["cheap", "frost"], []),
        ([], ["dear"]),
        ([], []),
    ]
    with pytest.raises(TamisError, match="a column 'A' already; drop it, or name another"):
        twice.transform(match(RULES, column="A"))


def test_a_query_is_explained_for_each_row(offers: DataFrame) -> None:
    rules = RULES | {"small": "price < 10 AND size = 1"}
    first, second, last = found(offers.transform(explain(rules, "small")), "explained")
    assert (first.result, second.result, last.result, last.missing) == (None, False, None, ["size"])
    assert tuple(first.predicates[0]) == ("price < 10", "5", True)
    with pytest.raises(TamisError, match="no query has the key 'chep'; did you mean 'cheap'"):
        explain(RULES, "chep")


def test_the_function_of_sql(spark: SparkSession, offers: DataFrame) -> None:
    register_function(spark, RULES)
    offers.createOrReplaceTempView("offers")
    assert found(spark.sql("SELECT tamis_match(struct(*)) AS matched FROM offers")) == [["cheap", "frost"], [], []]
    rows = spark.sql("SELECT price FROM offers WHERE array_contains(tamis_match(struct(price)), 'cheap')").collect()
    assert [row.price for row in rows] == [5]
    register_function(spark, RULES, "rule_ids", ids=True, errors="null")
    texts = spark.sql("SELECT rule_ids(json) AS matched FROM VALUES ('{\"price\": 1}'), ('{') AS t(json)")
    assert found(texts) == [[0], None]


def test_data_sources_are_registered_by_one_call(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_text("From a\nSubject: x\n\ntext\n")
    for _ in range(2):
        register(spark)
    assert spark.read.format("tamis.mbox").load(str(tmp_path)).count() == 1


def test_a_snapshot_that_is_replaced_later_changes_nothing(offers: DataFrame, tmp_path: Path) -> None:
    def save(text: str) -> None:
        engine = tamis.Engine()
        engine.add(text, tamis.selector(text))
        engine.save(tmp_path / "q.tamis")

    save("price = 5")
    hits = offers.transform(match(tmp_path / "q.tamis"))
    save("price = 50")
    assert found(hits) == [["price = 5"], [], []]
    assert found(offers.transform(match(tmp_path / "q.tamis"))) == [[], ["price = 50"], []]


@pytest.fixture
def parity(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    """Install a package that registers the predicate `even`, in this process and in workers."""
    package = tmp_path / "parity.zip"
    with ZipFile(package, "w") as archive:
        archive.writestr("parity.py", "def even(properties, topic, body):\n    return properties['n'] % 2 == 0\n")
        archive.writestr("parity-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: parity\nVersion: 1\n")
        archive.writestr("parity-1.dist-info/entry_points.txt", "[tamis.predicates]\neven = parity:even\n")
    before = sys.path[:]
    spark.sparkContext.addPyFile(str(package))
    yield
    sys.path[:] = before
    load_predicate.cache_clear()


@pytest.mark.usefixtures("parity")
def test_a_registered_predicate_is_found_by_workers(spark: SparkSession) -> None:
    frame = spark.range(2, 9, numPartitions=1).withColumnRenamed("id", "n")
    rules = [("even", "even: n > 3", "predicate"), ("large", "n > 7")]
    assert found(frame.transform(match(rules))) == [[], [], ["even"], [], ["even"], [], ["even", "large"]]


def test_a_predicate_that_is_not_registered_is_refused_when_it_is_given() -> None:
    engine = tamis.Engine()
    engine.add("mine", tamis.opaque("mine", lambda properties, topic, body: True))
    with pytest.raises(TamisError, match="'mine' is a function of this program, .* entry point .* 'tamis.predicates'"):
        match(engine)


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "tamis":
            raise ModuleNotFoundError("No module named 'tamis'", name="tamis")
sys.meta_path.insert(0, Blocked())
from pyspark import cloudpickle
call = cloudpickle.loads(sys.stdin.buffer.read())
try:
    call([], [])
except RuntimeError as error:
    print(error)
"""


def test_a_worker_without_tamis_says_so() -> None:
    from pyspark import cloudpickle

    sent = cloudpickle.dumps(in_worker(lambda: "nowhere", "match_rows", {}))
    done = subprocess.run([sys.executable, "-c", BLOCKED], input=sent, capture_output=True, check=True, timeout=120)
    text = done.stdout.decode()
    assert f"this worker of Spark runs {sys.executable} (No module named 'tamis'), and the program runs" in text
    assert "Set PYSPARK_PYTHON" in text
