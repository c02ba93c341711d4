"""Where the values of a TOML file stand, so that an error can name the line. The standard reader does not tell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]
"""The way to a value: names of tables and keys, and indexes into arrays, as in ``("adapter", 0, "path")``."""

_HEADER = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?")


def line_numbers(text: str) -> dict[Place, int]:
    """The line, from 1, of every table, key and array of tables in `text`, which must be valid TOML.

    A statement ends where it first reads as TOML by itself; so strings and arrays over several lines need no reader
    of their own. Values in an inline table have the line of the statement.

    >>> line_numbers('[a]\\nb = 1\\n[[c]]\\nd = 2')
    {('a',): 1, ('a', 'b'): 2, ('c',): 3, ('c', 0): 3, ('c', 0, 'd'): 4}
    """
    found: dict[Place, int] = {}
    table: Place = ()
    for line, statement in _statements(text):
        header = _HEADER.fullmatch(statement)
        if header and statement.lstrip().startswith("["):
            table = _enter(found, _names(header[2]), header[1] == "[[", line)
        else:
            for place in _places_within(tomllib.loads(statement)):
                found.setdefault(table + place, line)
    return found


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Headers and key-value pairs with the line that each begins on."""
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
    """The names of a header: ``a."b c"`` is ("a", "b c")."""
    names: list[str] = []
    inner: Any = tomllib.loads(f"{dotted} = 0")
    while isinstance(inner, dict):
        name, inner = next(iter(inner.items()))
        names.append(name)
    return tuple(names)


def _enter(found: dict[Place, int], names: tuple[str, ...], is_array: bool, line: int) -> Place:
    """Note a table's header; the place of the table, with the index of the newest element of each array on the way."""
    place: Place = ()
    for name in names[:-1]:
        place = (*place, name)
        found.setdefault(place, line)
        place = _newest(found, place)
    place = (*place, names[-1])
    found.setdefault(place, line)
    if is_array:
        place = (*place, _length(found, place))
    found.setdefault(place, line)
    return place


def _length(found: dict[Place, int], array: Place) -> int:
    length = 0
    while (*array, length) in found:
        length += 1
    return length


def _newest(found: dict[Place, int], place: Place) -> Place:
    length = _length(found, place)
    return (*place, length - 1) if length else place


def _places_within(value: Any) -> Iterator[Place]:
    """The way to everything inside `value`, outermost first."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (name,)
        for place in _places_within(inner):
            yield (name, *place)
