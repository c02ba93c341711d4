"""Compares the match operator on Spark with an Arrow UDF that returns a constant, and the engine with brute force.

    python benchmarks/match_operator.py [--rows N] [--queries N,N] [--runs N] [--kinds A,B] [--messages A,B] [--json]

Messages are made inside the JVM (256-byte body, six properties) and results are discarded, so that only the UDF is
measured. The operators alternate in one process; the median of the runs counts. The bar is 1.3 with 10,000 queries and
1.6 with 500,000.

A constant of one number is the bar's. Two others return as many numbers, and as many keys, as a message has matches:
with many matches, most of the time goes into handing them from Python to Spark, whoever has found them.

``--kinds`` names the kinds of queries, in equal shares. ``limit``, ``regions`` and ``fields`` have an equality as their
access key; ``topic`` and ``near`` have none. By default, each number of queries is measured without these two and with
all of these kinds. ``symbol`` is one equality: 500,000 such queries give 100 matches a message.

``--messages`` names what is matched: ``made`` as above, real ``mail``, and ``events`` of Windows (those of the folder
TAMIS_SHARED). Real messages are repeated in the memory of Spark to as many rows, and the queries are conditions on
their own values: equalities, words, and both. Beside them stand Spark's own filters: one column of all conditions, for
at most `NATIVE_MAX` of them, since Spark compiles each; and the engine without Spark. All must find the same."""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _real_messages import events, mail, queries_of
from _results import Results
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf

import tamis
import tamis.spark
from tamis.reference.queries.brute_force import BruteForce

BARS = {10_000: 1.3, 500_000: 1.6}
"""The most that a match may take, in times of the constant, by the number of queries."""
TENTH = "properties.volume % 10 = 0"
"""A filter on a column that no query asks for."""
KEYED = "limit,regions,fields"
NATIVE_MAX = 1_000
"""The most queries that are also given to Spark as filters of its own."""
MESSAGES = ("made", "mail", "events")
REAL_QUERIES = (100, 10_000, 500_000)
SEED = 1
SYMBOLS, REGIONS, WORDS = 5_000, 40, 2_000
BRUTE_FORCE_EVALUATIONS = 2_000_000


def _symbol(chance: random.Random) -> str:
    return f"S{chance.randrange(SYMBOLS)}"


KINDS: dict[str, Callable[[random.Random], tamis.Query]] = {
    "limit": lambda chance: tamis.selector(f"symbol = '{_symbol(chance)}' AND price > {chance.randrange(100)}"),
    "regions": lambda chance: tamis.selector(f"symbol = '{_symbol(chance)}' AND region IN ('R1', 'R2') AND urgent"),
    "fields": lambda chance: tamis.fields({"symbol": _symbol(chance), "region": f"R{chance.randrange(REGIONS)}"}),
    "topic": lambda chance: tamis.topic(f"market.r{chance.randrange(REGIONS)}.{_symbol(chance).lower()}.#"),
    "near": lambda chance: tamis.near(f"w{chance.randrange(WORDS)}", f"w{chance.randrange(WORDS)}", 5),
    "symbol": lambda chance: tamis.selector(f"symbol = '{_symbol(chance)}'"),
}
ALL = "limit,regions,fields,topic,near"


def make_queries(count: int, kinds: list[str]) -> list[tuple[str, tamis.Query]]:
    """Return `count` standing queries, whose kinds alternate."""
    chance = random.Random(SEED)
    return [(f"q{number}", KINDS[kinds[number % len(kinds)]](chance)) for number in range(count)]


