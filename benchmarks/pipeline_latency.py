"""Measures the time that a message takes from its arrival to the outbox, at a steady rate.

    python benchmarks/pipeline_latency.py [--rate N] [--seconds N] [--queries N] [--interval-ms N] [--json]

A separate process appends JSON lines to a file, each with the time at which it was written. The pipeline reads the
file, matches the queries, and commits notifications. The latency of a message is from that time until a reader of the
store, which looks every `LOOK_S`, has seen the notification. The bars are a p50 of at most 1 s, a p99 of at most 3 s,
and no growing lag. A batch takes from one commit to the next.

Then `tamis run` starts in a new process on stores with `RESTART_QUERIES`, where a message waits for it: the time until
that is in the outbox, and the memory of the driver, of Java and of Python's workers then."""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import multiprocessing
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from _processes import memory_mib, tree
from _results import Results

import tamis
from tamis.config.pipeline import PipelineConfig
from tamis.spark import Pipeline, Progress, RunSummary
from tamis.store import Store

P50_S_MAX, P99_S_MAX = 1.0, 3.0
LAG_S_A_MINUTE_MAX = 0.25
SEED = 1
TICK_S = 0.01
LOOK_S = 0.01
WARM_UP_MESSAGES = 2_000
DRAIN_S_MAX = 60.0
RESTART_QUERIES = (1_000, 10_000, 500_000)
RESTART_S_MAX = 120.0

PIPELINE = """\
[pipeline]
name = "latency"
interval_ms = {interval_ms}
[queries]
deliveries = ["rows"]
[[adapter]]
name = "lines"
type = "jsonl"
path = "messages.jsonl"
body_field = "text"
poll_interval_ms = {interval_ms}
[[delivery]]
name = "rows"
type = "store"
"""


def line(chance: random.Random, number: int, symbols: int) -> str:
    """Return one message, with the current time in µs."""
    return json.dumps(
        {
            "number": number,
            "created_us": time.time_ns() // 1000,
            "symbol": f"S{chance.randrange(symbols)}",
            "price": round(chance.uniform(0, 100), 2),
            "region": chance.choice(["EU", "US", "ASIA"]),
            "text": "frost is expected in the hills tonight; growers cover the young garlic " * 2,
        }
    )


def write_steadily(path: Path, rate: int, duration_s: float, symbols: int) -> None:
    """Append `rate` messages per second for `duration_s`; it catches up if late, with each message's actual time."""
    chance = random.Random(SEED)
    started, written = time.monotonic(), 0
    with path.open("a", encoding="utf-8", buffering=1 << 20) as file:
        while written < rate * duration_s:
            due = int(min(time.monotonic() - started + TICK_S, duration_s) * rate)
            for number in range(written, due):
                file.write(line(chance, number, symbols) + "\n")
            file.flush()
            written = due
            time.sleep(TICK_S)


class LatencyRun:
    """Controls a run of the pipeline: warms it up, starts the writer, waits for the last message, and stops it."""

    def __init__(self, pipeline: Pipeline, path: Path, rate: int, duration_s: float, symbols: int) -> None:
        self.total = int(rate * duration_s)
        self._pipeline = pipeline
        self._writer = multiprocessing.get_context("spawn").Process(
            target=write_steadily, args=(path, rate, duration_s, symbols), daemon=True
        )
        self._deadline: float | None = None
        self._duration_s = duration_s
        self.complete = False

    def on_progress(self, progress: Progress) -> None:
        """Handle the progress, which the pipeline reports five times per second."""
        if progress.states.get("lines") == "failed":
            self._pipeline.stop("failed")
        elif self._deadline is None:
            if progress.read >= WARM_UP_MESSAGES:
                self._deadline = time.monotonic() + self._duration_s + DRAIN_S_MAX
                self._writer.start()
        else:
            self.complete = progress.read >= WARM_UP_MESSAGES + self.total
            if self.complete or time.monotonic() > self._deadline:
                self._pipeline.stop("done")
        if sys.stderr.isatty():
            print(
                f"\r{progress.read:,} read, {progress.rate:,.0f}/s, lag {progress.lag_s:.2f} s ",
                end="",
                file=sys.stderr,
            )


