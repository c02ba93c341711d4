"""Measures what Python adds to a match: `Engine.match(dict)` beside the core's match, and beside reading the message.

    python benchmarks/match_from_python.py [--queries N] [--messages N] [--runs N]

A message arrives as a line of JSON, becomes a dict and is matched. The core is timed on the same messages, which are
converted before. A second table has few queries, beside closures in Python and masks of pyarrow that say the same; a
third has the forms of an answer. Times are CPU times of the one thread, medians of the runs."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from _results import Results
from _trades import engine_of, message

import tamis
from tamis.reference import BruteForce

Closure = Callable[[dict[str, Any]], bool]

WIDTHS = (6, 24, 100)
SEED = 3
BRUTE_FORCE_MESSAGES = 5
ROWS, MATCHES = 100_000, 2_000
FORMS: tuple[Literal["keys", "ids", "bitmap", "count"], ...] = ("keys", "ids", "bitmap", "count")

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

FEW_COLUMNS = [
    ("queries", "queries", 0),
    ("match_us", "match(dict)", 3),
    ("closures_us", "closures", 3),
    ("of_closures", "match / closures", 2),
    ("row_us", "match_batch, a row", 3),
    ("masks_us", "masks of pyarrow, a row", 3),
    ("of_masks", "match_batch / masks", 2),
]
FORM_COLUMNS = [("form", "as_", 0), ("us", "µs", 2), ("each_ns", "more than a count, ns each", 1)]


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


def few_queries(results: Results, runs: int) -> None:
    """Measure one and ten queries on a dict and over columns, beside the same in Python and in pyarrow."""
    chance = random.Random(SEED)
    messages = [message(chance, 6) for _ in range(ROWS)]
    table = pa.Table.from_pylist(messages)
    some = messages[: ROWS // 5]
    records = []
    for count in (1, 10):
        limits = {f"S{number}": number * 100 // count for number in range(count)}
        engine = tamis.Engine[str]()
        engine.add_many((key, tamis.selector(f"symbol = '{key}' AND price > {limit}")) for key, limit in limits.items())
        closures = {key: _closure(key, limit) for key, limit in limits.items()}

        def by_closures(one: dict[str, Any], closures: dict[str, Closure] = closures) -> list[str]:
            return [key for key, is_true in closures.items() if is_true(one)]

        def by_masks(rows: pa.Table, limits: dict[str, int] = limits) -> list[Any]:
            symbol, price = rows["symbol"], rows["price"]
            masks = (pc.and_(pc.equal(symbol, key), pc.greater(price, limit)) for key, limit in limits.items())
            return [pc.indices_nonzero(mask) for mask in masks]

        found = engine.match_batch(table).to_pylist()
        by_row = [engine.ids(by_closures(one)) for one in messages]
        pairs = sum(len(indices) for indices in by_masks(table))
        if (
            found != by_row
            or pairs != sum(map(len, found))
            or [engine.ids(engine.match(one)) for one in messages] != found
        ):
            raise SystemExit("error: the engine and closures or masks differ")
        match_us, closures_us = mean_us(engine.match, some, runs), mean_us(by_closures, some, runs)
        row_us, masks_us = (mean_us(work, [table], runs) / ROWS for work in (engine.match_batch, by_masks))
        records.append(
            {
                "queries": str(count),
                "match_us": match_us,
                "closures_us": closures_us,
                "of_closures": match_us / closures_us,
                "row_us": row_us,
                "masks_us": masks_us,
                "of_masks": row_us / masks_us,
            }
        )
    title = "Few queries on a symbol and a limit, messages of 6 properties; CPU microseconds"
    results.table("few", title, FEW_COLUMNS, records)


def _closure(key: str, limit: int) -> Closure:
    """Return what a selector on a symbol and a limit says, as a function."""
    return lambda one: one.get("symbol") == key and (price := one.get("price")) is not None and price > limit


def forms(results: Results, runs: int) -> None:
    """Measure the forms of an answer with many matches."""
    engine = tamis.Engine[str]()
    engine.add_many((f"q{number}", tamis.selector("price > 1")) for number in range(MATCHES))
    given = [{"price": 5}] * 200
    times = {form: mean_us(lambda one, form=form: engine.match(one, as_=form), given, runs) for form in FORMS}
    records = [
        {"form": form, "us": us, "each_ns": None if form == "count" else (us - times["count"]) * 1_000 / MATCHES}
        for form, us in times.items()
    ]
    results.table("forms", f"One message and {MATCHES:,} matches; CPU microseconds", FORM_COLUMNS, records)


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
    few_queries(results, arguments.runs)
    forms(results, arguments.runs)
    results.write()


if __name__ == "__main__":
    main()
