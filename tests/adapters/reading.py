"""Reads sources as Spark does, batch by batch and slice by slice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tamis.adapters.rows import Row
from tamis.adapters.sources.source import Offset, Source, offset_of

BEGINNING = offset_of({})


def between(source: Source, start: Offset, end: Offset) -> list[Row]:
    return [row for part in source.plan(start, end) for row in source.read(part)]


def read_all(source: Source, limit: int | None = None) -> list[Row]:
    rows, at = [], BEGINNING
    while (end := source.latest(at, limit, settled=True)) != at:
        rows += between(source, at, end)
        at = end
    return rows


def join_mbox(messages: Sequence[bytes]) -> bytes:
    """Return an mbox, by the definition of mboxrd."""
    return b"".join(
        b"From someone Thu Aug 22 12:36:23 2002\n" + re.sub(rb"(?m)^(>*From )", rb">\1", message) + b"\n\n"
        for message in messages
    )


def mail(number: int, text: str = "Hello") -> bytes:
    return f"From: a@example.org\nSubject: number {number}\nMessage-ID: <{number}@x>\n\n{text}".encode()


def subjects(rows: Sequence[Row]) -> list[Any]:
    return [row.properties["subject"] if isinstance(row.properties, dict) else row.error for row in rows]