class Reader(threading.Thread):
    """Looks at the outbox again and again, through a connection of its own, and keeps when it saw how much of it."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path, self._done = path, threading.Event()
        self._seen: list[tuple[int, float]] = []  # the last notification, and when it was first seen, in s since 1970

    def run(self) -> None:
        """Look until `end`, and once more."""
        with closing(sqlite3.connect(self._path)) as connection:
            ending = False
            while not ending:
                ending = self._done.wait(LOOK_S)
                (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM outbox").fetchone()
                if not self._seen or last > self._seen[-1][0]:
                    self._seen.append((last, time.time()))

    def end(self) -> None:
        """Stop looking."""
        self._done.set()
        self.join()

    def batches_s(self) -> list[float]:
        """The times from one commit to the next."""
        return [later[1] - earlier[1] for earlier, later in itertools.pairwise(self._seen)]

    def seen_at(self, seq: int) -> float:
        """When a notification was first seen."""
        return self._seen[bisect.bisect_left(self._seen, (seq, 0.0))][1]


def latencies(store: Store, reader: Reader) -> list[tuple[float, float]]:
    """Return (seconds from the first message to this one, latency in s) of each notification after the warm-up."""
    statement = """SELECT json_extract(m.properties, '$.created_us'), o.seq FROM outbox o
        JOIN messages m USING (source, partition, "offset", digest)
        WHERE json_extract(m.properties, '$.number') >= 0 ORDER BY 1"""
    with store._read() as connection:
        rows = connection.exec_driver_sql(statement).all()
    return [((created_us - rows[0][0]) / 1e6, reader.seen_at(seq) - created_us / 1e6) for created_us, seq in rows]


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure one run in `folder`."""
    chance = random.Random(SEED)
    (folder / "pipeline.toml").write_text(PIPELINE.format(interval_ms=arguments.interval_ms))
    messages = folder / "messages.jsonl"
    with messages.open("w", encoding="utf-8") as file:
        file.writelines(line(chance, -1 - number, arguments.queries) + "\n" for number in range(WARM_UP_MESSAGES))
    config = PipelineConfig.load(folder / "pipeline.toml")
    with Store.open(config.store_path) as store:
        store.add_queries(
            tamis.QuerySpec(f"q{number}", f"symbol = 'S{number}' AND price > {chance.randrange(100)}")
            for number in range(arguments.queries)
        )
        pipeline = Pipeline(config, store)
        run = LatencyRun(pipeline, messages, arguments.rate, arguments.seconds, arguments.queries)
        reader = Reader(config.store_path)
        reader.start()
        try:
            summary = pipeline.run(progress=run.on_progress)
        finally:
            reader.end()
        points = latencies(store, reader)
    figures = result(arguments, run, summary, points)
    figures["batch_p50_s"] = statistics.median(reader.batches_s())
    return figures


def restart(count: int, folder: Path) -> dict[str, Any]:
    """Measure a start of `tamis run` on a store with `count` queries and one message that was not read yet."""
    chance = random.Random(SEED)
    (folder / "pipeline.toml").write_text(PIPELINE.format(interval_ms=200))
    config = PipelineConfig.load(folder / "pipeline.toml")
    with Store.open(config.store_path) as store:
        store.add_queries(
            tamis.QuerySpec(f"q{number}", f"symbol = 'S{number}' AND price >= 0") for number in range(count)
        )
    messages = folder / "messages.jsonl"
    run = [sys.executable, "-m", "tamis", "run", str(folder / "pipeline.toml")]
    messages.write_text(line(chance, 0, count) + "\n")
    subprocess.run([*run, "--once"], check=True, capture_output=True)
    with messages.open("a") as file:
        file.write(line(chance, 1, count) + "\n")
    began = time.monotonic()
    process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with closing(sqlite3.connect(config.store_path)) as connection:
            while connection.execute("SELECT count(*) FROM outbox").fetchone()[0] < 2:
                if process.poll() is not None or time.monotonic() > began + RESTART_S_MAX:
                    sys.exit(f"error: `tamis run` with {count:,} queries has not read the message")
                time.sleep(LOOK_S)
        taken = time.monotonic() - began
        processes = tree([process.pid])
        driver, java = memory_mib({process.pid}, ""), memory_mib(processes, "java")
        workers = memory_mib(processes - {process.pid}, "py")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return {"queries": count, "seconds": taken, "driver_mib": driver, "java_mib": java, "workers_mib": workers}


