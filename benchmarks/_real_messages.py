"""Reads real mail and Windows events for benchmarks, and makes queries of their values that Spark can evaluate, too."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import random
import re
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import zstandard

from tamis.adapters.adapter import Adapter

MAIL = "data/email-spamassassin/spamassassin-dev.mbox.zst"
EVENTS = "data/events-security/windows-misc-tactics.jsonl.zst"
MESSAGES_MAX = 5_000
FIELDS_MAX = 20
SHARE_MAX = 0.002
"""The largest share of the messages that have a value of a query."""
TRUE_MAX = 10_000
"""The most queries that are true of some message."""
_DEMO = Path(__file__).resolve().parent.parent / "python" / "tamis" / "demo" / "mail"
_VALUE = re.compile(r"[A-Za-z0-9@.:/\- ]{3,60}")
_WORD = re.compile(r"[A-Za-z0-9]{4,20}")
_SEED = 1


def mail(shared: Path) -> pa.Table:
    """Return mail: the SpamAssassin corpus if the folder `shared` has it, else that of the demo."""
    names = ("author", "subject", "list", "message_id")
    with tempfile.TemporaryDirectory() as folder:
        _unpack_mail(shared, Path(folder))
        read = list(itertools.islice(Adapter("mail", "mbox", folder).source().sample(MESSAGES_MAX), MESSAGES_MAX))
    rows = [
        ({name: str(row.properties.get(name) or "") or None for name in names}, row.body)
        for row in read
        if isinstance(row.properties, dict)
    ]
    return _table("mail.inbox", rows)


def events(shared: Path) -> pa.Table | None:
    """Return events of Windows with their most frequent fields; None if the folder `shared` has none."""
    if not (shared / EVENTS).exists():
        return None
    with (shared / EVENTS).open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as plain:
        lines = itertools.islice(io.TextIOWrapper(plain, encoding="utf-8"), MESSAGES_MAX)
        found = [json.loads(line) for line in lines]
    frequent = Counter(name for event in found for name, value in event.items() if isinstance(value, str | int))
    names = [name for name, _ in frequent.most_common(FIELDS_MAX) if _WORD.fullmatch(name)]
    rows = [({name: None if event.get(name) is None else str(event[name]) for name in names}, None) for event in found]
    return _table("events.windows", rows)


def _table(topic: str, rows: list[tuple[dict[str, str | None], str | None]]) -> pa.Table:
    bodies = pa.array([body for _, body in rows], pa.string())
    return pa.table(
        {"topic": [topic] * len(rows), "properties": [properties for properties, _ in rows], "body": bodies}
    )


def _unpack_mail(shared: Path, folder: Path) -> None:
    """Write files of mail to a folder."""
    if (shared / MAIL).exists():
        with (shared / MAIL).open("rb") as packed, (folder / "spamassassin.mbox").open("wb") as plain:
            zstandard.ZstdDecompressor().copy_stream(packed, plain)
        return
    for path in _DEMO.glob("*.mbox.gz"):
        (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))


def queries_of(table: pa.Table, count: int) -> list[str]:
    """Return `count` different conditions on the values of messages, as SQL that both engines read.

    A third each: a property equals a value; one contains a word; both. The values are rare ones, each of at most
    `SHARE_MAX` of the messages. The first `TRUE_MAX` conditions are true of some message; the others ask for the same
    values with a number behind them, which no message has: most standing queries wait for what has not come yet.
    """
    values = _MessageValues(table)
    found: dict[str, None] = {}
    for number in itertools.count():
        suffix = "" if number < 2 * TRUE_MAX and len(found) < TRUE_MAX else f" {number}"
        if text := values.condition(number % 3, suffix):
            found[text] = None
        if len(found) == count:
            return list(found)
    raise AssertionError  # count() does not end


class _MessageValues:
    """The values of messages, from which conditions are made."""

    def __init__(self, table: pa.Table) -> None:
        rows = [{name: value for name, value in row.items() if value} for row in table["properties"].to_pylist()]
        self._rows = [row for row in rows if row]
        self._chance = random.Random(_SEED)
        self._most = max(1, int(len(self._rows) * SHARE_MAX))
        self._values = Counter(item for row in self._rows for item in row.items())
        self._words = Counter(
            (name, word) for row in self._rows for name, value in row.items() for word in set(_WORD.findall(value))
        )

    def condition(self, kind: int, suffix: str) -> str | None:
        """Return a condition of a kind (0 equals, 1 contains, 2 both), with this behind its values; None: try again."""
        row = self._chance.choice(self._rows)
        parts = [self._equals(row, suffix) if kind != 1 else None, self._contains(row, suffix) if kind else None]
        return " AND ".join(part for part in parts if part) or None

    def _equals(self, row: dict[str, str], suffix: str) -> str | None:
        rare = [item for item in row.items() if self._values[item] <= self._most and _VALUE.fullmatch(item[1])]
        if not rare:
            return None
        name, value = self._chance.choice(rare)
        return f"{name} = '{value}{suffix}'"

    def _contains(self, row: dict[str, str], suffix: str) -> str | None:
        name = self._chance.choice(list(row))
        rare = [word for word in _WORD.findall(row[name]) if self._words[name, word] <= self._most]
        return f"{name} LIKE '%{self._chance.choice(rare)}{suffix}%'" if rare else None
