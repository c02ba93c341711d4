"""Compares queries in one snapshot with the same queries in shards, on Spark on this machine.

    python benchmarks/shards.py [--queries N] [--shards N,N] [--messages N] [--runs N] [--json]

Of 20 queries, 19 need a symbol, of which there is one for every 50 queries, and one is a range of prices without an
access key. Each way of storing them is written and matched by processes of its own: the first row of the tables is the
baseline. Messages are made inside the JVM. All ways must find the same keys. The memory of a worker is its maximum,
pages of mapped files included."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from _results import Results

import tamis
from tamis.engine.shard_directory import DIRECTORY, ShardDirectory
from tamis.engine.shards import write_shards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERIES_OF_A_SYMBOL = 50
REGIONS, PRICES, VOLUMES = 40, 10_000, 1_000_000
CORES = 2
BUILD = [
    ("shards", "shards", 0),
    ("build_s", "written in, s", 0),
    ("build_mb", "memory of the writer, MB", 0),
    ("mb", "files, MB", 0),
    ("largest_mb", "largest shard, MB", 0),
    ("directory_mb", "directory, MB", 2),
]
MATCH = [
    ("shards", "shards", 0),
    ("met", "shards met by a message", 2),
    ("messages_per_s", "messages/s", 0),
    ("first_s", "first run, s", 1),
    ("worker_mb", "memory of a worker, MB", 0),
    ("matches", "matches per message", 1),
]


def queries(count: int) -> Iterator[tuple[str, str]]:
    """Yield keys and texts of queries."""
    chance, symbols = random.Random(1), symbols_of(count)
    for number in range(count):
        symbol, region = f"S{chance.randrange(symbols)}", f"R{chance.randrange(REGIONS)}"
        price, volume = chance.randrange(PRICES) / 100, chance.randrange(VOLUMES)
        if number % 20 == 0:
            yield f"q{number}", f"price BETWEEN {price} AND {price + 0.01} AND volume > {volume}"
        elif number % 3 == 0:
            yield f"q{number}", f"symbol = '{symbol}' AND price > {price}"
        elif number % 3 == 1:
            yield f"q{number}", f"symbol = '{symbol}' AND region IN ('{region}', 'R1', 'R2') AND urgent"
        else:
            yield f"q{number}", f"symbol = '{symbol}' AND region = '{region}'"


def symbols_of(count: int) -> int:
    """Return the number of symbols of `count` queries."""
    return max(1, count // QUERIES_OF_A_SYMBOL)


def messages(spark: SparkSession, count: int, symbols: int) -> DataFrame:
    """Return messages that Spark computes from their numbers."""
    from pyspark.sql import functions as F  # noqa: N812

    def chosen(salt: int, bound: int) -> Any:
        return F.pmod(F.hash(F.col("id") + salt), F.lit(bound))

    return spark.range(count, numPartitions=CORES).select(
        "id",
        F.concat(F.lit("S"), chosen(0, symbols)).alias("symbol"),
        F.concat(F.lit("R"), chosen(1, REGIONS)).alias("region"),
        (chosen(2, PRICES) / 100).alias("price"),
        (F.col("id") % 10 == 0).alias("urgent"),
        chosen(3, VOLUMES).alias("volume"),
        F.rpad(F.lit("text that no query asks for "), 100, "lorem ipsum").alias("note"),
    )


def build(count: int, shards: int, folder: Path) -> dict[str, Any]:
    """Write queries as shards, or without shards as a snapshot; return the time, the memory and the sizes."""
    started = time.perf_counter()
    if shards:
        write_shards(queries(count), folder, shards)
    else:
        folder.mkdir()
        engine: tamis.Engine[str] = tamis.Engine()
        engine.add_many((key, tamis.selector(text)) for key, text in queries(count))
        engine.save(folder / "all.tamis")
    sizes = {path.name: path.stat().st_size / 1e6 for path in folder.iterdir()}
    directory_mb = sizes.pop(DIRECTORY, None)
    return {
        "shards": shards or "one snapshot",
        "build_s": time.perf_counter() - started,
        "build_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "mb": sum(sizes.values()) + (directory_mb or 0),
        "largest_mb": max(sizes.values()),
        "directory_mb": directory_mb,
    }


def measure(count: int, shards: int, folder: Path, rows: int, runs: int) -> dict[str, Any]:
    """Match messages; return the median speed, the memory of a worker, and a hash of the answers."""
    from pyspark.sql import functions as F  # noqa: N812

    import tamis.spark

    spark = tamis.spark.session("tamis benchmark", cores=CORES)
    try:
        frame = messages(spark, rows, symbols_of(count))
        hits = frame.transform(tamis.spark.match(folder if shards else folder / "all.tamis"))
        answers = hits.agg(F.sum(F.size("matched")), F.sum(F.xxhash64("id", "matched") % 1_000_003))
        times, found = [], None
        for _ in range(runs + 1):
            started = time.perf_counter()
            found = answers.first()
            times.append(time.perf_counter() - started)
        sample = frame.drop("note", "id").limit(20_000).toArrow()
        return {
            "shards": shards or "one snapshot",
            "met": mean_met(folder, sample) if shards else None,
            "messages_per_s": rows / statistics.median(times[1:]),
            "first_s": times[0],
            "worker_mb": max(worker_peaks_mb()),
            "matches": found[0] / rows if found else 0,
            "answers": list(found or ()),
        }
    finally:
        tamis.spark.close_session(spark)


def mean_met(folder: Path, sample: pa.Table) -> float:
    """Return the mean number of shards that a message meets."""
    shards = ShardDirectory(folder / DIRECTORY).route(sample).field("shards")
    return len(shards.values) / len(shards)


def worker_peaks_mb() -> list[float]:
    """Return the most memory that was resident in each of this session's Python workers."""
    parents = {pid: int(_status(pid).get("PPid", 0)) for pid in _processes()}
    mine = {multiprocessing.current_process().pid}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    statuses = [
        _status(pid) for pid in mine if b"pyspark.daemon" in _command(pid) or b"pyspark/daemon" in _command(pid)
    ]
    return [int(it["VmHWM"].split()[0]) / 1e3 for it in statuses if "VmHWM" in it]


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def alone(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Return what a function returns in a process of its own, so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def main() -> None:
    """Measure, print, and write the figures for the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--shards", default="8,32", help="numbers of shards")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    ways = [0, *map(int, given.shards.split(","))]
    results = Results(
        "shards", f"--queries {given.queries} --shards {given.shards} --messages {given.messages} --runs {given.runs}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch, f"shards-{shards}") for shards in ways]
        written = [alone(build, given.queries, *it) for it in zip(ways, folders, strict=True)]
        matched = [
            alone(measure, given.queries, *it, given.messages, given.runs) for it in zip(ways, folders, strict=True)
        ]
    if any(it["answers"] != matched[0]["answers"] for it in matched):
        raise SystemExit("error: the shards and the one snapshot differ")
    if given.json:
        print(json.dumps({"written": written, "matched": matched}))
        return
    results.table("written", f"{given.queries:,} queries", BUILD, written)
    title = f"{given.messages:,} messages, medians of {given.runs} after a first run, {CORES} cores"
    results.table("matched", title, MATCH, matched)
    results.write()


if __name__ == "__main__":
    main()
