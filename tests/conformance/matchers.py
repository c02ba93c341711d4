"""Every way in which the project matches, behind one function: queries and a message in, the keys that are true out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import tamis
from tamis.reference import BruteForce

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


def _brute_force(queries: Queries) -> Matcher:
    matcher = BruteForce()
    for key, query in queries.items():
        matcher.add(key, query)
    return matcher


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
    "brute force": _brute_force,
    "engine": _engine,
    "opened engine": _opened,
    "engine of canonical text": _from_text,
}
"""Name -> what makes one of some queries."""
