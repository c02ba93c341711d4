"""Says which columns are parts of messages, and which queries ask for; without Spark, for driver and workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tamis.errors import TamisError

Asked = Callable[[Iterable[str]], tuple[list[str], bool, bool]]
"""The result of `tamis.Engine.asked`."""

PARTS: Final = ("topic", "properties", "body")


def columns_by_name(columns: Iterable[str], *, is_exact: bool) -> dict[str, str]:
    """Return part or property -> name of its column. The names of parts count without regard to case.

    Args:
        columns: the names of all columns.
        is_exact: whether Spark tells names apart that differ in case only; then parts are told apart, too.

    Raises:
        TamisError: two columns are the same part.
    """
    found: dict[str, str] = {}
    for column in columns:
        name = column if is_exact or column.lower() not in PARTS else column.lower()
        if name in PARTS and name in found:
            raise TamisError(f"columns '{found[name]}' and '{column}': Spark takes their names as the same; drop one")
        found[name] = column
    return found


def wanted(names: Iterable[str], asked: Asked | None) -> list[str]:
    """Return those names that queries ask for: of parts, and without ``properties`` of every property.

    Args:
        names: the names of parts and of other columns.
        asked: the parts that queries ask for; None: all.
    """
    all_names = list(names)
    messages = [name for name in all_names if name in PARTS or "properties" not in all_names]
    if asked is None:
        return messages
    properties, topic, body = asked(messages)
    parts = {"topic": topic, "body": body, "properties": "properties" in messages}
    return [name for name in messages if parts.get(name, False) or name in properties]


def either(first: Asked, other: Asked, names: Iterable[str]) -> tuple[list[str], bool, bool]:
    """Return what one or the other asks for."""
    all_names = list(names)
    (some, topic, body), (more, other_topic, other_body) = first(all_names), other(all_names)
    asked = {*some, *more}
    return [name for name in all_names if name in asked], topic or other_topic, body or other_body


def check_new(known: Iterable[str], new: Sequence[str]) -> None:
    """Raise a TamisError if a DataFrame has a column already that is to be added."""
    lower = {name.lower() for name in known}
    for name in new:
        if name.lower() in lower:
            raise TamisError(f"the DataFrame has a column '{name}' already; drop it, or name another: column='...'")
