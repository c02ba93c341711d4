"""Reads queries from what programs hold: mappings, tuples, rows and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tamis._core import Query
from tamis.errors import ConfigError, QueryError, short
from tamis.query.spec import QuerySpec, compile_query

_TO_ROWS: Final[dict[str, tuple[str, ...]]] = {"to_pylist": (), "to_dicts": (), "to_dict": ("records",)}
"""Method of a table -> its arguments, with which it returns rows: those of Arrow, polars and pandas."""
_COLUMNS: Final = "columns 'key' and 'text', and perhaps 'language'"


def compile_rules(rules: Any) -> list[tuple[str, Query]]:
    """Compile queries in any of the forms that programs have.

    Args:
        rules: one of these:

            - a mapping: key -> text or `Query`;
            - tuples: ``(key, text)``, ``(key, text, language)`` or ``(key, Query)``;
            - query specs, of which those that are paused or expired are left out;
            - rows: mappings or Spark's ``Row`` with ``key``, ``text`` and perhaps ``language``;
            - a table with these columns: a DataFrame of Spark, pandas or polars, or an Arrow table;
            - a `Query`, whose key is its text.

    Returns:
        Key and query, in their order. A key that is a whole number becomes text.

    Raises:
        ConfigError: a rule has none of these forms; the text says which.
        QueryError: a text cannot be read; a note on the error names the key.

    >>> [key for key, _ in compile_rules({"cheap": "price < 10", "frost": ("frost", "text")})]
    ['cheap', 'frost']
    """
    return [(rule[0], compile_rule(*rule)) for rule in each_rule(rules)]


def rule_texts(rules: Any) -> dict[str, tuple[str, str]]:
    """Return key -> text and language of queries in any of the forms that `compile_rules` takes, but for compiled ones.

    Raises:
        ConfigError: as `compile_rules`; or a query is compiled, so that nobody knows its text.
    """
    texts = {}
    for key, text, language in each_rule(rules):
        if isinstance(text, Query):
            raise ConfigError(f"query '{key}': expected its text, not a compiled query")
        texts[key] = (text, language)
    return texts


def each_rule(rules: Any) -> Iterator[tuple[str, Query | str, str]]:
    """Yield key, query or text, and language of each rule in any of the forms that `compile_rules` takes.

    Raises:
        ConfigError: a rule has none of these forms.
    """
    if isinstance(rules, Query):
        rules = [(str(rules), rules)]
    if isinstance(rules, Mapping):
        rules = [(key, *_listed(value)) for key, value in rules.items()]
    elif (rows := _rows_of_table(rules)) is not None:
        rules = rows
    if isinstance(rules, str) or not isinstance(rules, Iterable):
        raise ConfigError(f"rules: expected a file, an engine, a mapping, tuples, rows or a table, not {short(rules)}")
    for number, rule in enumerate(rules, start=1):
        if isinstance(rule, QuerySpec) and not rule.is_active():
            continue
        yield _parts(rule, f"rule {number}")


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _rows_of_table(table: Any) -> list[dict[str, Any]] | None:
    """Return the rows of a table; None for what is no table."""
    if hasattr(table, "toArrow"):  # a DataFrame of Spark
        if missing := {"key", "text"}.difference(table.columns):
            raise ConfigError(f"rules: expected {_COLUMNS}; the table has no {' and no '.join(sorted(missing))}")
        table = table.select(*(name for name in table.columns if name in ("key", "text", "language"))).toArrow()
    for method, arguments in _TO_ROWS.items():
        if hasattr(table, method):
            rows: list[dict[str, Any]] = getattr(table, method)(*arguments)
            return rows
    return None


def _parts(rule: Any, where: str) -> tuple[str, Query | str, str]:
    if isinstance(rule, QuerySpec):
        return rule.key, rule.text, rule.language
    for as_mapping in ("asDict", "_asdict"):
        if hasattr(rule, as_mapping):
            rule = getattr(rule, as_mapping)()
    if isinstance(rule, Mapping):
        if "key" not in rule or "text" not in rule:
            raise ConfigError(f"{where}: expected {_COLUMNS}; found {', '.join(map(repr, rule)) or 'none'}")
        language = rule.get("language")
        rule = (rule["key"], rule["text"], language if isinstance(language, str) and language else "selector")
    if not isinstance(rule, (tuple, list)) or len(rule) not in (2, 3):
        raise ConfigError(f"{where}: expected (key, text) or (key, text, language), not {short(rule)}")
    key, text, language = (*rule, "selector")[:3]
    if isinstance(key, bool) or not isinstance(key, (str, int)) or key == "":
        raise ConfigError(f"{where}: expected a key that is text or a whole number, not {short(key)}")
    if not isinstance(text, (str, Query)):
        raise ConfigError(f"{where}, '{key}': expected the text of a query, not {short(text)}")
    return str(key), text, language


def compile_rule(key: str, text: Query | str, language: str) -> Query:
    """Return the query of a rule.

    Raises:
        ConfigError: the language is unknown; the text names the key.
        QueryError: the text cannot be read; a note on the error names the key.
    """
    try:
        return text if isinstance(text, Query) else compile_query(text, language)
    except QueryError as error:
        error.add_note(f"in the query '{key}'")
        raise
    except ConfigError as error:
        raise ConfigError(f"query '{key}': {error}") from error
