"""Loads queries from files, stores and snapshots; reports every query that cannot be parsed, not only the first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.cli import output
from tamis.cli.input_kinds import SQLITE_MAGIC
from tamis.errors import ConfigError, QueryError, TamisError
from tamis.name_hints import nearest
from tamis.store_place import Place, ServerUrl

if TYPE_CHECKING:
    from tamis.engine import Engine
    from tamis.query import Query, QuerySpec
    from tamis.query.hierarchy import Parents


SNAPSHOT_MAGIC = b"TAMIS\r\n\x1a"


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


def hierarchies_given(wanted: Sequence[str] | None) -> dict[str, Parents]:
    """Return the hierarchies that `--hierarchy ATTRIBUTE=FILE` names.

    Raises:
        ConfigError: one has another form, or its file holds no hierarchy.
    """
    from tamis.query.hierarchy import read_parents

    hierarchies: dict[str, Parents] = {}
    for text in wanted or ():
        attribute, equals, file = text.partition("=")
        if not equals or not attribute or not file:
            raise ConfigError(f"--hierarchy: expected ATTRIBUTE=FILE, not '{text}'")
        hierarchies[attribute] = read_parents(Path(file))
    return hierarchies


def compile_all(
    specs: Sequence[QuerySpec], path: str | Path, hierarchies: Mapping[str, Parents]
) -> tuple[list[tuple[QuerySpec, Query]], list[BadQuery]]:
    """Return the queries that can be used, and those that cannot."""
    from tamis.query.hierarchy import missing

    good: list[tuple[QuerySpec, Query]] = []
    bad: list[BadQuery] = []
    for spec in specs:
        try:
            query = spec.compile()
            if problem := missing(query, hierarchies):
                raise ConfigError(problem)
            good.append((spec, query))
        except (QueryError, TamisError, ValueError) as error:
            bad.append(BadQuery(str(path), spec, error))
    return good, bad


def load_engine(
    path: Path, hierarchy: Sequence[str] | None = None, *, only_active: bool = False
) -> tuple[Engine, list[Any]]:
    """Return an engine with every query and hierarchy of a file, a store or a snapshot, and the keys in order.

    Args:
        path: the file, store or snapshot.
        hierarchy: the arguments of `hierarchies_given`; they replace the hierarchies of `path`.
        only_active: leave out the queries that are paused or expired, with a word about it.

    Raises:
        ConfigError: the file cannot be read, or some queries in it cannot be used, which are all named.
        StoreError: the store cannot be read.
        SnapshotError: the snapshot is damaged.
    """
    from tamis.engine.build import build_engine

    given = hierarchies_given(hierarchy)
    if is_snapshot(path):
        engine = open_snapshot(path, given)
        return engine, engine.all_keys()
    specs, held = read_queries(path)
    hierarchies = {**held, **given}
    good, bad = compile_all(specs, path, hierarchies)
    if bad:
        raise ConfigError("\nerror: ".join(map(str, bad)))
    if only_active:
        good = _only_active(good)
    engine = build_engine(((spec.key, query) for spec, query in good), hierarchies)
    return engine, [spec.key for spec, _ in good]


def open_snapshot(path: Path, hierarchies: Mapping[str, Parents], *, verify: bool = False) -> Engine[Any]:
    """Return the engine of a snapshot, with these hierarchies instead of its own.

    Args:
        path: the snapshot.
        hierarchies: attribute -> child -> parent.
        verify: check every byte.

    Raises:
        ConfigError: it names a predicate that cannot be loaded here.
        SnapshotError: it is damaged.
    """
    from tamis.query.predicates import open_registered

    engine = open_registered(path, verify=verify)
    for attribute, parents in hierarchies.items():
        engine.hierarchy(attribute, parents)
    return engine


def _only_active(queries: list[tuple[QuerySpec, Query]]) -> list[tuple[QuerySpec, Query]]:
    active = [(spec, query) for spec, query in queries if spec.is_active()]
    if left_out := len(queries) - len(active):
        output.warning(f"{output.counted(left_out, 'query', 'queries')} left out: paused or expired")
    return active


def refuse_unknown_hierarchies(query: Query, path: Path, hierarchy: Sequence[str] | None) -> None:
    """Refuse a query with UNDER that goes beside those of a file or store without the hierarchy that it asks for.

    A snapshot does not say which hierarchies it has.

    Raises:
        ConfigError: the text names the attribute.
    """
    from tamis.query.hierarchy import missing

    if query.hierarchies and not is_snapshot(path):
        known = {**read_queries(path)[1], **hierarchies_given(hierarchy)}
        if problem := missing(query, known):
            raise ConfigError(problem)


def read_queries(path: Place) -> tuple[Sequence[QuerySpec], dict[str, Parents]]:
    """Return the queries, not compiled, and the hierarchies of a file or a store.

    Raises:
        ConfigError: the file cannot be read.
        StoreError: the store cannot be read.
    """
    from tamis.query import load_query_file

    if isinstance(path, Path) and not is_store(path):
        file = load_query_file(path)
        return file.queries, file.trees()
    from tamis.store import Store

    with Store.open(path, create=False) as store:
        specs = [record.spec() for record in store.list_queries()]
        return specs, {it.attribute: it.parents for it in store.list_hierarchies()}


def is_store(path: Place) -> bool:
    """Return whether a file is a store, or at least a database; that of a server is one."""
    return isinstance(path, ServerUrl) or _begin(path) == SQLITE_MAGIC


def is_snapshot(path: Path) -> bool:
    """Return whether a file is a snapshot."""
    return _begin(path).startswith(SNAPSHOT_MAGIC)


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
