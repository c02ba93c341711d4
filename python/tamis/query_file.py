"""Files of queries: one a line, or TOML. The same file works in the library, the command line, Spark and the broker.

Lines: ``key: selector text``; ``#`` begins a comment, blank lines are skipped. TOML: ``[[query]]`` tables with
``key``, ``text`` and optionally ``language``, ``owner``, ``tags``, ``deliveries``."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tamis import query as languages
from tamis._core import Query
from tamis.errors import ConfigError, QueryError
from tamis.message import ANY

SIZE_BYTES_MAX = 256 * 1024 * 1024
"""The largest file of queries that is read."""


@dataclass(frozen=True)
class QuerySpec:
    """A query as somebody wrote it down.

    Attributes:
        key: its name, unique in a file and in a store.
        text: in `language`.
        language: one of `LANGUAGES`.
        owner: whose it is.
        tags: free words.
        deliveries: names of the deliveries that its matches go to; none means the pipeline's default.
        line: where it stands in its file, from 1; 0 when it came from elsewhere.
    """

    key: str
    text: str
    language: str = "selector"
    owner: str = ""
    tags: tuple[str, ...] = ()
    deliveries: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)

    def compile(self) -> Query:
        """The compiled query.

        Raises:
            QueryError: where the text cannot be read, and what was expected there.
            ConfigError: an unknown language.
        """
        return compile_query(self.text, self.language)


def _near(text: str) -> Query:
    parts = text.split()
    if len(parts) not in (2, 3) or (len(parts) == 3 and not parts[2].isdigit()):
        raise QueryError(text, len(text), "two words and perhaps a distance: `daffodils rhubarb 5`")
    return languages.near(parts[0], parts[1], int(parts[2]) if len(parts) == 3 else 5)


def _on(make: Callable[..., Query]) -> Callable[[str], Query]:
    """A language whose text may begin with where to look: ``on:pattern`` with on = topic, body or a property."""

    def compile_on(text: str) -> Query:
        on, colon, rest = text.partition(":")
        return make(rest.strip(), on=on.strip()) if colon and on.strip().isidentifier() else make(text)

    return compile_on


def _fields(text: str) -> Query:
    """Criteria as the papers print them: ``currency=USD, urgent``; `any:` in front asks for one of them only."""
    require, colon, rest = text.partition(":")
    wants_any = bool(colon) and require.strip() == "any"
    criteria: dict[str, Any] = {}
    for part in (rest if wants_any else text).split(","):
        name, equals, value = part.partition("=")
        if not name.strip():
            raise QueryError(text, text.find(part), "a field: `name` or `name=value`")
        criteria[name.strip()] = _field_value(value.strip()) if equals else ANY
    return languages.fields(criteria, require="any" if wants_any else "all")


def _field_value(text: str) -> bool | int | float | str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        if re.fullmatch(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?", text):
            try:
                return number(text)
            except ValueError:
                continue
    return text


LANGUAGES: dict[str, Callable[[str], Query]] = {
    "selector": languages.selector,
    "cbm": lambda text: languages.selector(text, dialect="cbm"),
    "boolean": languages.boolean,
    "topic": languages.topic,
    "topic:openamq": lambda text: languages.topic(text, dialect="openamq"),
    "topic:openamq-program": lambda text: languages.topic(text, dialect="openamq-program"),
    "prefix": _on(languages.prefix),
    "regex": _on(languages.regex),
    "fields": _fields,
    "text": languages.text,
    "near": _near,
}
"""Name of a language -> what reads it. ``prefix`` and ``regex`` take ``on:pattern`` (default: the topic), ``near``
``a b n``, ``fields`` ``currency=USD, urgent``."""


def compile_query(text: str, language: str = "selector") -> Query:
    """`text` in `language` as a compiled query.

    Raises:
        QueryError: where it cannot be read, and what was expected there.
        ConfigError: an unknown language, with the nearest known one.
    """
    if language not in LANGUAGES:
        raise ConfigError(
            f"unknown language '{language}'{_nearest(language, LANGUAGES)}; known: {', '.join(LANGUAGES)}"
        )
    return LANGUAGES[language](text)


def _nearest(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def load_queries(path: str | Path) -> list[QuerySpec]:
    """The queries of a file in the order written, not yet compiled.

    Args:
        path: ``.toml``, or any other name for one query a line.

    Raises:
        ConfigError: the file is missing, too large or no UTF-8; a line without a key; a key twice; an unknown name in
            TOML. With file and line.
    """
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
    seen: dict[str, int] = {}
    for spec in specs:
        if spec.key in seen:
            raise ConfigError(f"{path}, line {spec.line}: the key '{spec.key}' stands on line {seen[spec.key]} already")
        seen[spec.key] = spec.line
    return specs


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
            raise ConfigError(f"{path}: unknown name '{name}'{_nearest(name, ['query'])}; expected [[query]] tables")
    tables = document.get("query", [])
    if not isinstance(tables, list):
        raise ConfigError(f"{path}: expected [[query]] tables, not [query]")
    for index, table in enumerate(tables):
        line = lines[index] if len(lines) == len(tables) else 0
        yield _from_table(table, f"{path}, line {line}" if line else f"{path}, query {index + 1}", line)


def _from_table(table: dict[str, Any], place: str, line: int) -> QuerySpec:
    for name in table:
        if name not in _KEYS:
            raise ConfigError(f"{place}: unknown name '{name}'{_nearest(name, _KEYS)}")
    for name in ("key", "text", "language", "owner"):
        if name in table and not isinstance(table[name], str):
            raise ConfigError(f"{place}: expected text for '{name}'")
    for name in ("tags", "deliveries"):
        if not isinstance(table.get(name, []), list) or not all(isinstance(item, str) for item in table.get(name, [])):
            raise ConfigError(f"{place}: expected a list of texts for '{name}'")
    if not table.get("key") or "text" not in table:
        raise ConfigError(f"{place}: expected 'key' and 'text'")
    language = table.get("language", "selector")
    if language not in LANGUAGES:
        raise ConfigError(f"{place}: unknown language '{language}'{_nearest(language, LANGUAGES)}")
    tags, deliveries = tuple(table.get("tags", ())), tuple(table.get("deliveries", ()))
    return QuerySpec(table["key"], table["text"], language, table.get("owner", ""), tags, deliveries, line)