def result(
    arguments: argparse.Namespace, run: LatencyRun, summary: RunSummary, points: list[tuple[float, float]]
) -> dict[str, Any]:
    """Return the figures, and whether they meet the bars."""
    if len(points) < 100:
        sys.exit(f"error: too few notifications to tell: {len(points)}; {summary.failed or 'raise --seconds'}")
    values = [latency for _, latency in points]
    percentiles = statistics.quantiles(values, n=100, method="inclusive")
    slope, _ = statistics.linear_regression([at for at, _ in points], values)
    figures = {
        "rate": arguments.rate,
        "seconds": arguments.seconds,
        "queries": arguments.queries,
        "read": summary.read - WARM_UP_MESSAGES,
        "expected": run.total,
        "notifications": len(points),
        "batches": summary.batches,
        "p50_s": percentiles[49],
        "p99_s": percentiles[98],
        "max_s": max(values),
        "lag_growth_s_a_minute": slope * 60,
        "match_us_p50": summary.match_us_p50,
        "match_us_p99": summary.match_us_p99,
        "points": by_second(points),
    }
    figures["met"] = bool(
        run.complete
        and figures["p50_s"] <= P50_S_MAX
        and figures["p99_s"] <= P99_S_MAX
        and figures["lag_growth_s_a_minute"] <= LAG_S_A_MINUTE_MAX
    )
    return figures


def by_second(points: list[tuple[float, float]]) -> list[tuple[int, float, float]]:
    """Return (second, median, maximum) of the latencies of the messages written in each second."""
    seconds: dict[int, list[float]] = {}
    for at, latency in points:
        seconds.setdefault(int(at), []).append(latency)
    return [(second, statistics.median(values), max(values)) for second, values in sorted(seconds.items())]


def show(figures: dict[str, Any], results: Results) -> None:
    """Print the figures, and add them to those for the page."""
    results.table(
        "latency",
        f"{figures['rate']:,} messages/s for {figures['seconds']:g} s, {figures['queries']:,} queries; seconds from"
        " arrival until a reader sees it in the outbox",
        [
            ("what", "", 0),
            ("p50_s", "p50", 2),
            ("p99_s", "p99", 2),
            ("max_s", "max", 2),
            ("batch_p50_s", "a batch, p50", 2),
            ("lag", "lag grows, s/min", 2),
        ],
        [
            {
                "what": "arrival to outbox",
                **figures,
                "lag": figures["lag_growth_s_a_minute"],
                "points": None,
            }
        ],
        [
            f"{figures['read']:,} of {figures['expected']:,} messages read in {figures['batches']:,} batches, "
            f"{figures['notifications']:,} notifications. Bars (p50 {P50_S_MAX:g} s, p99 {P99_S_MAX:g} s, lag "
            f"{LAG_S_A_MINUTE_MAX:g} s per minute): {'met' if figures['met'] else 'MISSED'}."
        ],
    )
    seconds = [{"second": at, "median_s": middle, "max_s": most} for at, middle, most in figures["points"]]
    results.unlisted("seconds", seconds)


def main() -> None:
    """Measure, print, and write the figures for the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=1_000, help="messages per second")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--interval-ms", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    asked = f"--rate {arguments.rate} --seconds {arguments.seconds:g} --queries {arguments.queries}"
    results = Results("pipeline_latency", asked)
    with tempfile.TemporaryDirectory(prefix="tamis-latency-") as folder:
        figures = measure(arguments, Path(folder))
    restarts = []
    for count in RESTART_QUERIES:
        with tempfile.TemporaryDirectory(prefix="tamis-restart-") as folder:
            restarts.append(restart(count, Path(folder)))
    if arguments.json:
        print(json.dumps({**figures, "restarts": restarts}))
    else:
        show(figures, results)
        results.table(
            "restarts",
            "from the start of `tamis run` until the message that waits is in the outbox, and the memory then",
            [
                ("queries", "queries", 0),
                ("seconds", "s", 2),
                ("driver_mib", "driver, MiB", 0),
                ("java_mib", "Java, MiB", 0),
                ("workers_mib", "workers, MiB", 0),
            ],
            restarts,
        )
        results.write()


if __name__ == "__main__":
    main()
