"""Messages as JSON text: an object whose topic and text fields become the message's topic and body."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tamis.cli import output


class Message(NamedTuple):
    """What the engine asks for, and the object it was made of."""

    properties: dict[str, Any]
    topic: str
    body: str | None
    whole: dict[str, Any]


@dataclass(frozen=True)
class MessageForm:
    """Where in an object the topic and the text are.

    Attributes:
        topic: the topic of every message; None takes it from the field.
        topic_field: it is the topic when it holds text, else a property like any other.
        body_field: it is the body when it holds text, else a property like any other.
    """

    topic: str | None = None
    topic_field: str = "topic"
    body_field: str = "body"

    def read(self, text: str | bytes) -> Message:
        """The message that one line of JSON holds.

        Raises:
            ValueError: no JSON object in UTF-8, or nested too deeply.
        """
        try:
            whole = json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(whole, dict):
            raise ValueError(f"expected a JSON object, not {type(whole).__name__}")
        properties = dict(whole)
        body = properties.pop(self.body_field) if isinstance(whole.get(self.body_field), str) else None
        topic = self.topic
        if topic is None:
            topic = properties.pop(self.topic_field) if isinstance(whole.get(self.topic_field), str) else ""
        return Message(properties, topic, body, whole)


BAD_LINES_SHOWN = 10
"""Lines that cannot be read are explained one by one up to here, then only counted."""


@dataclass
class BadLines:
    """Lines that cannot be read.

    Attributes:
        name: the file, or ``-``.
        count: how many there were.
    """

    name: str
    count: int = 0

    def add(self, number: int, error: Exception) -> None:
        """Explain one, unless there were many already."""
        self.count += 1
        if self.count <= BAD_LINES_SHOWN:
            output.error(f"{'stdin' if self.name == '-' else self.name}, line {number}: no message: {error}")


@contextmanager
def open_lines(name: str) -> Iterator[Iterator[tuple[int, bytes]]]:
    """The lines of a file, or of stdin for ``-``, with their numbers from 1; blank ones are left out.

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
