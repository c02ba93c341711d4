"""Reads files of queries, which the library, the command line, Spark and the broker share.

A text file has one query per line, ``key: selector text``; ``#`` begins a comment, and blank lines are skipped. A TOML
file has ``[[query]]`` tables with ``key``, ``text`` and perhaps ``language``, ``owner``, ``tags``, ``deliveries``,
``paused``, ``expires``, and ``[[hierarchy]]`` tables with ``attribute`` and either ``parents`` or ``file``."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from tamis._core import Query
from tamis.errors import ConfigError, QueryError
from tamis.name_hints import did_you_mean
from tamis.query.expiry import expiry_of, is_duration
from tamis.query.hierarchy import HierarchySpec, Parents, checked_parents, read_parents
from tamis.query.spec import QuerySpec, check_language
from tamis.text_file import read_text

SIZE_BYTES_MAX = 256 * 1024 * 1024
"""Maximum size of a file of queries."""

FOLDER_SUFFIXES = (".txt", ".toml")
"""The suffixes of the files of queries in a folder."""


@dataclass(frozen=True)
class QueryFile:
    """The content of a file of queries.

    Attributes:
        path: the path of the file.
        queries: the queries in their order, not compiled.
        hierarchies: the hierarchies in their order, checked.
    """

    path: Path
    queries: tuple[QuerySpec, ...] = ()
    hierarchies: tuple[HierarchySpec, ...] = ()

    def active_queries(self) -> list[QuerySpec]:
        """Return the queries that are neither paused nor expired."""
        return [spec for spec in self.queries if spec.is_active()]

    def trees(self) -> dict[str, Parents]:
        """Return attribute -> value -> its parent, of all hierarchies."""
        return {spec.attribute: spec.parents for spec in self.hierarchies}


def load_query_files(path: str | os.PathLike[str]) -> list[QueryFile]:
    """Read a file of queries, or all of a folder: its ``*.txt`` and ``*.toml`` files, also in folders below, by name.

    Hidden files and folders are left out.

    Raises:
        TypeError: `path` is not a path.
        ConfigError: see `load_query_file`. Or two files hold the same query or hierarchy; the text names both places.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: expected a path (str or os.PathLike), not {type(path).__name__}")
    path = Path(path)
    if not path.is_dir():
        return [load_query_file(path)]
    found = [it for it in sorted(path.rglob("*")) if it.suffix in FOLDER_SUFFIXES and it.is_file()]
    files = [load_query_file(it) for it in found if not any(part[0] == "." for part in it.relative_to(path).parts)]
    _refuse_in_two_files("key", ((file, spec.key, spec.line) for file in files for spec in file.queries))
    _refuse_in_two_files(
        "hierarchy of", ((file, spec.attribute, spec.line) for file in files for spec in file.hierarchies)
    )
    return files


def _refuse_in_two_files(what: str, places: Iterable[tuple[QueryFile, str, int]]) -> None:
    first: dict[str, str] = {}
    for file, name, line in places:
        place = f"{file.path}, line {line}" if line else str(file.path)
        if name in first:
            raise ConfigError(f"{place}: the {what} '{name}' is already in {first[name]}")
        first[name] = place


def load_queries(path: str | os.PathLike[str]) -> list[QuerySpec]:
    """Read the queries of a file in their order, without compiling them.

    Args:
        path: a ``.toml`` file; a file of any other name has one query per line.

    Raises:
        TypeError: `path` is not a path.
        ConfigError: see `load_query_file`.
    """
    return list(load_query_file(path).queries)


