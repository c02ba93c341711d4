"""Reads workloads of Boolean filters: a folder with schema.json, filters.jsonl and messages.jsonl.

Filters are prefix lists: ``["and", E, ...]``, ``["or", E, ...]``, ``["not", E]``, ``["eq", name, value]`` and so
``ne``, ``lt``, ``le``, ``gt``, ``ge``, ``["in", name, [values]]`` and so ``nin``, ``["between", name, low, high]``.
Messages are flat objects. The logic has three values, as in SQL: a predicate on an absent attribute is unknown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tamis.errors import ConfigError

Filter = list[Any]
FlatMessage = dict[str, Any]

_NOT_NAMES = {*"NULL TRUE FALSE NOT AND OR BETWEEN LIKE IN IS ESCAPE TOPIC BODY DATE TIMESTAMP".split()}
_OPERATORS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class Workload:
    """The files of one folder, read as streams.

    Raises:
        ConfigError: a file is missing.
    """

    def __init__(self, folder: Path, filters: int | None = None, messages: int | None = None) -> None:
        for name in ("schema.json", "filters.jsonl", "messages.jsonl"):
            if not (folder / name).is_file():
                raise ConfigError(f"{folder}: expected a workload, but there is no {name} in it")
        self._folder = folder
        self._limits = {"filters.jsonl": filters, "messages.jsonl": messages}

    def filters(self, on_bytes: Callable[[int], object] = lambda _: None) -> Iterator[Filter]:
        """Yield the filters in order. `on_bytes` is called with the size of each line."""
        for line in self._lines("filters.jsonl", on_bytes):
            yield line["f"]

    def messages(self) -> list[FlatMessage]:
        """Return the messages in order."""
        return list(self._lines("messages.jsonl", lambda _: None))

    def size_bytes(self) -> int:
        """Return the size of the file of filters."""
        return (self._folder / "filters.jsonl").stat().st_size

    def _lines(self, name: str, on_bytes: Callable[[int], object]) -> Iterator[Any]:
        path, limit = self._folder / name, self._limits[name]
        with path.open("rb") as lines:
            for number, line in enumerate(lines):
                if number == limit:
                    return
                on_bytes(len(line))
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise ConfigError(f"{path}, line {number + 1}: expected JSON: {error}") from error


def selector_text(expression: Filter) -> str:
    """Return a filter as selector text.

    Raises:
        ConfigError: the operator is not in the list above.
    """
    operator, *operands = expression
    if operator in ("and", "or"):
        parts = (f"({selector_text(part)})" if part[0] in ("and", "or") else selector_text(part) for part in operands)
        return f" {operator.upper()} ".join(parts)
    if operator == "not":
        return f"NOT ({selector_text(operands[0])})"
    name = _name(operands[0])
    if operator in _OPERATORS:
        return f"{name} {_OPERATORS[operator]} {_literal(operands[1])}"
    if operator in ("in", "nin"):
        return f"{name} {'NOT ' if operator == 'nin' else ''}IN ({', '.join(map(_literal, operands[1]))})"
    if operator == "between":
        return f"{name} BETWEEN {_literal(operands[1])} AND {_literal(operands[2])}"
    raise ConfigError(f"expected a filter of a known kind, not {operator!r}")


def _name(name: str) -> str:
    if name.isascii() and name.isidentifier() and name.upper() not in _NOT_NAMES:
        return name
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def truth(expression: Filter, message: FlatMessage) -> bool | None:
    """Evaluate a filter by the definition of the format, without using tamis."""
    operator, *operands = expression
    if operator == "not":
        inner = truth(operands[0], message)
        return None if inner is None else not inner
    if operator in ("and", "or"):
        deciding, result = operator == "or", operator == "and"
        unknown = False
        for part in operands:
            value = truth(part, message)
            if value is deciding:
                return deciding
            unknown = unknown or value is None
        return None if unknown else result
    value = message.get(operands[0])
    return None if value is None else _TESTS[operator](value, *operands[1:])


def _comparable(a: Any, b: Any) -> bool:
    """Return whether two values can be compared: values of different types never compare, and True is not 1."""
    return isinstance(a, bool) == isinstance(b, bool) and isinstance(a, str) == isinstance(b, str)


def _equal(a: Any, b: Any) -> bool:
    return _comparable(a, b) and bool(a == b)


_TESTS: dict[str, Callable[..., bool]] = {
    "eq": _equal,
    "ne": lambda value, other: not _equal(value, other),
    "lt": lambda value, other: _comparable(value, other) and value < other,
    "le": lambda value, other: _comparable(value, other) and value <= other,
    "gt": lambda value, other: _comparable(value, other) and value > other,
    "ge": lambda value, other: _comparable(value, other) and value >= other,
    "in": lambda value, others: any(_equal(value, other) for other in others),
    "nin": lambda value, others: not any(_equal(value, other) for other in others),
    "between": lambda value, low, high: _comparable(value, low) and _comparable(value, high) and low <= value <= high,
}
