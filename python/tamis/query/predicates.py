"""Finds expensive predicates that installed packages register, so that queries can use them by name.

A package registers a function in its ``pyproject.toml``::

    [project.entry-points."tamis.predicates"]
    in_my_list = "my_package.lists:in_my_list"

The function is that of `tamis.opaque`; its attribute ``cost_us``, if it has one, is the declared cost."""

from __future__ import annotations

import functools
import os
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final

from tamis.errors import ConfigError, QueryError
from tamis.name_hints import did_you_mean
from tamis.query import languages
from tamis.query.languages import Function, Query

if TYPE_CHECKING:
    from tamis.engine import Engine

GROUP: Final = "tamis.predicates"
"""The group of entry points."""

_COST_US: Final = 10.0


def registered() -> dict[str, EntryPoint]:
    """Return name -> entry point of every predicate that an installed package registers; none is imported yet."""
    return {point.name: point for point in entry_points(group=GROUP)}


@functools.cache
def load_predicate(name: str) -> Function:
    """Return the function of a registered predicate.

    Raises:
        ConfigError: no package registers the name, or its function cannot be imported or called.
    """
    points = registered()
    if name not in points:
        known = f"registered are: {', '.join(sorted(points))}" if points else "none is registered"
        raise ConfigError(
            f"no installed package registers the predicate '{name}'{did_you_mean(name, points)}; expected an entry "
            f"point of that name in the group '{GROUP}' ({known})"
        )
    try:
        function: Function = points[name].load()
    except Exception as error:  # whatever the user's module raises when it is imported
        where = points[name].value
        raise ConfigError(f"the predicate '{name}' cannot be imported from {where}: {error!r}") from error
    if not callable(function):
        raise ConfigError(f"the predicate '{name}': expected a function, not {type(function).__name__}")
    return function


@functools.cache
def _shared(name: str) -> Query:
    """Return the predicate as a query; one for all queries that name it, so that it is called once per message."""
    function = load_predicate(name)
    return languages.opaque(name, function, cost_us=float(getattr(function, "cost_us", _COST_US)))


def predicate(text: str) -> Query:
    """Return a registered predicate: ``name``, or ``name: selector`` for the messages that satisfy both.

    Raises:
        QueryError: there is no name, or the selector cannot be read.
        ConfigError: see `load_predicate`.
    """
    name, colon, selector = text.partition(":")
    if not name.strip():
        raise QueryError(text, 0, "the name of a registered predicate: `name` or `name: selector`")
    shared = _shared(name.strip())
    return languages.selector(selector.strip()) & shared if colon and selector.strip() else shared


def open_registered(path: str | os.PathLike[str], *, verify: bool = False) -> Engine:
    """Open a snapshot; the expensive predicates that it names are those that installed packages register.

    Args:
        path: the snapshot.
        verify: check every byte.

    Raises:
        ConfigError: it names one that cannot be loaded here.
        SnapshotError: the file is no snapshot, or is damaged.
        OSError: the file cannot be read.
    """
    from tamis.engine import Engine

    functions: dict[str, Function] = {}
    while True:
        try:
            return Engine.open(path, verify=verify, opaque=functions)
        except TypeError as error:  # it names a predicate whose function was not given
            name = str(error).partition("'")[2].rpartition("':")[0]
            if not name or name in functions:
                raise
            functions[name] = load_predicate(name)
