"""Reads the conformance cases of selectors and of topics."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class SelectorCase:
    """One assertion of another project's suite about a selector.

    Attributes:
        expect: true, not-true (only "does not match" was asserted), unknown, parses or error.
        time_dependent: the answer depends on the day on which it is asked.
    """

    file: str
    line: int
    test: str
    dialect: str
    selector: str
    properties: dict[str, Any]
    expect: str
    time_dependent: bool = False

    @property
    def asks_for_parsing_only(self) -> bool:
        return self.expect in ("parses", "error")

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.test}: {self.selector!r} of {self.properties} is {self.expect}"


@dataclass(frozen=True)
class TopicCase:
    """A routing key, and the destinations that its bindings route to (sorted, each once)."""

    file: str
    line: int
    bindings: tuple[tuple[str, str], ...]
    routing_key: str
    expect: list[str]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.routing_key!r} goes to {self.expect}"


def value(kind: str, raw: Any) -> Any:
    """Return a property of the given JMS or AMQP type as a message holds it."""
    if raw is None or kind == "null":
        return None
    if kind == "float":  # 32 bits, widened again
        return struct.unpack("f", struct.pack("f", raw))[0]
    if kind == "double":
        return float(raw)
    if kind == "binary(hex)":
        return bytes.fromhex(raw)
    if kind == "timestamp":
        return EPOCH + timedelta(milliseconds=raw)
    return raw


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if line:
            yield number, json.loads(line)


def _properties(row: dict[str, Any]) -> dict[str, Any]:
    """Return the properties and headers of a case in one mapping, since headers are properties here."""
    typed = {name: value(*pair) for name, pair in row.get("props", {}).items()}
    return row.get("headers", {}) | typed


def selector_cases(path: Path) -> list[SelectorCase]:
    """Return the cases of a file of selectors, in its order."""
    return [
        SelectorCase(
            path.name,
            number,
            row["test"],
            row["dialect"],
            row["selector"],
            _properties(row),
            row["expect"],
            row.get("time_dependent", False),
        )
        for number, row in _rows(path)
    ]


def topic_cases(path: Path) -> list[TopicCase]:
    """Return the cases of a file of topics, in its order."""
    return [
        TopicCase(
            path.name,
            number,
            tuple((binding["pattern"], binding["dest"]) for binding in row["bindings"]),
            row["routing_key"],
            sorted(row["expect"]),
        )
        for number, row in _rows(path)
    ]
