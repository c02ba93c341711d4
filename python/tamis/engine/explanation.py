"""Explains why a query is true, false or unknown for a message, and which names were probably misspelt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tamis.engine.notebook import html_table
from tamis.errors import short
from tamis.message import Properties
from tamis.name_hints import dotted_names, likely_names

_WORDS = {True: "true", False: "FALSE", None: "unknown"}


@dataclass(frozen=True)
class Explanation:
    """Why a query is true, false or unknown (None) for a message.

    Attributes:
        result: true, false or unknown.
        predicates: (selector text, the value it looked at, its result), from left to right.
        missing: names that the query asks for and the message lacks.
        hints: names of the message that were probably meant by missing names.
    """

    result: bool | None
    predicates: list[tuple[str, Any, bool | None]]
    missing: list[str]
    hints: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        predicates = [{"text": text, "value": value, "result": result} for text, value, result in self.predicates]
        plain = {"result": self.result, "predicates": predicates, "missing": list(self.missing)}
        return {**plain, "hints": list(self.hints)} if self.hints else plain

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a row for each predicate."""
        rows = [(text, _WORDS[result], short(value)) for text, value, result in self.predicates]
        rows += [(name, "missing", "") for name in self.missing]
        return html_table(str(self).partition(":")[0], rows)

    def __str__(self) -> str:
        parts = [f"{text} is {_WORDS[result]} ({short(value)})" for text, value, result in self.predicates]
        answer = {True: "yes", False: "no", None: "unknown"}[self.result]
        missing = f"; missing: {', '.join(self.missing)}" if self.missing else ""
        hints = "".join(f" ({hint})" for hint in self.hints)
        return f"{answer}: {'; '.join(parts)}{missing}{hints}"


def name_hints(missing: list[str], properties: Properties | None) -> list[str]:
    """Guess the names meant by `missing`, which are identifiers as selectors write them."""
    if not missing or not properties:
        return []
    known = set(dotted_names(properties))
    pairs = likely_names(map(_name_of, missing), known)
    return [f"the message has no '{name}'; did you mean '{near}'?" for name, near in pairs]


def _name_of(written: str) -> str:
    """Return the name in an identifier such as ``"a b"`` or ``ANYCASE(a)``."""
    name = written[len("ANYCASE(") : -1] if written.startswith("ANYCASE(") else written
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
