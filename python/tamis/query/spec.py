"""Defines a query as it is written down (key, text, language) and the table of all languages."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tamis._core import Query
from tamis.errors import ConfigError, QueryError, expect_text
from tamis.message import ANY
from tamis.name_hints import did_you_mean
from tamis.query import languages


@dataclass(frozen=True)
class QuerySpec:
    """A query as it is written down.

    Attributes:
        key: its name, unique in a file and in a store.
        text: in `language`.
        language: one of `LANGUAGES`, or ``boolean:`` and the names of groupings.
        owner: the owner's name.
        tags: free words.
        deliveries: names of the deliveries for its matches; empty: the pipeline's default.
        line: the line of its text in its file, from 1; 0 if it did not come from a file.
    """

    key: str
    text: str
    language: str = "selector"
    owner: str = ""
    tags: tuple[str, ...] = ()
    deliveries: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)

    def compile(self) -> Query:
        """Compile the query.

        Raises:
            QueryError: the text cannot be read; the error has the position and what was expected there.
            ConfigError: the language is unknown.
        """
        return compile_query(self.text, self.language)


def _near(text: str) -> Query:
    parts = text.split()
    if len(parts) not in (2, 3) or (len(parts) == 3 and not parts[2].isdigit()):
        raise QueryError(text, len(text), "two words and perhaps a distance: `daffodils rhubarb 5`")
    return languages.near(parts[0], parts[1], int(parts[2]) if len(parts) == 3 else 5)


def _on(make: Callable[..., Query]) -> Callable[[str], Query]:
    """A language whose text may name what to look at: ``on:pattern`` with on = topic, body or a property."""

    def compile_on(text: str) -> Query:
        on, colon, pattern = text.partition(":")
        return make(pattern.strip(), on=on.strip()) if colon and on.strip().isidentifier() else make(text)

    return compile_on


def _fields(text: str) -> Query:
    """Criteria as the papers print them: ``currency=USD, urgent``; ``any:`` in front asks for at least one of them."""
    require, colon, criteria_text = text.partition(":")
    wants_any = bool(colon) and require.strip() == "any"
    criteria: dict[str, Any] = {}
    for part in (criteria_text if wants_any else text).split(","):
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


GROUPED = "boolean:"
"""What the name of the Boolean language with groupings begins with; the names of the properties follow."""

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
"""Name of a language -> the function that compiles it. ``prefix`` and ``regex`` take ``on:pattern`` (default: the
topic), ``near`` takes ``a b n``, and ``fields`` takes ``currency=USD, urgent``."""


def compile_query(text: str, language: str = "selector") -> Query:
    """Compile a text in a language.

    Args:
        text: the query.
        language: one of `LANGUAGES`, or ``boolean:group, region``: the Boolean language with these groupings.

    Raises:
        TypeError: an argument is not text.
        QueryError: the text cannot be read; the error has the position and what was expected there.
        ConfigError: the language is unknown; the text names the nearest known one.
    """
    expect_text(text, "text")
    check_language(expect_text(language, "language"))
    if language.startswith(GROUPED):
        return languages.boolean(text, groupings=groupings_of(language))
    return LANGUAGES[language](text)


def check_language(language: str) -> None:
    """Refuse a language that `compile_query` does not know.

    Raises:
        ConfigError: the text names the nearest known one.
    """
    if language in LANGUAGES or (language.startswith(GROUPED) and groupings_of(language)):
        return
    known = [*LANGUAGES, f"{GROUPED}NAMES"]
    raise ConfigError(f"unknown language '{language}'{did_you_mean(language, known)}; known: {', '.join(known)}")


def groupings_of(language: str) -> list[str]:
    """The names after ``boolean:``, which commas separate.

    >>> groupings_of("boolean:group, Trading venue")
    ['group', 'Trading venue']
    """
    return [name.strip() for name in language.removeprefix(GROUPED).split(",") if name.strip()]
