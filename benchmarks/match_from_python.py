"""Measures what Python adds to a match: `Engine.match(dict)` beside the core's match, and beside reading the message.

    python benchmarks/match_from_python.py [--queries N] [--messages N] [--runs N]

A message arrives as a line of JSON, becomes a dict and is matched. The core is timed on the same messages, which are
converted before. Times are CPU times of the one thread, medians of the runs."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from _results import Results
from _trades import engine_of, message

from tamis.reference import BruteForce

WIDTHS = (6, 24, 100)
SEED = 3
BRUTE_FORCE_MESSAGES = 5

COLUMNS = [
    ("properties", "properties", 0),
    ("json_bytes", "JSON bytes", 0),
    ("matches", "matches", 2),
    ("core_us", "in the core", 2),
    ("match_us", "match(dict)", 2),
    ("added_us", "Python adds", 2),
    ("json_us", "json.loads", 2),
    ("added_of_json", "adds / json.loads", 2),
    ("brute_us", "brute force", 0),
]


def mean_us(work: Callable[[Any], object], given: list[Any], runs: int) -> float:
    """Return the mean CPU microseconds of `work` per item: the median of the runs, after one that does not count."""
    times = []
    for run in range(runs + 1):
        started = time.thread_time_ns()
        for one in given:
            work(one)
        if run:
            times.append((time.thread_time_ns() - started) / 1_000 / len(given))
    return statistics.median(times)


def main() -> None:
    """Measure, print, and write the figures for the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    results = Results(
        "match_from_python",
        f"--queries {arguments.queries} --messages {arguments.messages} --runs {arguments.runs}",
    )
    engine = engine_of(arguments.queries)
    brute_force = BruteForce()
    for key in engine.all_keys():
        brute_force.add(key, engine.query(key))
    records = []
    for width in WIDTHS:
        chance = random.Random(SEED)
        messages = [message(chance, width) for _ in range(arguments.messages)]
        texts = [json.dumps(one) for one in messages]
        few = messages[:BRUTE_FORCE_MESSAGES]
        if [engine.match(one) for one in few] != [brute_force.match(one) for one in few]:
            raise SystemExit("error: the engine and brute force differ")
        core = engine.time_matches([(one, "", None) for one in messages], rounds=arguments.runs)
        core_us = statistics.fmean(cpu for _, cpu, _ in core) / 1_000
        match_us, json_us = mean_us(engine.match, messages, arguments.runs), mean_us(json.loads, texts, arguments.runs)
        records.append(
            {
                "properties": str(width),
                "json_bytes": statistics.fmean(map(len, texts)),
                "matches": statistics.fmean(matched for _, _, matched in core),
                "core_us": core_us,
                "match_us": match_us,
                "added_us": match_us - core_us,
                "json_us": json_us,
                "added_of_json": (match_us - core_us) / json_us,
                "brute_us": mean_us(brute_force.match, few, 1),
            }
        )
    title = f"{arguments.queries:,} queries, {arguments.messages:,} messages; CPU microseconds per message"
    results.table("single", title, COLUMNS, records)
    results.write()


if __name__ == "__main__":
    main()
