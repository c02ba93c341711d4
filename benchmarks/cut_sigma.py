"""Cuts a slice of Sigma's rules and of recorded Windows events for the notebook, from the data beside the project.

It was run once, and its output is committed. It keeps the recordings of at most 1,600 bytes, the rules that they are
labelled with, and every 200th of 20,000 other events, all unchanged.

    python benchmarks/cut_sigma.py [SHARED_FOLDER]
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import sys
from pathlib import Path

import zstandard

PROJECT = Path(__file__).resolve().parent.parent
TARGET = PROJECT / "examples" / "notebooks" / "sigma"
RECORDING_BYTES_MAX = 1_600
EVENTS = 20_000
EACH = 200


def lines(path: Path) -> io.TextIOWrapper:
    """Open a compressed file of JSON lines."""
    return io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(path.open("rb")), encoding="utf-8")


def write(name: str, kept: list[str]) -> None:
    """Write lines, compressed, without the time."""
    with (TARGET / name).open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write("".join(kept).encode())


def main() -> None:
    """Cut the three files."""
    data = Path(sys.argv[1] if len(sys.argv) > 1 else PROJECT.parent / "shared") / "data"
    labelled = lines(data / "rules-sigma" / "sigma-regression-events.jsonl.zst")
    recordings = [line for line in labelled if len(line) <= RECORDING_BYTES_MAX]
    wanted = {one for line in recordings for one in json.loads(line)["rule_ids"]}
    rules = [
        line for line in lines(data / "rules-sigma" / "sigma-windows.jsonl.zst") if json.loads(line)["id"] in wanted
    ]
    events = lines(data / "events-security" / "windows-misc-tactics.jsonl.zst")
    write("rules.jsonl.gz", rules)
    write("recordings.jsonl.gz", recordings)
    write("events.jsonl.gz", list(itertools.islice(events, 0, EVENTS, EACH)))


if __name__ == "__main__":
    main()