def load_query_file(path: str | os.PathLike[str]) -> QueryFile:
    """Read the queries and hierarchies of a file.

    Args:
        path: a ``.toml`` file; a file of any other name has one query per line, and no hierarchies.

    Raises:
        TypeError: `path` is not a path.
        ConfigError: the file is missing, too large or not UTF-8, a line has no key, two queries have the same key, a
            name in TOML is unknown, or a hierarchy has a cycle. The text says the file and the line.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: expected a path (str or os.PathLike), not {type(path).__name__}")
    path = Path(path)
    text = read_text(path, SIZE_BYTES_MAX, "the file of queries")
    if path.suffix == ".toml":
        return _Toml(path, text).read()
    specs = tuple(_from_lines(path, text))
    _refuse_twice(path, "key", ((spec.key, spec.line) for spec in specs))
    return QueryFile(path, specs)


def _refuse_twice(path: Path, what: str, names: Iterable[tuple[str, int]]) -> None:
    lines: dict[str, int] = {}
    for name, line in names:
        if name in lines:
            raise ConfigError(f"{path}, line {line}: the {what} '{name}' is already on line {lines[name]}")
        lines[name] = line


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


_TABLES = {
    "query": ("key", "text", "language", "owner", "tags", "deliveries", "paused", "expires"),
    "hierarchy": ("attribute", "parents", "file"),
}
"""Name of a table in a TOML file -> its keys."""

_HEADER = re.compile(r"\s*\[\[\s*(\w+)\s*\]\]\s*(?:#.*)?")
_ASSIGNED = re.compile(r"\s*(\w+)\s*(?:=|\.)")


class _Toml:
    """A TOML file of queries, with the line of each key."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        try:
            self._document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: {error}") from error
        self._lines = _lines_of_tables(text)

    def read(self) -> QueryFile:
        for name in self._document:
            if name not in _TABLES:
                raise ConfigError(
                    f"{self._path}: unknown name '{name}'{did_you_mean(name, _TABLES)}; "
                    "expected [[query]] and [[hierarchy]] tables"
                )
        queries = tuple(self._query(table, index) for index, table in enumerate(self._tables("query")))
        hierarchies = tuple(self._hierarchy(table, index) for index, table in enumerate(self._tables("hierarchy")))
        keys = ((spec.key, self._line("query", index, "key")) for index, spec in enumerate(queries))
        _refuse_twice(self._path, "key", keys)
        _refuse_twice(self._path, "hierarchy of", ((spec.attribute, spec.line) for spec in hierarchies))
        return QueryFile(self._path, queries, hierarchies)

    def _tables(self, kind: str) -> list[dict[str, Any]]:
        tables = self._document.get(kind, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise ConfigError(f"{self._path}: expected [[{kind}]] tables, not [{kind}]")
        return tables

    def _line(self, kind: str, index: int, name: str = "") -> int:
        """Return the line of a key, or of its table; 0 if the tables are written in a way that hides their lines."""
        lines = self._lines.get(kind, [])
        if len(lines) != len(self._document[kind]):
            return 0
        return lines[index].get(name, lines[index][""])

    def _where(self, kind: str, index: int, name: str = "") -> str:
        line = self._line(kind, index, name)
        return f"{self._path}, line {line}" if line else f"{self._path}, {kind} {index + 1}"

    def _refuse_unknown(self, table: dict[str, Any], kind: str, index: int) -> None:
        for name in table:
            if name not in _TABLES[kind]:
                hint = did_you_mean(name, _TABLES[kind])
                raise ConfigError(f"{self._where(kind, index, name)}: unknown name '{name}'{hint}")

    def _query(self, table: dict[str, Any], index: int) -> QuerySpec:
        self._refuse_unknown(table, "query", index)
        for name in ("key", "text", "language", "owner"):
            if name in table and not isinstance(table[name], str):
                raise ConfigError(f"{self._where('query', index, name)}: expected text for '{name}'")
        for name in ("tags", "deliveries"):
            values = table.get(name, [])
            if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
                raise ConfigError(f"{self._where('query', index, name)}: expected a list of texts for '{name}'")
        if not table.get("key") or "text" not in table:
            raise ConfigError(f"{self._where('query', index)}: expected 'key' and 'text'")
        language = table.get("language", "selector")
        try:
            check_language(language)
        except ConfigError as error:
            raise ConfigError(f"{self._where('query', index, 'language')}: {error}") from None
        tags, deliveries = tuple(table.get("tags", ())), tuple(table.get("deliveries", ()))
        paused = table.get("paused", False)
        if not isinstance(paused, bool):
            raise ConfigError(f"{self._where('query', index, 'paused')}: expected true or false for 'paused'")
        return QuerySpec(
            *(table["key"], table["text"], language, table.get("owner", ""), tags, deliveries, paused),
            expires_at=self._expires(table, index),
            line=self._line("query", index, "text"),
        )

    def _expires(self, table: dict[str, Any], index: int) -> datetime | None:
        value = table.get("expires")
        if value is None:
            return None
        with suppress(OverflowError):
            if isinstance(value, date):
                return expiry_of(value)
        where = self._where("query", index, "expires")
        expected = "a date or a time without quotes, as 2026-12-31 or 2026-12-31T18:00:00Z"
        if isinstance(value, str) and is_duration(value):
            expected += f"; '{value}' would start again each time the file is read"
        raise ConfigError(f"{where}: expected {expected}, for 'expires'")

    def _hierarchy(self, table: dict[str, Any], index: int) -> HierarchySpec:
        self._refuse_unknown(table, "hierarchy", index)
        attribute = table.get("attribute")
        if not isinstance(attribute, str) or not attribute:
            raise ConfigError(
                f"{self._where('hierarchy', index, 'attribute')}: expected 'attribute': a property's name"
            )
        if ("parents" in table) == ("file" in table):
            raise ConfigError(f"{self._where('hierarchy', index)}: expected either 'parents' or 'file'")
        line = self._line("hierarchy", index, "attribute")
        if "parents" in table:
            where = self._where("hierarchy", index, "parents")
            return HierarchySpec(attribute, checked_parents(table["parents"], where), line)
        if not isinstance(table["file"], str) or not table["file"]:
            raise ConfigError(f"{self._where('hierarchy', index, 'file')}: expected the path of a file as text")
        try:
            parents = read_parents(self._path.parent / Path(table["file"]).expanduser())
        except ConfigError as error:
            raise ConfigError(f"{self._where('hierarchy', index, 'file')}: {error}") from error
        return HierarchySpec(attribute, parents, line)


def _lines_of_tables(text: str) -> dict[str, list[dict[str, int]]]:
    """Return name of a table -> for each one the line of every key; the table's own line is under the empty name."""
    lines: dict[str, list[dict[str, int]]] = {}
    table: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.fullmatch(line):
            table = {"": number}
            lines.setdefault(header[1], []).append(table)
        elif assigned := _ASSIGNED.match(line):
            table.setdefault(assigned[1], number)
    return lines
