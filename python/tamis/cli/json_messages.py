"""Reads messages from JSON lines: fields of an object become topic, body and properties."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tamis.cli import output


class JsonMessage(NamedTuple):
    """A message for the engine, and what of its record is no part.

    Attributes:
        properties: the whole JSON object.
        topic: one part of the message.
        body: the other part.
        others: the object without its parts.
    """

    properties: dict[str, Any]
    topic: str
    body: str | None
    others: dict[str, Any]


@dataclass(frozen=True)
class MessageForm:
    """The fields of an object that are the topic and the body.

    Attributes:
        topic: the topic of every message; None: the topic field's text.
        topic_field: the field that is the topic if it holds text; it is a property, too.
        body_field: the field that is the body if it holds text; it is a property, too.
    """

    topic: str | None = None
    topic_field: str = "topic"
    body_field: str = "body"

    def read(self, text: str | bytes) -> JsonMessage:
        """Return the message that one line of JSON holds.

        Raises:
            ValueError: the line is not a JSON object in UTF-8, or nested too deeply.
        """
        try:
            whole = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(whole, dict):
            raise ValueError(f"expected a JSON object, not {type(whole).__name__}")
        others = dict(whole)
        body = others.pop(self.body_field) if isinstance(whole.get(self.body_field), str) else None
        topic = self.topic
        if topic is None:
            topic = others.pop(self.topic_field) if isinstance(whole.get(self.topic_field), str) else ""
        return JsonMessage(whole, topic, body, others)


BAD_SHOWN = 10
"""Maximum number of messages that cannot be read and are explained; further ones are only counted."""


@dataclass
class BadMessages:
    """The messages that cannot be read."""

    count: int = 0

    def add(self, where: str, error: Exception) -> None:
        """Count one, and explain the first ones."""
        self.count += 1
        if self.count <= BAD_SHOWN:
            output.error(f"{where}: not a message: {error}")


@contextmanager
def open_lines(name: str) -> Iterator[Iterator[tuple[int, bytes]]]:
    """Yield the lines of a file, or of stdin for ``-``, with their numbers from 1 and without blank ones.

    Raises:
        OSError: the file cannot be read.
    """
    if name == "-":
        yield _numbered(sys.stdin.buffer)
        return
    with Path(name).open("rb") as file:
        yield _numbered(file)


def _numbered(lines: Any) -> Iterator[tuple[int, bytes]]:
    return ((number, line) for number, line in enumerate(lines, start=1) if not line.isspace())
