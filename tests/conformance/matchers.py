"""Offers every matcher of the project through one interface: given queries and a message, it returns true keys."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import tamis
from tamis.reference import Bdd, BeTree, BruteForce, CacheableUnits, Grouped, KIndex

Queries = Mapping[Any, tamis.Query]


class Matcher(Protocol):
    """The common interface of all matchers."""

    def match(self, properties: Any = None, topic: str = "", body: Any = None) -> list[Any]:
        """Return the keys of all queries that are true."""


class _QueryByQuery:
    """Evaluates compiled queries, without any engine."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def match(self, properties: Any = None, topic: str = "", body: Any = None) -> list[Any]:
        return [key for key, query in self._queries.items() if query.evaluate(properties, topic, body) is True]


class _Reference(Matcher, Protocol):
    """One of the papers' algorithms."""

    def add(self, key: Any, query: tamis.Query) -> None:
        """Add a query."""


def _reference(kind: Callable[[], _Reference]) -> Callable[[Queries], Matcher]:
    def make(queries: Queries) -> Matcher:
        matcher = kind()
        for key, query in queries.items():
            matcher.add(key, query)
        return matcher

    return make


def _engine(queries: Queries) -> tamis.Engine:
    engine = tamis.Engine()
    engine.add_many(queries.items())
    return engine


def _opened(queries: Queries) -> tamis.Engine:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "queries.tamis")
        _engine(queries).save(path)
        return tamis.Engine.open(path)  # mapped: the name may go, the pages stay


def _from_text(queries: Queries) -> tamis.Engine:
    """Return an engine of queries that are parsed again from their canonical text."""
    return _engine({key: tamis.selector(str(query)) for key, query in queries.items()})


MATCHERS: dict[str, Callable[[Queries], Matcher]] = {
    "query": _QueryByQuery,
    "engine": _engine,
    "opened engine": _opened,
    "engine of canonical text": _from_text,
    "brute force": _reference(BruteForce),
    "cacheable units": _reference(CacheableUnits),
    "grouped": _reference(Grouped),
    "k-index": _reference(KIndex),
    "BE-tree": _reference(BeTree),
    "BDD": _reference(Bdd),
}
"""Name -> a function that makes the matcher of given queries."""
