"""Reads hierarchies from files, and refuses queries with UNDER where no hierarchy is given.

A hierarchy is a table of values, each with its parent: ``{"American": "Options", "Options": null}`` in JSON. TOML has
no null: there a root has the parent ``""``."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tamis import _core
from tamis._core import Query
from tamis.errors import ConfigError, short
from tamis.name_hints import did_you_mean
from tamis.text_file import read_text

Parents = Mapping[str, str | None]
"""Value -> its parent, or None for a root."""

SIZE_BYTES_MAX = 16 * 1024 * 1024
"""Maximum size of a file with a hierarchy."""


@dataclass(frozen=True)
class HierarchySpec:
    """A hierarchy as it is written down.

    Attributes:
        attribute: the property whose values it orders.
        parents: value -> its parent, or None for a root.
        line: the line in its file, from 1; 0 if it did not come from a file.
    """

    attribute: str
    parents: Parents
    line: int = field(default=0, compare=False)


def read_parents(path: Path) -> dict[str, str | None]:
    """Read a hierarchy from a file: TOML if its name ends so, else JSON.

    Raises:
        ConfigError: it cannot be read, is too large, or is no hierarchy.
    """
    text = read_text(path, SIZE_BYTES_MAX, "the hierarchy")
    return parse_parents(text, str(path), is_toml=path.suffix == ".toml")


def parse_parents(text: str, where: str, *, is_toml: bool = False) -> dict[str, str | None]:
    """Parse a hierarchy from the text of a file, and check it.

    Args:
        text: the text.
        where: what an error names as its place.
        is_toml: the text is TOML, not JSON.

    Raises:
        ConfigError: it is not TOML or JSON, or not a hierarchy.
    """
    try:
        value = tomllib.loads(text) if is_toml else json.loads(text, object_pairs_hook=_each_once)
    except RecursionError:
        raise ConfigError(f"{where}: nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
    return checked_parents(value, where)


def checked_parents(value: Any, where: str) -> dict[str, str | None]:
    """Check that a value of JSON or TOML is a hierarchy; an empty parent means none.

    Raises:
        ConfigError: it is not a table of texts, has a cycle, or has a parent that is not one of its values.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(f'{where}: expected a table {{"value": "parent" or null}}, not {short(value)}')
    for name, parent in value.items():
        if not isinstance(parent, str | None):
            raise ConfigError(f"{where}: '{name}': expected its parent as text, or null, not {short(parent)}")
    parents = {name: parent or None for name, parent in value.items()}
    for name, parent in parents.items():
        if parent is not None and parent not in parents:
            hint = did_you_mean(parent, parents)
            raise ConfigError(
                f"{where}: '{name}': its parent '{parent}' is not a value of the hierarchy{hint}; "
                'a root has the parent null in JSON, "" in TOML'
            )
    try:
        _core.Engine().hierarchy("attribute", parents)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
    return parents


def refuse_missing(queries: Iterable[tuple[str, Query]], attributes: Collection[str]) -> None:
    """Refuse the first query that uses UNDER on an attribute without a hierarchy.

    Args:
        queries: what an error names, and the query.
        attributes: those with a hierarchy.

    Raises:
        ConfigError: the text names the query and the attribute, and says what to do.
    """
    for name, query in queries:
        if problem := missing(query, attributes):
            raise ConfigError(f"{name}: {problem}")


def missing(query: Query, attributes: Collection[str]) -> str | None:
    """Return an error if a query uses UNDER on an attribute that is not among `attributes`, else None."""
    known = set(attributes)
    lower = {attribute.lower() for attribute in known} if "ANYCASE(" in str(query) else set()
    for attribute in query.hierarchies:
        if attribute not in known and attribute not in lower:
            return (
                f"UNDER needs a hierarchy of '{attribute}', and there is none{did_you_mean(attribute, known)}; "
                f"give one: [[hierarchy]] in a TOML file, `tamis hierarchy set {attribute} FILE` in a store, or "
                f"--hierarchy {attribute}=FILE"
            )
    return None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"'{twice}' occurs twice; a value has only one parent")
    return table
