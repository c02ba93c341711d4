"""Collects the content of notifications: why the query matched, and excerpts of the message."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any

from tamis.store import NotificationRecord

if TYPE_CHECKING:
    from tamis import Engine, Query

MARK = "*"
"""Surrounds what matched, as people mark words in plain mail."""

_AROUND_CHARACTERS = 80
_VALUE_CHARACTERS = 120
_EXCERPTS = 3
_REASONS = 20

Ranges = Sequence[tuple[int, int]]


class Marked(str):
    """Text with marks around what matched: stars in plain text, the element ``mark`` in HTML.

    Args:
        text: without marks.
        ranges: (start, end) of what matched, ascending.
    """

    _pieces: list[tuple[str, bool]]

    def __new__(cls, text: str, ranges: Ranges) -> Marked:
        """Make it; the text it is as a `str` has stars."""
        pieces = list(_pieces(text, ranges))
        marked = super().__new__(cls, "".join(f"{MARK}{it}{MARK}" if is_match else it for it, is_match in pieces))
        marked._pieces = pieces
        return marked

    def __html__(self) -> str:
        """Return it as HTML."""
        return "".join(f"<mark>{escape(it)}</mark>" if is_match else escape(it) for it, is_match in self._pieces)


@dataclass(frozen=True)
class Why:
    """Why a message matched.

    Attributes:
        reasons: the predicates that were true, each with the value that it looked at.
        ranges: (start, end) in characters of the body, where text predicates matched.
    """

    reasons: tuple[str, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()


def why(record: NotificationRecord) -> Why:
    """Ask the query why it matched. Cost: about 0.1 ms, and the compilation the first time.

    A notification must be delivered even if its query cannot be read any more; then this returns an empty `Why`.
    """
    try:
        query, engine = _compiled(record.query_text, record.query_language, record.hierarchies)
        message = (record.message_properties(), record.topic, record.body)
        predicates = engine.explain("it", *message).predicates
        ranges = tuple(query.highlight(*message))
    except Exception:  # noqa: BLE001 - see above: the reasons are a courtesy
        return Why()
    reasons = [_reason(text, value, record.body) for text, value, result in predicates if result is True]
    return Why(tuple(reasons[:_REASONS]), ranges)


def excerpts(body: str, ranges: Ranges) -> list[Marked]:
    """Return up to three excerpts of `body`, each on one line, with marks around what matched."""
    return [_excerpt(body, *window) for window in itertools.islice(_windows(len(body), ranges), _EXCERPTS)]


def _excerpt(body: str, start: int, end: int, within: Ranges) -> Marked:
    """Return one line of text; its spaces are single."""
    text, ranges = "... " if start else "", []
    for piece, is_match in _pieces(body[start:end], [(a - start, b - start) for a, b in within]):
        begin, line = len(text), " ".join(piece.split())
        before = " " if piece[:1].isspace() and not text.endswith(" ") and text else ""
        after = " " if line and piece[-1:].isspace() else ""
        text += before + line + after
        if is_match:
            ranges.append((begin + len(before), len(text) - len(after)))
    if end < len(body):
        text = text.rstrip() + " ..."
    return Marked(text.rstrip(), ranges)


@lru_cache(maxsize=1024)
def _compiled(text: str, language: str, hierarchies: str) -> tuple[Query, Engine]:
    from tamis import Engine, compile_query

    query, engine = compile_query(text, language), Engine()
    for attribute, parents in json.loads(hierarchies or "{}").items():
        engine.hierarchy(attribute, parents)
    engine.add("it", query)
    return query, engine


def readable(value: Any) -> str:
    """Show a value as people write it: a time as ``2002-10-03 20:57:05 UTC``.

    >>> readable([True, "x", 1.5])
    'true, x, 1.5'
    """
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S %Z").strip()
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(readable, value)) if isinstance(value, list | tuple) else str(value)


def _reason(text: str, value: Any, body: str | None) -> str:
    if value is None or value == body:
        return text
    shown = " ".join(readable(value).split())
    return f"{text}  ({shown if len(shown) <= _VALUE_CHARACTERS else shown[: _VALUE_CHARACTERS - 3] + '...'})"


def _windows(length: int, ranges: Ranges) -> Iterator[tuple[int, int, Ranges]]:
    """Yield windows of text around `ranges`, which ascend; ranges whose surroundings touch share a window."""
    start, end = 0, -1
    within: list[tuple[int, int]] = []
    for begin, stop in ranges:
        if within and begin - _AROUND_CHARACTERS <= end:
            end = min(length, stop + _AROUND_CHARACTERS)
            within.append((begin, stop))
            continue
        if within:
            yield start, end, within
        start, end = max(0, begin - _AROUND_CHARACTERS), min(length, stop + _AROUND_CHARACTERS)
        within = [(begin, stop)]
    if within:
        yield start, end, within


def _pieces(text: str, ranges: Ranges) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces, each with whether it matched."""
    at = 0
    for start, end in ranges:
        yield text[at:start], False
        yield text[start:end], True
        at = end
    yield text[at:], False
