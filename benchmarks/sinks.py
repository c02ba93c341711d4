"""Measures notifications per second into a SQLite file, a PostgreSQL database, and Delta tables.

    python benchmarks/sinks.py [--messages N] [--rounds N] [--homes A,B]

Each round is one batch, with 1 and with 100 matches a message, by one and by two worker processes. The baseline of the
same run matches the same messages and writes nothing. The driver's share is the CPU time of its Python process, of that
of all processes: the driver, Java, Python's workers, and the server. Its memory is that of its Python process after
the last round, beside that after the first, and that of Java, which runs the executors, too. Nothing is delivered.
PostgreSQL and SQLite sync their commits to disk; the server runs on this machine and takes its share of the cores."""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from _processes import cpu_s, memory_mib, own_cpu_s, own_memory_mib, tree
from _results import Results

from tamis.query import QuerySpec
from tamis.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUPS = 100
PARTITIONS = 4
MATCHES = (1, 100)
WORKERS = (1, 2)
HOMES = ("nothing", "sqlite", "postgres", "delta")
BODY = "frost is expected in the hills tonight; growers cover the young garlic " * 7
COLUMNS = [
    ("home", "home", 0),
    ("matches", "matches a message", 0),
    ("workers", "workers", 0),
    ("messages", "messages", 0),
    ("seconds", "s", 2),
    ("notifications_per_s", "notifications/s", 0),
    ("driver_percent", "driver, % of CPU", 1),
    ("driver_mib", "driver, MiB", 0),
    ("growth_mib", "it grew by", 0),
    ("java_mib", "Java, MiB", 0),
]


class Round(NamedTuple):
    """What a round has taken: seconds, CPU time, and memory after it."""

    seconds: float
    driver_s: float
    all_s: float
    growth_mib: float
    java_mib: float


def frame(spark: SparkSession, batch: int, messages: int) -> DataFrame:
    """Messages as adapters give them, of which each number of group is equally frequent."""
    from pyspark.sql import functions as F  # noqa: N812

    first, nothing = batch * messages, F.lit(None).cast("string")
    return spark.range(first, first + messages, 1, PARTITIONS).select(
        F.lit("in.jsonl").alias("partition"),
        F.col("id").alias("offset"),
        F.md5(F.col("id").cast("string")).alias("digest"),
        F.lit("events").alias("topic"),
        F.format_string('{"group": %d}', F.col("id") % GROUPS).alias("properties"),
        F.lit(BODY).alias("body"),
        nothing.alias("xml"),
        nothing.alias("error"),
        nothing.cast("binary").alias("raw"),
        nothing.alias("identity"),
    )


def rounds(
    spark: SparkSession, folder: Path, home: str, url: str, server: int, matches: int, messages: int, count: int
) -> Iterator[Round]:
    """What each round takes, after a first one that is not told."""
    from tamis.spark.batch import process_batch
    from tamis.spark.matching.shipping import ship
    from tamis.spark.sinks.home import sink_of
    from tamis.spark.sinks.sink import Batch, Matching
    from tamis.spark.snapshots import Snapshots

    with Store.open(url if home == "postgres" else folder / "tamis.sqlite") as store:
        store.add_queries(
            [QuerySpec(f"q{group}-{i}", f"group = {group}") for group in range(GROUPS) for i in range(matches)]
        )
        snapshots = Snapshots(store, folder, functools.partial(ship, spark))
        sink = sink_of(store, folder / "tables" if home == "delta" else None)

        def write(number: int) -> None:
            rows = frame(spark, number, messages)
            if home == "nothing":
                with snapshots.at(store.pin_batch("s", number)) as snapshot:
                    Matching(rows, snapshot, None).rows.write.format("noop").mode("overwrite").save()
                return
            report = process_batch(store, snapshots, sink, Batch("s", number, "in", ()), rows)
            assert report is not None
            assert report.notifications == messages * matches

        yield from _timed(write, [os.getpid(), *([server] if server else [])], count)


def _timed(write: Callable[[int], None], roots: list[int], count: int) -> Iterator[Round]:
    write(0)
    before_mib = own_memory_mib()
    for number in range(1, count + 1):
        began, own, every = time.perf_counter(), own_cpu_s(), cpu_s(roots)
        write(number)
        taken = time.perf_counter() - began
        growth_mib = own_memory_mib() - before_mib
        yield Round(taken, own_cpu_s() - own, cpu_s(roots) - every, growth_mib, memory_mib(tree(roots), "java"))


def measure(
    workers: int, homes: list[str], urls: list[str], server: int, messages: int, count: int
) -> Iterator[dict[str, Any]]:
    """Measure some homes with a number of workers."""
    from tamis.spark.sessions import close_session, session

    with tempfile.TemporaryDirectory() as scratch:
        spark = session("sinks", master=f"local[{workers}]", folder=Path(scratch))
        for matches in MATCHES:
            of_round = messages if matches == 1 else messages // 10
            for home in homes:
                if home == "postgres" and not urls:
                    continue
                folder = Path(scratch) / f"{home}-{matches}"
                folder.mkdir()
                url = urls.pop() if home == "postgres" else ""
                told = list(rounds(spark, folder, home, url, server, matches, of_round, count))
                seconds = statistics.median(row.seconds for row in told)
                yield {
                    "home": home,
                    "matches": matches,
                    "workers": workers,
                    "messages": of_round,
                    "seconds": seconds,
                    "notifications_per_s": of_round * matches / seconds,
                    "driver_percent": 100 * sum(row.driver_s for row in told) / sum(row.all_s for row in told),
                    "driver_mib": own_memory_mib(),
                    "growth_mib": told[-1].growth_mib,
                    "java_mib": told[-1].java_mib,
                }
        close_session(spark)


def main() -> None:
    """Measure in one process for each number of workers, and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000, help="of a round with one match; a tenth with 100")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--homes", default=",".join(HOMES))
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--server", nargs="*", default=[], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.workers:
        pid, *urls = arguments.server or ["0"]
        homes = arguments.homes.split(",")
        for row in measure(arguments.workers, homes, urls, int(pid), arguments.messages, arguments.rounds):
            print(json.dumps(row), flush=True)
        return
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.postgres_server import PASSWORD, Server, why_not

    results = Results("sinks", f"--messages {arguments.messages} --rounds {arguments.rounds} --homes {arguments.homes}")
    records: list[dict[str, Any]] = []
    server = None if why_not() else Server(fsync=True)
    try:
        for workers in WORKERS:
            urls = [server.new_database() for _ in MATCHES] if server else []
            of_server = ["--server", str(server.pid), *urls] if server else []
            command = [sys.executable, __file__, *sys.argv[1:], "--workers", str(workers), *of_server]
            environment = os.environ | {"PGPASSWORD": PASSWORD}
            told = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout
            records += map(json.loads, told.splitlines())
    finally:
        if server:
            server.close()
        else:
            print(f"without PostgreSQL: {why_not()}", file=sys.stderr)
    records.sort(key=lambda row: (row["matches"], row["workers"]))
    results.table("sinks", "Notifications per second by home, medians of a round", COLUMNS, records)
    results.write()


if __name__ == "__main__":
    main()