def make_messages(spark: SparkSession, count: int) -> DataFrame:
    """Return messages that Spark computes from their numbers at almost no cost."""
    number = F.col("id")
    symbol, region = F.pmod(F.hash(number), F.lit(SYMBOLS)), F.pmod(F.hash(number + 1), F.lit(REGIONS))
    words = [F.concat(F.lit("w"), F.pmod(F.hash(number + index), F.lit(WORDS)).cast("string")) for index in range(8)]
    return spark.range(count, numPartitions=2).select(
        F.concat_ws(".", F.lit("market"), F.concat(F.lit("r"), region), F.concat(F.lit("s"), symbol)).alias("topic"),
        F.struct(
            F.concat(F.lit("S"), symbol).alias("symbol"),
            F.concat(F.lit("R"), region).alias("region"),
            (F.pmod(F.hash(number + 2), F.lit(10_000)) / 100).alias("price"),
            (number % 10 == 0).alias("urgent"),
            number.alias("volume"),
            F.lit(None).cast("timestamp").alias("sent"),
        ).alias("properties"),
        F.rpad(F.concat_ws(" ", *words), 256, " lorem ipsum").alias("body"),
    )


def with_constant(frame: DataFrame, count: int = 1, *, texts: bool = False) -> DataFrame:
    """Add a constant column with a UDF of the match operator's signature.

    Args:
        frame: the messages.
        count: the number of values in each row.
        texts: whether they are keys instead of numbers.
    """

    def constant(topic: pa.Array, properties: pa.Array, body: pa.Array) -> pa.Array:
        rows = len(topic)
        offsets = pa.array(np.arange(0, rows * count + 1, count, dtype=np.int32))
        numbers = np.arange(rows * count) % 1_000
        values = pa.array([f"q{number:06}" for number in range(1_000)]).take(pa.array(numbers)) if texts else numbers
        return pa.ListArray.from_arrays(offsets, pa.array(values))

    returned = "array<string>" if texts else "array<bigint>"
    return frame.withColumn("matched", arrow_udf(constant, returned)("topic", "properties", "body"))


def seconds(frame: DataFrame) -> float:
    """Return the time to compute the column `matched` of all rows."""
    started = time.perf_counter()
    frame.select("matched").write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def by_turns(contenders: dict[str, DataFrame], runs: int) -> dict[str, float]:
    """Return the median times of alternating runs, after one of each that does not count."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for run in range(runs + 1):
        for name, frame in contenders.items():
            taken = seconds(frame)
            if run:
                times[name].append(taken)
    return {name: statistics.median(taken) for name, taken in times.items()}


def measure_spark(spark: SparkSession, engine: tamis.Engine, rows: int, runs: int) -> dict[str, Any]:
    """Measure a match, and constants, on as many messages."""
    messages = make_messages(spark, rows)
    matches = max(
        1, round(pc.mean(pc.list_value_length(engine.match_batch(make_messages(spark, 1_000).toArrow()))).as_py())
    )
    contenders = {
        "constant": with_constant(messages),
        "numbers": with_constant(messages, matches),
        "texts": with_constant(messages, matches, texts=True),
        "ids": messages.transform(tamis.spark.match(engine, ids=True)),
        "keys": messages.transform(tamis.spark.match(engine)),
        "behind": messages.transform(tamis.spark.match(engine, ids=True)).filter(TENTH),
        "before": messages.filter(TENTH).transform(tamis.spark.match(engine, ids=True)),
    }
    medians = by_turns(contenders, runs)
    return {
        "rows": rows,
        "runs": runs,
        "messages_per_s": {name: rows / median for name, median in medians.items()},
        "matches": matches,
        "times_constant": {name: taken / medians["constant"] for name, taken in medians.items()},
    }


def measure_engine(spark: SparkSession, queries: list[tuple[str, tamis.Query]], engine: tamis.Engine) -> dict[str, Any]:
    """Measure the engine and brute force on the same messages in this process, and compare their results."""
    table = make_messages(spark, 20_000).toArrow()
    started = time.perf_counter()
    ids = engine.match_batch(table)
    batch_s = time.perf_counter() - started
    messages = table.slice(0, BRUTE_FORCE_EVALUATIONS // len(queries)).to_pylist()
    brute_force = BruteForce()
    for key, query in queries:
        brute_force.add(key, query)
    started = time.perf_counter()
    wanted = [brute_force.match(message["properties"], message["topic"], message["body"]) for message in messages]
    brute_s = time.perf_counter() - started
    if [engine.keys(row) for row in ids.slice(0, len(messages)).to_pylist()] != wanted:
        sys.exit("error: the engine and brute force differ")
    engine_us, brute_us = batch_s / table.num_rows * 1e6, brute_s / len(messages) * 1e6
    return {"engine_us": engine_us, "brute_force_us": brute_us, "times_faster": brute_us / engine_us}


def show(cases: list[dict[str, Any]], results: Results) -> None:
    """Print the results, and add them to the page's figures."""
    labels = (
        ("constant", "returns a constant"),
        ("numbers", "returns as many numbers as matches"),
        ("texts", "returns as many keys"),
        ("ids", "match, ids"),
        ("keys", "match, keys"),
        ("behind", "match, ids, and then a filter that a tenth of the messages pass"),
        ("before", "the filter first, and then match, ids"),
    )
    records, engines = [], []
    for case in cases:
        spark, engine = case["spark"], case["engine"]
        size = {"queries": case["queries"], "kinds": ", ".join(case["kinds"]), "matches": spark["matches"]}
        times = spark["times_constant"]
        for name, label in labels:
            figures = {"messages_per_s": spark["messages_per_s"][name], "times_constant": times[name]}
            records.append({**size, "what": label, **figures})
        engines.append({**size, "us": engine["engine_us"], "brute_force_us": engine["brute_force_us"]})
    sizes = [("queries", "queries", 0), ("kinds", "kinds", 0), ("matches", "matches a message", 0)]
    results.table(
        "spark",
        f"{cases[0]['spark']['rows']:,} messages of 256 bytes, medians of {cases[0]['spark']['runs']}",
        [
            *sizes,
            ("what", "Arrow UDF on Spark", 0),
            ("messages_per_s", "messages/s", 0),
            ("times_constant", "x constant", 2),
        ],
        records,
    )
    results.table(
        "library",
        "the same messages without Spark, one thread",
        [*sizes, ("us", "match_batch, µs per message", 2), ("brute_force_us", "brute force, µs", 0)],
        engines,
    )


