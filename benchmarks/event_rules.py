"""Measures rules on events in JSON beside Quamina and event-ruler, which were built for them.

    python benchmarks/event_rules.py [--events N] [--runs N] [--seed N]

Each rule is written twice: as a selector, and as the pattern in JSON that Quamina and event-ruler read. All find the
same rules for each event before anything is timed. Times are CPU times of the thread that matches, medians of the runs,
without the garbage collection and the compiling that Go and Java do in other threads. A peer that cannot be had here is
left out, with a word on stderr; `_rule_peers.py` says where they come from."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _results import Results
from _rule_peers import NoPeerError, Peer, event_ruler, quamina

import tamis
from tamis.reference import BruteForce

COUNTS = (5, 100, 1_000, 10_000)
ARRAY_COUNTS = (1_000, 10_000)
CHECKED = 20
"""How many events are also given to every rule, one by one."""

SOURCES = [f"shop.{name}" for name in ("orders", "returns", "stock", "payments", "parcels", "support", "mail", "web")]
KINDS = ["created", "changed", "paid", "refused", "shipped", "lost", "closed", "reopened"]
REGIONS = [f"region-{number}" for number in range(20)]
STATES = ["open", "waiting", "running", "stopping", "stopped", "failed", "done", "unknown"]
TEAMS, ACCOUNTS, SIZES, TAGS = 500, 1_000, 200, 2_000

Columns = list[tuple[str, str, int]]
COLUMNS: Columns = [
    ("rules", "rules", 0),
    ("bytes", "bytes an event", 0),
    ("matches", "matches", 2),
    ("core_us", "tamis, in the core", 2),
    ("batch_us", "tamis, match_batch", 2),
    ("json_us", "tamis, match_json", 2),
    ("quamina_us", "Quamina", 2),
    ("ruler_us", "event-ruler", 2),
    ("of_quamina", "core / Quamina", 2),
    ("of_ruler", "core / event-ruler", 2),
]


@dataclass(frozen=True)
class Rule:
    """A rule in both languages."""

    selector: str
    pattern: dict[str, Any]


def event(chance: random.Random) -> dict[str, Any]:
    """Return an event: about 900 bytes, of which rules ask for some members."""
    number = chance.randrange(10**9)
    detail = {
        "parcel": f"{chance.choice('abcdef')}-{number:09}",
        "state": chance.choice(STATES),
        "size": chance.randrange(SIZES),
        "owner": {"team": f"team-{chance.randrange(TEAMS)}", "name": f"Jane Doe {number % 97}", "on call": True},
        "address": {"street": f"{number % 300} Garlic Lane", "city": "Rhubarb", "zip": f"{number % 99999:05}"},
        "weights": [round(chance.random() * 100, 2) for _ in range(8)],
        "notes": "Leave it with the neighbour, who is at home until six. " * 3 + 'She said: "Ring twice."',
        "tags": [f"tag-{chance.randrange(TAGS)}" for _ in range(8)],
        "history": [{"at": f"2026-11-{day:02}T08:00:00Z", "by": f"user-{number % 1000}"} for day in range(1, 4)],
    }
    if chance.random() < 0.1:
        detail["error"] = f"code {number % 40}"
    return {
        "version": "1.0",
        "id": f"{number:032x}",
        "kind": chance.choice(KINDS),
        "source": chance.choice(SOURCES),
        "account": f"{chance.randrange(ACCOUNTS):012}",
        "time": "2026-11-26T07:45:00Z",
        "region": chance.choice(REGIONS),
        "detail": detail,
    }


def rule(number: int, chance: random.Random) -> Rule:
    """Return a rule of one of four kinds."""
    source, region, kind = chance.choice(SOURCES), chance.choice(REGIONS), chance.choice(KINDS)
    team, states = f"team-{chance.randrange(TEAMS)}", sorted(chance.sample(STATES, 2))
    match number % 4:
        case 0:
            return Rule(
                f"source = '{source}' AND region = '{region}' AND detail.owner.team = '{team}'",
                {"source": [source], "region": [region], "detail": {"owner": {"team": [team]}}},
            )
        case 1:
            start = f"{chance.choice('abcdef')}-{chance.randrange(100):02}"
            return Rule(
                f"detail.state IN ('{states[0]}', '{states[1]}') AND detail.parcel LIKE '{start}%'",
                {"detail": {"state": states, "parcel": [{"prefix": start}]}},
            )
        case 2:
            size = chance.randrange(SIZES)
            return Rule(
                f"kind = '{kind}' AND detail.size = {size} AND detail.error IS NOT NULL",
                {"kind": [kind], "detail": {"size": [size], "error": [{"exists": True}]}},
            )
        case _:
            account = f"{chance.randrange(ACCOUNTS):012}"
            other_region, other_state = ([{"anything-but": [value]}] for value in (region, states[0]))
            return Rule(
                f"account = '{account}' AND region <> '{region}' AND detail.state <> '{states[0]}'",
                {"account": [account], "region": other_region, "detail": {"state": other_state}},
            )


def early_rule(number: int, chance: random.Random) -> Rule:
    """Return a rule on members that stand near the start of an event."""
    kind, source, account = chance.choice(KINDS), chance.choice(SOURCES), f"{chance.randrange(ACCOUNTS):012}"
    if number % 2:
        return Rule(f"kind = '{kind}' AND source = '{source}'", {"kind": [kind], "source": [source]})
    return Rule(f"kind = '{kind}' AND account = '{account}'", {"kind": [kind], "account": [account]})


def array_rule(number: int, chance: random.Random) -> Rule:
    """Return a rule on the elements of an array, half of the time with a region."""
    tags, region = sorted(f"tag-{tag}" for tag in chance.sample(range(TAGS), 2)), chance.choice(REGIONS)
    if number % 2:
        return Rule(f"detail.tags IN ('{tags[0]}', '{tags[1]}')", {"detail": {"tags": tags}})
    return Rule(
        f"region = '{region}' AND detail.tags = '{tags[0]}'", {"region": [region], "detail": {"tags": tags[:1]}}
    )


def mean_us(work: Callable[[], object], events: int, runs: int) -> float:
    """Return the CPU microseconds of `work` per event: the median of the runs, after one that does not count."""
    times = []
    for _ in range(runs + 1):
        started = time.thread_time_ns()
        work()
        times.append((time.thread_time_ns() - started) / 1_000 / events)
    return statistics.median(times[1:])


def measure(rules: list[Rule], events: list[dict[str, Any]], peers: list[Peer], runs: int) -> dict[str, Any]:
    """Compare the answers, and return the figures of one number of rules."""
    texts = [json.dumps(one, separators=(",", ":")).encode() for one in events]
    engine, brute_force = tamis.Engine[int](), BruteForce()
    queries = [(number, tamis.selector(one.selector)) for number, one in enumerate(rules)]
    engine.add_many(queries)
    for number, query in queries:
        brute_force.add(number, query)
    found = [engine.match_json(text) for text in texts]
    if found[:CHECKED] != [brute_force.match(one) for one in events[:CHECKED]]:
        raise SystemExit("error: the engine and brute force differ")
    record = {
        "rules": f"{len(rules):,}",
        "bytes": statistics.fmean(map(len, texts)),
        "matches": statistics.fmean(map(len, found)),
        **_of_tamis(engine, texts, found, runs),
    }
    with tempfile.TemporaryDirectory() as scratch:
        rule_file, event_file = Path(scratch) / "rules", Path(scratch) / "events"
        rule_file.write_text("".join(json.dumps(one.pattern) + "\n" for one in rules), encoding="utf-8")
        event_file.write_bytes(b"".join(text + b"\n" for text in texts))
        for peer in peers:
            of_peer, times = peer.run(rule_file, event_file, runs)
            if of_peer != found:
                raise SystemExit(f"error: the engine and {peer.name} differ")
            record[f"{peer.key}_us"] = statistics.median(times)
            record[f"of_{peer.key}"] = record["core_us"] / record[f"{peer.key}_us"]
    return record


def _of_tamis(engine: tamis.Engine[int], texts: list[bytes], found: list[list[int]], runs: int) -> dict[str, float]:
    """Return the figures of tamis: in the core, in a batch, and called for each event."""
    import pyarrow as pa

    table = pa.table({"properties": pa.array([text.decode() for text in texts])})
    lists = [engine.keys(ids) for ids in engine.match_batch(table).to_pylist()]
    if lists != found:
        raise SystemExit("error: match_batch and match_json differ")
    core = engine.time_matches(texts, rounds=runs)
    return {
        "core_us": statistics.fmean(cpu for _, cpu, _ in core) / 1_000,
        "batch_us": mean_us(lambda: engine.match_batch(table), len(texts), runs),
        "json_us": mean_us(lambda: [engine.match_json(text) for text in texts], len(texts), runs),
    }


def available(folder: Path) -> Iterator[Peer]:
    """Yield the peers that can be had here; of others, say why not."""
    for get in (lambda: quamina(folder), event_ruler):
        try:
            yield get()
        except NoPeerError as error:
            print(f"left out: {error}", file=sys.stderr)


def main() -> None:
    """Measure, print, and write the figures for the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=3)
    arguments = parser.parse_args()
    asked = f"--events {arguments.events} --runs {arguments.runs} --seed {arguments.seed}"
    results = Results("event_rules", asked)
    kinds = [
        ("mixed", "Rules on members of a JSON event; CPU microseconds per event", COUNTS, rule),
        ("early", "Rules on the first members of a JSON event; CPU microseconds per event", COUNTS[:-1], early_rule),
        ("arrays", "Rules on the elements of an array; CPU microseconds per event", ARRAY_COUNTS, array_rule),
    ]
    chance = random.Random(arguments.seed)
    events = [event(chance) for _ in range(arguments.events)]
    with tempfile.TemporaryDirectory() as folder:
        peers = list(available(Path(folder)))
        for name, title, counts, make in kinds:
            rules = [make(number, chance) for number in range(max(counts))]
            records = [measure(rules[:count], events, peers, arguments.runs) for count in counts]
            results.table(name, title, COLUMNS, records)
    results.write()


if __name__ == "__main__":
    main()
