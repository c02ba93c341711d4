"""Reads files of queries, which the library, the command line, Spark and the broker share.

A text file has one query per line, ``key: selector text``; ``#`` begins a comment, and blank lines are skipped. A TOML
file has ``[[query]]`` tables with ``key``, ``text`` and perhaps ``language``, ``owner``, ``tags``, ``deliveries``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tamis._core import Query
from tamis.errors import ConfigError, QueryError
from tamis.name_hints import did_you_mean
from tamis.query.spec import LANGUAGES, QuerySpec

SIZE_BYTES_MAX = 256 * 1024 * 1024
"""Maximum size of a file of queries."""


def load_queries(path: str | os.PathLike[str]) -> list[QuerySpec]:
    """Read the queries of a file in their order, without compiling them.

    Args:
        path: a ``.toml`` file; a file of any other name has one query per line.

    Raises:
        TypeError: `path` is no path.
        ConfigError: the file is missing, too large or not UTF-8, a line has no key, two queries have the same key, or
            a name in TOML is unknown. The text says the file and the line.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: expected a path (str or os.PathLike), not {type(path).__name__}")
    path = Path(path)
    try:
        if path.stat().st_size > SIZE_BYTES_MAX:
            raise ConfigError(f"{path}: expected a file of at most {SIZE_BYTES_MAX} bytes")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8 text ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise ConfigError(f"{path}: the file of queries cannot be read: {error.strerror}") from error
    specs = list(_from_toml(path, text) if path.suffix == ".toml" else _from_lines(path, text))
    lines: dict[str, int] = {}
    for spec in specs:
        if spec.key in lines:
            raise ConfigError(f"{path}, line {spec.line}: the key '{spec.key}' is already on line {lines[spec.key]}")
        lines[spec.key] = spec.line
    return specs


def compile_in_file(path: str | Path, spec: QuerySpec) -> Query:
    """Compile `spec`, a query of the file `path`.

    Raises:
        ConfigError: it cannot be read; the text has file, line, key, and a caret under the position.
    """
    try:
        return spec.compile()
    except (QueryError, ConfigError) as error:
        line = f", line {spec.line}" if spec.line else ""
        raise ConfigError(f"{path}{line}: query '{spec.key}': {error}") from error


def _from_lines(path: Path, text: str) -> Iterator[QuerySpec]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, colon, query = line.partition(":")
        if not colon or not key.strip() or not query.strip():
            raise ConfigError(f"{path}, line {number}: expected `key: selector text`")
        yield QuerySpec(key.strip(), query.strip(), line=number)


_KEYS = ("key", "text", "language", "owner", "tags", "deliveries")


def _from_toml(path: Path, text: str) -> Iterator[QuerySpec]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if line.strip() == "[[query]]"]
    for name in document:
        if name != "query":
            raise ConfigError(
                f"{path}: unknown name '{name}'{did_you_mean(name, ['query'])}; expected [[query]] tables"
            )
    tables = document.get("query", [])
    if not isinstance(tables, list):
        raise ConfigError(f"{path}: expected [[query]] tables, not [query]")
    for index, table in enumerate(tables):
        line = lines[index] if len(lines) == len(tables) else 0
        yield _from_table(table, f"{path}, line {line}" if line else f"{path}, query {index + 1}", line)


def _from_table(table: dict[str, Any], where: str, line: int) -> QuerySpec:
    for name in table:
        if name not in _KEYS:
            raise ConfigError(f"{where}: unknown name '{name}'{did_you_mean(name, _KEYS)}")
    for name in ("key", "text", "language", "owner"):
        if name in table and not isinstance(table[name], str):
            raise ConfigError(f"{where}: expected text for '{name}'")
    for name in ("tags", "deliveries"):
        if not isinstance(table.get(name, []), list) or not all(isinstance(item, str) for item in table.get(name, [])):
            raise ConfigError(f"{where}: expected a list of texts for '{name}'")
    if not table.get("key") or "text" not in table:
        raise ConfigError(f"{where}: expected 'key' and 'text'")
    language = table.get("language", "selector")
    if language not in LANGUAGES:
        raise ConfigError(f"{where}: unknown language '{language}'{did_you_mean(language, LANGUAGES)}")
    tags, deliveries = tuple(table.get("tags", ())), tuple(table.get("deliveries", ()))
    return QuerySpec(table["key"], table["text"], language, table.get("owner", ""), tags, deliveries, line)
