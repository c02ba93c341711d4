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
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import zstandard

from tamis.adapters.adapter import Adapter

MAIL = "data/email-spamassassin/spamassassin-dev.mbox.zst"
EVENTS = "data/events-security/windows-misc-tactics.jsonl.zst"
MESSAGES_MAX = 5_000
FIELDS_MAX = 20
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
    """Return `count` different conditions on the values of messages, true of some, as SQL that both engines read.

    A third each: a property equals a value; one contains a word; both.
    """
    chance = random.Random(_SEED)
    rows = [{name: value for name, value in row.items() if value} for row in table["properties"].to_pylist()]
    rows = [row for row in rows if row]
    kinds: list[Callable[[dict[str, str]], str | None]] = [
        lambda row: _equals(chance, row),
        lambda row: _contains(chance, row),
        lambda row: " AND ".join(sorted({part for part in (_equals(chance, row), _contains(chance, row)) if part})),
    ]
    found: dict[str, None] = {}
    for number in itertools.count():
        row = chance.choice(rows)
        text = kinds[number % 3](row)
        if text and text in found and len(found) < count:  # all values are used: ask for another that is never there
            text = f"{text} AND {next(iter(row))} <> 'value {number}'"
        if text:
            found[text] = None
        if len(found) == count:
            return list(found)
    raise AssertionError  # count() does not end


def _equals(chance: random.Random, row: dict[str, str]) -> str | None:
    name = chance.choice(list(row))
    return f"{name} = '{row[name]}'" if _VALUE.fullmatch(row[name]) else None


def _contains(chance: random.Random, row: dict[str, str]) -> str | None:
    name = chance.choice(list(row))
    words = _WORD.findall(row[name])
    return f"{name} LIKE '%{chance.choice(words)}%'" if words else None
