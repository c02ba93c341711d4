"""Defines a query as it is written down: its key, its text and its language."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from tamis import _core
from tamis._core import Query
from tamis.errors import ConfigError
from tamis.name_hints import did_you_mean

QueryState = Literal["active", "paused", "expired"]


@dataclass(frozen=True)
class QuerySpec:
    """A query as it is written down.

    Attributes:
        key: its name, unique in a file and in a store.
        text: the text in `language`.
        language: one of `LANGUAGES`, or ``boolean:`` and the names of groupings.
        owner: the owner's name.
        tags: free words.
        deliveries: names of the deliveries for its matches; empty: the pipeline's default.
        paused: whether it matches nothing until it is resumed.
        expires_at: the aware time from which on it matches nothing; None: it never expires.
        line: the line of its text in its file, from 1; 0 if it did not come from a file.
    """

    key: str
    text: str
    language: str = "selector"
    owner: str = ""
    tags: tuple[str, ...] = ()
    deliveries: tuple[str, ...] = ()
    paused: bool = False
    expires_at: datetime | None = None
    line: int = field(default=0, compare=False)

    def state(self, at: datetime) -> QueryState:
        """Return whether the query is active, paused or expired at a time. Resuming does not end an expiry."""
        if self.expires_at is not None and self.expires_at <= at:
            return "expired"
        return "paused" if self.paused else "active"

    def is_active(self) -> bool:
        """Return whether the query matches now."""
        return self.state(datetime.now(UTC)) == "active"

    def compile(self) -> Query:
        """Compile the query.

        Raises:
            QueryError: the text cannot be read; the error has the position and what was expected there.
            ConfigError: the language is unknown.
        """
        return compile_query(self.text, self.language)


GROUPED = "boolean:"
"""The prefix of the name of the Boolean language with groupings; the names of the properties follow."""

LANGUAGES: Final = (*_core.LANGUAGES, "predicate")
"""The names of all languages. ``prefix`` and ``regex`` take ``on:pattern`` (default: the topic), ``near`` takes
``a b n``, ``fields`` takes ``currency=USD, urgent``, and ``predicate`` takes ``name`` or ``name: selector``."""


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
    if language == "predicate":
        from tamis.query.predicates import predicate  # few programs use it, and looking for packages takes time

        return predicate(text)
    query = _core.compile_query(text, language)
    if query is None:
        raise _unknown(language)
    return query


def check_language(language: str) -> None:
    """Refuse a language that `compile_query` does not know.

    Raises:
        ConfigError: the text names the nearest known one.
    """
    is_grouped = language.startswith(GROUPED) and any(map(str.strip, language.removeprefix(GROUPED).split(",")))
    if language not in LANGUAGES and not is_grouped:
        raise _unknown(language)


def _unknown(language: str) -> ConfigError:
    known = [*LANGUAGES, f"{GROUPED}NAMES"]
    return ConfigError(f"unknown language '{language}'{did_you_mean(language, known)}; known: {', '.join(known)}")
