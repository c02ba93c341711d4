"""Files of queries, compiled; every query that cannot be read is reported, not only the first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.errors import ConfigError, QueryError, TamisError

if TYPE_CHECKING:
    from tamis.engine import Engine
    from tamis.query import Query, QuerySpec


SNAPSHOT_MAGIC = b"TAMIS\r\n\x1a"
SQLITE_MAGIC = b"SQLite format 3\0"


@dataclass(frozen=True)
class BadQuery:
    """A query that cannot be read: where it stands, and why not."""

    path: str
    spec: QuerySpec
    error: Exception

    def __str__(self) -> str:
        """Place, key, and the error with its caret."""
        place = f"{self.path}, line {self.spec.line}" if self.spec.line else self.path
        return f"{place}, query '{self.spec.key}': {self.error}"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return {"file": self.path, "line": self.spec.line, "key": self.spec.key, **describe(self.error)}


def describe(error: Exception) -> dict[str, Any]:
    """An error as plain values; a `QueryError` with its text, position and what was expected."""
    if isinstance(error, QueryError):
        place = {"text": error.text, "position": error.position, "expected": error.expected, "hint": error.hint}
        return {"message": error.summary, **place}
    return {"message": str(error)}


def compile_all(specs: list[QuerySpec], path: str | Path) -> tuple[list[tuple[QuerySpec, Query]], list[BadQuery]]:
    """The queries that can be read, and those that cannot."""
    good: list[tuple[QuerySpec, Query]] = []
    bad: list[BadQuery] = []
    for spec in specs:
        try:
            good.append((spec, spec.compile()))
        except (QueryError, TamisError, ValueError) as error:
            bad.append(BadQuery(str(path), spec, error))
    return good, bad


def load_engine(path: Path) -> tuple[Engine, list[Any]]:
    """An engine with every query of a file, a store or a snapshot, and their keys in order.

    Raises:
        ConfigError: the file cannot be read, or a query in it; all of them are named.
        StoreError: a store that cannot be read.
        SnapshotError: a damaged snapshot.
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


def _begin(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_MAGIC))
    except OSError:
        return b""  # whoever reads it as a file of queries says what is wrong


def _specs(path: Path, begin: bytes) -> list[QuerySpec]:
    from tamis.query import QuerySpec, load_queries

    if begin != SQLITE_MAGIC:
        return load_queries(path)
    from tamis.store import Store

    with Store.open(path, create=False) as store:
        return [QuerySpec(it.key, it.text, it.language, it.owner) for it in store.list_queries()]
