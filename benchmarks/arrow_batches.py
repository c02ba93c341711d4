"""Measures `match_batch`, which reads Arrow buffers where they are and does not copy their strings.

    python benchmarks/arrow_batches.py [--queries N] [--rows N] [--runs N]

The bodies grow, the properties stay the same, and no query asks for the body. So the additional cost of a row is that
of its body's bytes, which are only checked to be UTF-8. Copies would take as much memory again as the bodies: the
memory shown is the growth of the process during the call. The baseline is the same engine, given each row as a dict
that pyarrow copies (`to_pylist`). Times are wall-clock times, medians of the runs."""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from _results import Results
from _trades import engine_of, message

import tamis

BODY_BYTES = (0, 256, 4_096, 65_536)
MEMORY_BODY_BYTES = 65_536
TEXT_BYTES = 65_537  # a prime number: neighbours do not begin at the same position
WIDTH = 6
THREADS = (1, 2)
SEED = 4
CHECKED = 200

COLUMNS = [
    ("body_bytes", "body bytes", 0),
    ("rows", "rows", 0),
    ("one_thread_us", "1 thread", 2),
    ("two_threads_us", "2 threads", 2),
    ("speed_up", "times", 2),
    ("body_ns_per_byte", "body, ns/byte", 3),
    ("one_by_one_us", "row by row", 2),
    ("body_query_ns_per_byte", "a needle, ns/byte", 3),
]
MEMORY = [
    ("what", "what", 0),
    ("body_mb", "bodies MB", 1),
    ("grew_mb", "grew by MB", 1),
]


def make_table(rows: int, body_bytes: int) -> pa.Table:
    """Return a table of `rows` messages, in which no two neighbours have the same body.

    The bodies are slices of one buffer, because free memory that is left over would hide later allocations."""
    chance = random.Random(SEED)
    text = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz    ", k=TEXT_BYTES)).encode()
    data = pa.py_buffer(text * (rows * body_bytes // TEXT_BYTES + 1))
    offsets = pa.array([row * body_bytes for row in range(rows + 1)], pa.int32()).buffers()[1]
    return pa.table(
        {
            "properties": pa.array([message(chance, WIDTH) for _ in range(rows)]),
            "body": pa.StringArray.from_buffers(rows, offsets, data),
        }
    )


def median_us(work: Callable[[], object], rows: int, runs: int) -> float:
    """Return the microseconds per row: the median of the runs, after one that does not count."""
    times = []
    for run in range(runs + 1):
        started = time.perf_counter()
        work()
        if run:
            times.append((time.perf_counter() - started) * 1e6 / rows)
    return statistics.median(times)


def row_by_row(engine: tamis.Engine, table: pa.Table) -> list[list[Any]]:
    """Match every row as a dict, which copies it."""
    return [engine.match(row["properties"], body=row["body"]) for row in table.to_pylist()]


def peak_growth_mb(work: Callable[[], object]) -> float | None:
    """Return the growth of the process during `work`; None if the system does not tell."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
        before = _status_kb("VmRSS")
        work()
        return (_status_kb("VmHWM") - before) / 1_000
    except OSError:
        return None


def _status_kb(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def measure(engine: tamis.Engine, rows: int, body_bytes: int, runs: int) -> dict[str, Any]:
    """Measure one row of the first table, without the cost per byte of the body."""
    rows = max(CHECKED, min(rows, 2**26 // max(1, body_bytes)))  # at most 64 MiB of bodies
    table = make_table(rows, body_bytes)
    few = table.slice(0, CHECKED)
    if [engine.keys(ids) for ids in engine.match_batch(few).to_pylist()] != row_by_row(engine, few):
        raise SystemExit("error: match_batch and match differ")
    one, two = (median_us(lambda t=t: engine.match_batch(table, threads=t), rows, runs) for t in THREADS)
    needle = tamis.Engine()
    needle.add("needle", tamis.selector("body LIKE '%Needle%'"))
    looking = median_us(lambda: needle.match_batch(table), rows, runs)
    return {
        "body_bytes": str(body_bytes),
        "rows": rows,
        "one_thread_us": one,
        "two_threads_us": two,
        "speed_up": one / two,
        "one_by_one_us": median_us(lambda: row_by_row(engine, table), rows, 1),
        "body_query_ns_per_byte": looking * 1e3 / body_bytes if body_bytes else None,
    }


def measure_memory(engine: tamis.Engine) -> list[dict[str, Any]]:
    """Measure the second table: memory for the batch, and for one copy of the bodies."""
    rows = 2**26 // MEMORY_BODY_BYTES
    table = make_table(rows, MEMORY_BODY_BYTES)
    body_mb = rows * MEMORY_BODY_BYTES / 1e6
    engine.match_batch(table)  # makes all allocations that occur only once
    ways: dict[str, Callable[[], object]] = {
        "match_batch": lambda: engine.match_batch(table),
        "bodies as Python strings": lambda: table["body"].to_pylist(),
    }
    return [{"what": what, "body_mb": body_mb, "grew_mb": peak_growth_mb(work)} for what, work in ways.items()]


def main() -> None:
    """Measure, print, and write the figures for the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    results = Results("arrow_batches", f"--queries {arguments.queries} --rows {arguments.rows} --runs {arguments.runs}")
    engine = engine_of(arguments.queries)
    memory = measure_memory(engine)  # first, before anything has left free memory behind
    records = [measure(engine, arguments.rows, size, arguments.runs) for size in BODY_BYTES]
    without = records[0]["one_thread_us"]
    for record, size in zip(records[1:], BODY_BYTES[1:], strict=True):
        record["body_ns_per_byte"] = (record["one_thread_us"] - without) * 1e3 / size
    title = f"{arguments.queries:,} queries that do not ask for the body; microseconds per row"
    results.table("batches", title, COLUMNS, records)
    title = f"memory while a table with bodies of {MEMORY_BODY_BYTES // 1024} KiB is matched"
    results.table("memory", title, MEMORY, memory)
    results.write()


if __name__ == "__main__":
    main()
