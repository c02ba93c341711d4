"""Loads queries from files, stores and snapshots; reports every query that cannot be parsed, not only the first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.errors import ConfigError, QueryError, TamisError
from tamis.name_hints import nearest

if TYPE_CHECKING:
    from tamis.engine import Engine
    from tamis.query import Query, QuerySpec


SNAPSHOT_MAGIC = b"TAMIS\r\n\x1a"
SQLITE_MAGIC = b"SQLite format 3\0"


@dataclass(frozen=True)
class BadQuery:
    """A query that cannot be parsed: its file and line, and the error."""

    path: str
    spec: QuerySpec
    error: Exception

    def __str__(self) -> str:
        """Return file and line, key, and the error with its caret."""
        where = f"{self.path}, line {self.spec.line}" if self.spec.line else self.path
        return f"{where}, query '{self.spec.key}': {self.error}"

    def to_dict(self) -> dict[str, Any]:
        """Return the same as a dict for JSON."""
        return {"file": self.path, "line": self.spec.line, "key": self.spec.key, **describe(self.error)}


def describe(error: Exception) -> dict[str, Any]:
    """Return an error as a dict; for a `QueryError`, with text, position and what was expected."""
    if isinstance(error, QueryError):
        details = {"text": error.text, "position": error.position, "expected": error.expected, "hint": error.hint}
        return {"message": error.summary, **details}
    return {"message": str(error)}


def compile_all(specs: list[QuerySpec], path: str | Path) -> tuple[list[tuple[QuerySpec, Query]], list[BadQuery]]:
    """Return the queries that can be parsed, and those that cannot."""
    good: list[tuple[QuerySpec, Query]] = []
    bad: list[BadQuery] = []
    for spec in specs:
        try:
            good.append((spec, spec.compile()))
        except (QueryError, TamisError, ValueError) as error:
            bad.append(BadQuery(str(path), spec, error))
    return good, bad


def load_engine(path: Path) -> tuple[Engine, list[Any]]:
    """Return an engine with every query of a file, a store or a snapshot, and the keys in order.

    Raises:
        ConfigError: the file cannot be read, or some queries in it, which are all named.
        StoreError: the store cannot be read.
        SnapshotError: the snapshot is damaged.
    """
    from tamis import Engine

    begin = _begin(path)
    if begin.startswith(SNAPSHOT_MAGIC):
        engine = Engine.open(path)
        return engine, engine.all_keys()
    good, bad = compile_all(_specs(path, begin), path)
    if bad:
        raise ConfigError("\nerror: ".join(map(str, bad)))
    engine = Engine()
    engine.add_many((spec.key, query) for spec, query in good)
    return engine, [spec.key for spec, _ in good]


def key_named(name: str, keys: Iterable[Any], path: Path) -> Any:
    """Return the key whose text is `name`.

    Raises:
        TamisError: there is none; the text has the nearest one.
    """
    known = {str(key): key for key in keys}
    if name not in known:
        near = nearest(name, known)
        raise TamisError(f"{path}: no query has the key '{name}'" + (f"; did you mean '{near}'?" if near else ""))
    return known[name]


def _begin(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_MAGIC))
    except OSError:
        return b""  # reading it as a file of queries will explain the error


def _specs(path: Path, begin: bytes) -> list[QuerySpec]:
    from tamis.query import QuerySpec, load_queries

    if begin != SQLITE_MAGIC:
        return load_queries(path)
    from tamis.store import Store

    with Store.open(path, create=False) as store:
        return [QuerySpec(it.key, it.text, it.language, it.owner) for it in store.list_queries()]
