"""Measures what one message, one query and one match cost, for docs/sizing.md.

    python benchmarks/unit_costs.py [--queries N]

Reading: the demo's mail, ten times, and 20,000 JSON lines. Matching: trades against `--queries` queries in one thread,
with the engine's own count of its memory, and the time and size of a snapshot. All times are CPU times of one thread,
the median of five runs."""

from __future__ import annotations

import argparse
import gzip
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _trades import engine_of, message

import tamis
from tamis.adapters.options import MailOptions
from tamis.adapters.sources.jsonl import JsonlOptions, JsonlSource
from tamis.adapters.sources.mbox import MboxSource
from tamis.adapters.sources.source import Source, offset_of

MAIL = Path(__file__).resolve().parent.parent / "python/tamis/demo/mail/lists.mbox.gz"
RUNS = 5
MESSAGES = 20_000
WIDTH = 20


def median_us(work: Callable[[], int]) -> float:
    """Return the microseconds of CPU of one item; `work` returns the number of items."""
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        count = work()
        times.append((time.process_time() - started) / count * 1e6)
    return statistics.median(times)


def read_all(source: Source) -> int:
    """Read everything, and return the number of rows."""
    start = offset_of({})
    slices = source.plan(start, source.latest(start, None, settled=True))
    return sum(1 for part in slices for _ in source.read(part))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=500_000)
    queries = parser.parse_args().queries
    with tempfile.TemporaryDirectory() as folder:
        box, lines, snapshot = (Path(folder, name) for name in ("a.mbox", "a.jsonl", "a.tamis"))
        box.write_bytes(gzip.decompress(MAIL.read_bytes()) * 10)
        lines.write_text('{"price": 12.5, "region": "EU", "user": "ann", "n": 12345}\n' * MESSAGES)
        print(f"read one mail: {median_us(lambda: read_all(MboxSource(MailOptions(path=str(box))))):,.0f} us")
        print(f"read one JSON line: {median_us(lambda: read_all(JsonlSource(JsonlOptions(path=str(lines))))):,.0f} us")
        started = time.process_time()
        engine = engine_of(queries)
        built_s = time.process_time() - started
        chance = random.Random(1)
        messages = [message(chance, WIDTH) for _ in range(MESSAGES)]
        matched = sum(len(engine.match(properties)) for properties in messages)
        print(f"match one message with {queries:,} queries: {median_us(lambda: _match(engine, messages)):,.1f} us")
        print(f"matches of a message: {matched / MESSAGES:,.1f}")
        print(f"build one query: {built_s / queries * 1e6:,.1f} us")
        engine.save(snapshot)
        print(f"one query in a snapshot: {snapshot.stat().st_size / queries:,.0f} bytes")
        print(f"one query in memory: {engine.report().bytes / queries:,.0f} bytes")


def _match(engine: tamis.Engine, messages: list[dict[str, Any]]) -> int:
    for properties in messages:
        engine.match(properties)
    return len(messages)


if __name__ == "__main__":
    main()
