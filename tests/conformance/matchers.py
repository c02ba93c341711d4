"""Every way in which the project matches, behind one function: queries and a message in, the keys that are true out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import tamis
from tamis.reference import Bdd, BeTree, BruteForce, CacheableUnits, Grouped, KIndex

Queries = Mapping[Any, tamis.Query]


class Matcher(Protocol):
    """What all of them have in common."""

    def match(self, properties: Any = None, topic: str = "", body: Any = None) -> list[Any]:
        """The keys of all queries that are true."""


class _QueryByQuery:
    """The compiled query itself, without any engine."""

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
    """An engine of what the canonical text of each query reads as."""
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
"""Name -> what makes one of some queries."""
