"""Finds the line of each value in a TOML file, which the standard reader does not give."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

TomlLocation = tuple[str | int, ...]
"""The path to a value: names of tables and keys, and indexes into arrays, as in ``("adapter", 0, "path")``."""

_HEADER = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?")


def line_numbers(text: str) -> dict[TomlLocation, int]:
    """Return the line, from 1, of every table, key and array of tables in `text`, which must be valid TOML.

    A statement ends where it first parses as TOML by itself, so that strings and arrays over several lines need no
    parser of their own. Values in an inline table have the line of the statement.

    >>> line_numbers('[a]\\nb = 1\\n[[c]]\\nd = 2')
    {('a',): 1, ('a', 'b'): 2, ('c',): 3, ('c', 0): 3, ('c', 0, 'd'): 4}
    """
    lines: dict[TomlLocation, int] = {}
    table: TomlLocation = ()
    for line, statement in _statements(text):
        header = _HEADER.fullmatch(statement)
        if header and statement.lstrip().startswith("["):
            table = _enter(lines, _names(header[2]), header[1] == "[[", line)
        else:
            for location in _locations_within(tomllib.loads(statement)):
                lines.setdefault(table + location, line)
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the headers and key-value pairs, each with its first line."""
    begun, statement = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not statement and (not line.strip() or line.lstrip().startswith("#")):
            continue
        begun = begun if statement else number
        statement = f"{statement}\n{line}" if statement else line
        if _is_complete(statement):
            yield begun, statement
            statement = ""


def _is_complete(statement: str) -> bool:
    try:
        tomllib.loads(statement)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _names(dotted: str) -> tuple[str, ...]:
    """Return the names of a header: ``a."b c"`` is ("a", "b c")."""
    names: list[str] = []
    inner: Any = tomllib.loads(f"{dotted} = 0")
    while isinstance(inner, dict):
        name, inner = next(iter(inner.items()))
        names.append(name)
    return tuple(names)


def _enter(lines: dict[TomlLocation, int], names: tuple[str, ...], is_array: bool, line: int) -> TomlLocation:
    """Record the header of a table; return its location, with the index of the newest element of each array."""
    location: TomlLocation = ()
    for name in names[:-1]:
        location = (*location, name)
        lines.setdefault(location, line)
        location = _newest(lines, location)
    location = (*location, names[-1])
    lines.setdefault(location, line)
    if is_array:
        location = (*location, _length(lines, location))
    lines.setdefault(location, line)
    return location


def _length(lines: dict[TomlLocation, int], array: TomlLocation) -> int:
    length = 0
    while (*array, length) in lines:
        length += 1
    return length


def _newest(lines: dict[TomlLocation, int], location: TomlLocation) -> TomlLocation:
    length = _length(lines, location)
    return (*location, length - 1) if length else location


def _locations_within(value: Any) -> Iterator[TomlLocation]:
    """Yield the locations of everything inside `value`, outermost first."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (name,)
        for location in _locations_within(inner):
            yield (name, *location)
