"""Measures the commit of a large batch: how long another writer waits, notifications per second, and memory.

Run it as ``python benchmarks/store_commit.py [MESSAGES] [MATCHES]``; it prints one line of JSON."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tamis.query import QuerySpec
from tamis.store import BatchResult, MessageRow, Notification, Store, notification_id

BODY = "x" * 2_000


def results(messages: int, matches: int) -> Iterator[BatchResult]:
    """Make a part for each message, as the pipeline does."""
    yield BatchResult(read_count=messages, matched_count=messages)
    for offset in range(messages):
        message = MessageRow("in", "a.mbox", offset, f"{offset:032x}", "mail", '{"subject": "s"}', BODY, None)
        key = message[:4]
        keys = [f"q{number}" for number in range(matches)]
        yield BatchResult([message], [Notification(notification_id(name, 1, *key), name, 1, *key) for name in keys])


def write_meanwhile(path: Path) -> None:
    """Write small transactions until the parent closes stdin; print the longest wait and their number."""
    longest, count, waited = 0.0, 0, 0.0
    with Store.open(path) as store:
        print("ready", flush=True)
        while not (path.parent / "end").exists():
            began = time.perf_counter()
            store.pin_batch("other", count)
            wait = time.perf_counter() - began
            longest, count, waited = max(longest, wait), count + 1, waited + wait
            time.sleep(0.02)
    print(json.dumps({"longest_wait_s": round(longest, 3), "mean_wait_s": round(waited / count, 4), "writes": count}))


def main() -> None:
    """Commit one batch while another process writes."""
    if sys.argv[1:2] == ["--writer"]:
        write_meanwhile(Path(sys.argv[2]))
        return
    messages, matches = (int(text) for text in (sys.argv[1:] or ["10000", "100"]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tamis.sqlite"
        with Store.open(path) as store:
            store.add_queries([QuerySpec(f"q{number}", f"a = {number}") for number in range(matches)])
            store.pin_batch("s", 0)
            writer = subprocess.Popen([sys.executable, __file__, "--writer", path], stdout=subprocess.PIPE, text=True)
            assert writer.stdout is not None
            writer.stdout.readline()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            began = time.perf_counter()
            counts = store.commit_batch("s", 0, results(messages, matches), ("rows",))
            seconds = time.perf_counter() - began
            (path.parent / "end").touch()
            told = json.loads(writer.communicate()[0])
            assert counts.notifications == messages * matches == store.counts().deliveries_pending
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told |= {"notifications_per_s": round(counts.notifications / seconds), "seconds": round(seconds, 2)}
    print(json.dumps(told | {"memory_before_mb": before // 1024, "peak_memory_mb": peak // 1024}))


if __name__ == "__main__":
    main()
