"""Runs a program on Spark Connect, against a server inside the session of the other tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.free_port import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PROGRAM = """
import json, sys
import tamis.spark
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
assert tamis.spark.session() is spark  # and it has the data sources now
frame = spark.createDataFrame([(5, "frost"), (50, "no")], "price int, body string")
rules = spark.createDataFrame([("cheap", "price < 10", None), ("frost", "frost", "text")],
                              "key string, text string, language string")
tamis.spark.register_function(spark, rules)
now = {"cheap": "price < 10"}
followed = tamis.spark.follow(lambda: now, folder=sys.argv[3], every_s=3600)
follows = frame.transform(tamis.spark.match(followed))
before = [row.matched for row in follows.collect()]
now = {"cheap": "price < 10", "expensive": "price > 10"}
followed.refresh()
frame.createOrReplaceTempView("offers")
tamis.spark.write_shards(now, sys.argv[3] + "/shards", 2)
sharded = tamis.spark.follow(lambda: now, folder=sys.argv[3], every_s=3600, shards=2)
tamis.spark.register_function(spark, sys.argv[3] + "/shards", "in_shards")
parquet = sys.argv[3] + "/offers"
frame.write.parquet(parquet)
stream = spark.readStream.schema(frame.schema).parquet(parquet)
found = stream.transform(tamis.spark.match(sys.argv[3] + "/shards"))
query = found.writeStream.format("memory").queryName("found").trigger(availableNow=True).start()
query.awaitTermination()
print(json.dumps({
    "shards": sorted(row.matched for row in frame.transform(tamis.spark.match(sys.argv[3] + "/shards")).collect()),
    "followed in shards": [row.matched for row in frame.transform(tamis.spark.match(sharded)).collect()],
    "sql in shards": [row.m for row in spark.sql("SELECT in_shards(struct(*)) AS m FROM offers").collect()],
    "stream in shards": sorted(row.matched for row in spark.table("found").collect()),
    "matched": [row.matched for row in frame.transform(tamis.spark.match(rules)).collect()],
    "explained": [row.explained.result for row in frame.transform(tamis.spark.explain(rules, "cheap")).collect()],
    "sql": [row.m for row in spark.sql("SELECT tamis_match(struct(*)) AS m FROM offers").collect()],
    "followed": [before, [row.matched for row in follows.collect()]],
    "source": spark.read.format("tamis.jsonl").load(sys.argv[2]).count(),
}))
"""


@pytest.fixture
def server(spark: SparkSession) -> Iterator[str]:
    """The address of a server of Spark Connect on this machine."""
    pytest.importorskip("grpc", reason="the client of Spark Connect needs pip install 'pyspark[connect]'")
    pytest.importorskip("grpc_status", reason="the client of Spark Connect needs pip install 'pyspark[connect]'")
    context = spark.sparkContext._jsc.sc()
    context.conf().set("spark.connect.grpc.binding.address", "127.0.0.1")
    port = free_port()
    context.conf().set("spark.connect.grpc.binding.port", str(port))
    service = spark._jvm.org.apache.spark.sql.connect.service.SparkConnectService
    service.start(context)
    yield f"sc://127.0.0.1:{port}"
    spark._jvm.org.apache.spark.sql.connect.SparkConnectPlugin().driverPlugin().shutdown()


def test_a_program_on_spark_connect_matches_explains_and_reads(
    server: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    called = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, server, str(path), str(path.parent)],
        capture_output=True,
        text=True,
        env={**os.environ, "SPARK_CONNECT_MODE_ENABLED": "1"},
        timeout=240,
        check=False,
    )
    assert called.returncode == 0, called.stderr
    assert json.loads(called.stdout) == {
        "shards": [["cheap"], ["expensive"]],
        "followed in shards": [["cheap"], ["expensive"]],
        "sql in shards": [["cheap"], ["expensive"]],
        "stream in shards": [["cheap"], ["expensive"]],
        "matched": [["cheap", "frost"], []],
        "explained": [True, False],
        "sql": [["cheap", "frost"], []],
        "followed": [[["cheap"], []], [["cheap"], ["expensive"]]],
        "source": 2,
    }