def _real(name: str) -> pa.Table | None:
    """Return real messages; None, with a word, if they are not here."""
    shared = Path(os.environ.get("TAMIS_SHARED", Path(__file__).resolve().parent.parent.parent / "shared"))
    table = mail(shared) if name == "mail" else events(shared)
    if table is None:
        print(f"without {name}: {shared} has none (TAMIS_SHARED names the folder)", file=sys.stderr)
    return table


def measure_real(
    spark: SparkSession, name: str, table: pa.Table, counts: Iterable[int], arguments: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Measure numbers of queries on real messages; yield a record for each way."""
    times = -(-arguments.rows // table.num_rows)
    repeated = spark.range(times).crossJoin(spark.createDataFrame(table)).drop("id").repartition(2)
    messages = repeated.persist(StorageLevel.MEMORY_ONLY)
    rows = messages.count()
    for count in counts:
        texts = queries_of(table, count)
        engine = tamis.Engine()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tamis.QueryWarning)  # a time as text is compared as text, which is meant
            engine.add_many((f"q{number}", tamis.selector(text)) for number, text in enumerate(texts))
        started = time.perf_counter()
        found = engine.match_batch(table)
        engine_s = time.perf_counter() - started
        matches = pc.sum(pc.list_value_length(found)).as_py()
        contenders = {
            "returns a constant": with_constant(messages),
            "match, ids": messages.transform(tamis.spark.match(engine, ids=True)),
            "match, keys": messages.transform(tamis.spark.match(engine)),
        }
        if count <= NATIVE_MAX:
            contenders["Spark's own filters"] = with_filters(messages, texts)
        check_real(contenders, matches * times)
        medians = {way: rows / median for way, median in by_turns(contenders, arguments.runs).items()}
        of_all = {**medians, "the engine alone, one thread": table.num_rows / engine_s}
        for way, per_s in of_all.items():
            yield {
                "messages": name,
                "queries": count,
                "matches": matches / table.num_rows,
                "what": way,
                "messages_per_s": per_s,
                "times_constant": medians["returns a constant"] / per_s,
            }
    messages.unpersist()


def with_filters(frame: DataFrame, texts: list[str]) -> DataFrame:
    """Add the keys of the conditions that hold, as Spark itself evaluates them."""
    fields = frame.schema["properties"].dataType.fieldNames()  # type: ignore[attr-defined]
    flat = frame.select("*", *(F.col("properties")[name].alias(name) for name in fields))
    keys = [F.when(F.expr(text), F.lit(f"q{number}")) for number, text in enumerate(texts)]
    return flat.withColumn("matched", F.array_compact(F.array(*keys)))


def check_real(contenders: dict[str, DataFrame], wanted: int) -> None:
    """End the program if a way finds another number of matches."""
    for way, frame in contenders.items():
        if way != "returns a constant":
            (row,) = frame.agg(F.sum(F.size("matched"))).collect()
            if row[0] != wanted:
                sys.exit(f"error: {way} found {row[0]} matches, and the engine {wanted}")


def show_real(records: list[dict[str, Any]], arguments: argparse.Namespace, results: Results) -> None:
    """Print the results on real messages, and add them to the page's figures."""
    results.table(
        "real",
        f"real messages, repeated to {arguments.rows:,} rows, medians of {arguments.runs}",
        [
            ("messages", "messages", 0),
            ("queries", "queries", 0),
            ("matches", "matches a message", 2),
            ("what", "way", 0),
            ("messages_per_s", "messages/s", 0),
            ("times_constant", "x constant", 2),
        ],
        records,
    )


def main() -> None:
    """Measure, print, and write the figures for the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--queries", help=f"numbers of queries; {[*BARS]} and, on real messages, {[*REAL_QUERIES]}")
    parser.add_argument("--messages", default=",".join(MESSAGES), help=f"of {','.join(MESSAGES)}")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kinds", help=f"of {','.join(KINDS)}; both {KEYED} and {ALL} if absent")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    choices = [kinds.split(",") for kinds in ([arguments.kinds] if arguments.kinds else [KEYED, ALL])]
    if unknown := set(choices[0]) - set(KINDS):
        parser.error(f"unknown kinds: {', '.join(sorted(unknown))}; known: {', '.join(KINDS)}")
    wanted = arguments.messages.split(",")
    if unknown := set(wanted) - set(MESSAGES):
        parser.error(f"unknown messages: {', '.join(sorted(unknown))}; known: {', '.join(MESSAGES)}")
    given = [int(count) for count in arguments.queries.split(",")] if arguments.queries else []
    asked = f"--rows {arguments.rows} --messages {arguments.messages}"
    asked += f" --queries {arguments.queries}" if arguments.queries else ""
    results = Results("match_operator", asked + (f" --kinds {arguments.kinds}" if arguments.kinds else ""))
    spark = tamis.spark.session("tamis benchmark", cores=2)
    sizes = [(count, kinds) for count in given or BARS for kinds in choices] if "made" in wanted else []
    try:
        cases = [measure(spark, count, kinds, arguments.rows, arguments.runs) for count, kinds in sizes]
        real = [
            record
            for name in wanted
            if name != "made" and (table := _real(name)) is not None
            for record in measure_real(spark, name, table, given or REAL_QUERIES, arguments)
        ]
    finally:
        tamis.spark.close_session(spark)
    if arguments.json:
        print(json.dumps({"made": cases, "real": real}))
    else:
        if cases:
            show(cases, results)
        if real:
            show_real(real, arguments, results)
        results.write()


def measure(spark: SparkSession, count: int, kinds: list[str], rows: int, runs: int) -> dict[str, Any]:
    """Measure `count` queries of some kinds on Spark and without it."""
    queries = make_queries(count, kinds)
    engine = tamis.Engine()
    engine.add_many(queries)
    return {
        "queries": count,
        "kinds": kinds,
        "spark": measure_spark(spark, engine, rows, runs),
        "engine": measure_engine(spark, queries, engine),
    }


if __name__ == "__main__":
    main()
