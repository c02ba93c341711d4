"""Measures Sigma's rules for Windows as standing queries, over events that were recorded during simulated attacks.

    python benchmarks/sigma.py [--events N] [--shared FOLDER] [--reasons]

It reads ``data/rules-sigma`` and ``data/events-security`` of the folder ``shared`` beside the project (or
TAMIS_SHARED), and is skipped if they are absent. For a sample of the events, the matches are compared with those of
evaluating every rule, and rules are checked on recordings that are labelled with them. Times are CPU microseconds of
the one thread; folding an event to lower case, which happens once, is timed separately."""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard
from _results import Results
from _sigma import UnsupportedRuleError, fold, raw_fields, selector_of

import tamis
from tamis.reference import BruteForce

PROJECT = Path(__file__).resolve().parent.parent
RULES = "data/rules-sigma/sigma-windows.jsonl.zst"
LABELLED = "data/rules-sigma/sigma-regression-events.jsonl.zst"
EVENTS = "data/events-security/windows-misc-tactics.jsonl.zst"
CHECKED = 40
ROUNDS = 3

RULE_COLUMNS = [("what", "rules", 0), ("count", "count", 0)]
COLUMNS = [
    ("way", "way", 0),
    ("events", "events", 0),
    ("matches", "matches", 3),
    ("mean_us", "mean", 2),
    ("p50_us", "p50", 2),
    ("p99_us", "p99", 2),
]


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a compressed file with one object per line."""
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as plain:
        yield from map(json.loads, io.TextIOWrapper(plain, encoding="utf-8"))


def translate(rules: list[dict[str, Any]]) -> tuple[dict[str, tamis.Query], list[str], Counter[str]]:
    """Return the queries by the ids of their rules, their texts, and the number of skipped rules for each reason."""
    queries, texts, reasons = {}, [], Counter[str]()
    for rule in rules:
        try:
            text = selector_of(rule)
            queries[rule["id"]] = tamis.selector(text)
            texts.append(text)
        except UnsupportedRuleError as unsupported:
            reasons[str(unsupported)] += 1
        except tamis.QueryError as error:
            reasons[f"selector: {str(error).splitlines()[0]}"] += 1
    return queries, texts, reasons


def recordings(path: Path, raw: set[str]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield (id of a rule, events of a recording), of which at least one event is known to satisfy the rule."""
    for record in read(path):
        events = [fold(_flat(nested["Event"]), raw) for nested in record["events"]]
        for rule_id in record["rule_ids"]:
            yield rule_id, events


def _flat(event: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an event in one mapping: those of the system and those of the program."""
    system, data, others = event["System"], event.get("EventData") or {}, event.get("UserData") or {}
    others = {name: value for part in others.values() if isinstance(part, dict) for name, value in part.items()}
    return {**system, **others, **data, "Provider_Name": system["Provider"]["#attributes"]["Name"]}


def timed_us(times_ns: list[int]) -> dict[str, float]:
    """Return the mean, the median and the 99th percentile in microseconds."""
    ordered = sorted(times_ns)
    return {
        "mean_us": statistics.fmean(ordered) / 1e3,
        "p50_us": ordered[len(ordered) // 2] / 1e3,
        "p99_us": ordered[len(ordered) * 99 // 100] / 1e3,
    }


def each_ns(work: Any, given: list[Any]) -> list[int]:
    """Return the thread's CPU time of `work` for each item."""
    times = []
    for one in given:
        started = time.thread_time_ns()
        work(one)
        times.append(time.thread_time_ns() - started)
    return times


def measure(queries: dict[str, tamis.Query], events: list[dict[str, Any]], raw: set[str]) -> tuple[list, list[str]]:
    """Return the records of the second table, and the notes below it."""
    started = time.process_time()
    engine = tamis.Engine()
    engine.add_many(queries.items())
    engine.match({})
    built_s = time.process_time() - started
    folding = each_ns(lambda event: fold(event, raw), events)
    folded = [fold(event, raw) for event in events]
    brute_force = BruteForce()
    for key, query in queries.items():
        brute_force.add(key, query)
    sample = folded[:: max(1, len(folded) // CHECKED)]
    if [engine.match(event) for event in sample] != [brute_force.match(event) for event in sample]:
        sys.exit("error: the engine and brute force differ")
    core = engine.time_matches([(event, "", None) for event in folded], rounds=ROUNDS)
    matches = statistics.fmean(matched for _, _, matched in core)
    matched_events = sum(matched > 0 for _, _, matched in core)
    ways = [
        ("in the core", [cpu for _, cpu, _ in core]),
        ("match(dict)", each_ns(engine.match, folded)),
        ("every rule, one by one", each_ns(brute_force.match, sample)),
        ("folding to lower case", folding),
    ]
    records = [{"way": way, "events": len(times), "matches": matches, **timed_us(times)} for way, times in ways]
    for record in records[2:]:
        record["matches"] = None
    return records, [
        f"{matched_events:,} of {len(events):,} events satisfy a rule; {len(sample)} of them compared with evaluating "
        f"every rule; the engine was built in {built_s:.2f} s."
    ]


def main() -> None:
    """Measure, print, and write the figures for the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000)
    default = Path(os.environ.get("TAMIS_SHARED", PROJECT.parent / "shared"))
    parser.add_argument("--shared", type=Path, default=default)
    parser.add_argument("--reasons", action="store_true", help="say why rules were left out")
    arguments = parser.parse_args()
    missing = [name for name in (RULES, LABELLED, EVENTS) if not (arguments.shared / name).exists()]
    if missing:
        print(f"skipped: {arguments.shared} has no {missing[0]} (--shared or TAMIS_SHARED names the folder)")
        return
    results = Results("sigma", f"--events {arguments.events}")
    rules = list(read(arguments.shared / RULES))
    queries, texts, reasons = translate(rules)
    raw = raw_fields(texts)
    known = [(queries[key], events) for key, events in recordings(arguments.shared / LABELLED, raw) if key in queries]
    agreed = sum(any(query.evaluate(event) is True for event in events) for query, events in known)
    counts = [
        ("read", len(rules)),
        ("as selectors", len(queries)),
        *reasons.most_common(None if arguments.reasons else 6),
    ]
    records = [
        {"what": what if number < 2 else f"left out: {what}", "count": count}
        for number, (what, count) in enumerate(counts)
    ]
    note = f"Of {len(known)} recordings labelled with one of these rules, {agreed} have an event that satisfies it."
    results.table("rules", "Sigma's rules for Windows", RULE_COLUMNS, records, [note])
    events = list(itertools.islice(read(arguments.shared / EVENTS), arguments.events))
    lines, notes = measure(queries, events, raw)
    fields = statistics.fmean(map(len, events))
    title = f"{len(queries):,} rules, {len(events):,} events of {fields:.0f} fields; CPU microseconds per event"
    results.table("events", title, COLUMNS, lines, notes)
    results.write()


if __name__ == "__main__":
    main()
