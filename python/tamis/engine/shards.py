"""Cuts queries into shards: snapshot files, and a directory that says which of them a message can match in.

A folder of shards has ``directory.tamis``, and for each shard ``shard-N.tamis``, which any program can open, and
``shard-N.npy``, the positions of its queries among all."""

from __future__ import annotations

import os
import pickle
import random
import re
import tempfile
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np

from tamis._core import Query
from tamis.engine.access import AccessKey, Need, keys_of, need_of, rarest
from tamis.engine.build import build_engine
from tamis.engine.engine import Engine
from tamis.engine.shard_directory import DIRECTORY, DirectoryWriter, Leading
from tamis.errors import ConfigError, TamisError
from tamis.query.file import load_query_file
from tamis.query.hierarchy import Parents, refuse_missing
from tamis.query.rules import compile_rule, each_rule

SHARDS_MAX: Final = 256
"""Maximum number of shards: one file of each is open while they are cut."""

_MARKS: Final = 1 << 22
"""Number of counters for access keys; keys that share one are taken for more frequent than they are."""
_SPOOLED_TOGETHER: Final = 100
_SAMPLE_MAX: Final = 50_000
_ANY_CASE: Final = re.compile(r'ANYCASE\((?:"(?:[^"]|"")*"|[^")]*)\)')


class ShardSummary(NamedTuple):
    """What `write_shards` wrote.

    Attributes:
        queries: number of queries.
        shards: number of shards.
        met_by_all: number of shards that every message meets: their queries have no access key.
    """

    queries: int
    shards: int
    met_by_all: int


def snapshot_path(folder: Path, shard: int) -> Path:
    """Return the path of a shard's snapshot."""
    return folder / f"shard-{shard}.tamis"


def positions_path(folder: Path, shard: int) -> Path:
    """Return the path of the positions of a shard's queries among all: uint64, by subscription id."""
    return folder / f"shard-{shard}.npy"


def write_shards(
    queries: Any,
    folder: str | os.PathLike[str],
    shards: int,
    *,
    hierarchies: Mapping[str, Parents] | None = None,
) -> ShardSummary:
    """Write queries as shards, each a snapshot of about as many, which `tamis.spark.match` takes by their folder.

    Each query is in one shard. Those without an access key (docs/spark.md says which have one) share shards that every
    message meets.

    Args:
        queries: the path of a file of queries, an engine, or what `tamis.query.rules.compile_rules` takes, of which an
            iterator is read once and not kept.
        folder: where they go; it is new or empty.
        shards: number of shards, 1 to `SHARDS_MAX`; fewer if there are fewer queries.
        hierarchies: attribute -> value -> its parent, or None for a root, for UNDER.

    Raises:
        ConfigError: `folder` is not empty; a rule has a wrong form, uses UNDER without a hierarchy, or has the key of
            another.
        QueryError: the text of a rule cannot be read; a note on the error names its key.
        TamisError: a rule is a compiled query with an expensive predicate.
        ValueError: `shards` is out of bounds.
        OSError: the folder cannot be written; nothing remains of it.

    Cost: about 120 µs per query. Memory for the queries of one shard, and 8 bytes for each query of all.
    """
    if not 1 <= shards <= SHARDS_MAX:
        raise ValueError(f"shards: expected 1 to {SHARDS_MAX}, not {shards}")
    target = Path(folder).absolute()
    if target.exists() and any(target.iterdir()):
        raise ConfigError(f"{folder}: expected a new or an empty folder for the shards")
    rules, known = _rules_of(queries, hierarchies or {})
    return cut_shards(each_rule(rules), target, shards, known)


def cut_shards(
    queries: Iterable[tuple[Any, Query | str, str]], target: Path, shards: int, hierarchies: Mapping[str, Parents]
) -> ShardSummary:
    """Write key, query or text, and language of each query as shards: see `write_shards`, which checks the arguments.

    Args:
        queries: with keys of any kind that a snapshot can hold.
        target: an absolute path; the folder is absent or empty.
        shards: number of shards.
        hierarchies: attribute -> value -> its parent.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
        written = Path(scratch, "written")
        written.mkdir()
        summary = _Cutter(Path(scratch), written, hierarchies).cut(queries, shards)
        if target.exists():
            target.rmdir()
        written.rename(target)
    return summary


def _rules_of(queries: Any, hierarchies: Mapping[str, Parents]) -> tuple[Any, Mapping[str, Parents]]:
    if isinstance(queries, Engine):
        return ((key, queries.query(key)) for key in queries), hierarchies
    if isinstance(queries, str | os.PathLike):
        file = load_query_file(Path(queries))
        return file.active_queries(), {**file.trees(), **hierarchies}
    return queries, hierarchies


class _Spooled(NamedTuple):
    """A query that waits in a file.

    Attributes:
        position: its position among all queries.
        key: its key.
        query: the query, or its text.
        language: of the text.
        need: what it needs.
        access_keys: those that lead to it, first the one by which it is filed; none before they are chosen.
    """

    position: int
    key: Any
    query: Query | str
    language: str
    need: Need | None
    access_keys: Sequence[AccessKey] = ()


class _Cutter:
    """Reads queries once into a file, and goes through that file for each further step."""

    def __init__(self, scratch: Path, folder: Path, hierarchies: Mapping[str, Parents]) -> None:
        self._scratch, self._folder, self._hierarchies = scratch, folder, hierarchies
        self._spool = scratch / "queries"
        self._counts = array("Q", bytes(8 * _MARKS))
        self._sample = _Sample()
        self._any_case: set[str] = set()

    def cut(self, queries: Iterable[tuple[Any, Query | str, str]], shards: int) -> ShardSummary:
        """Write the shards and their directory."""
        count = self._read(queries)
        plan = _Plan(count, [self._filed(need)[0].order for need in self._sample.needs()], self._sample.seen, shards)
        self._divide(plan)
        directory = DirectoryWriter(plan.every, self._any_case)
        for shard in range(plan.shards):
            directory.add(shard, *self._write(shard))
        directory.save(self._folder / DIRECTORY)
        return ShardSummary(count, plan.shards, plan.every)

    def _read(self, queries: Iterable[tuple[Any, Query | str, str]]) -> int:
        """Spool the queries, and count their access keys; return the number of queries."""
        hashes = array("q")
        with _Spool(self._spool) as spool:
            for key, query, language in queries:
                compiled = compile_rule(key, query, language)
                refuse_missing([(f"query '{key}'", compiled)], self._hierarchies)
                need = need_of(compiled)
                if need is not None:
                    self._sample.add(need)
                for access_key in keys_of(need):
                    self._counts[access_key.mark % _MARKS] += 1
                self._any_case.update(_ANY_CASE.findall(str(compiled)))
                spool.put(_Spooled(len(hashes), key, query, language, need))
                hashes.append(hash(key))
        self._refuse_doubles(hashes)
        return len(hashes)

    def _refuse_doubles(self, hashes: array[int]) -> None:
        """Refuse two queries with one key."""
        values, counts = np.unique(np.frombuffer(hashes, np.int64), return_counts=True)
        suspected: set[int] = set(values[counts > 1].tolist())
        seen = set()
        for it in _spooled(self._spool) if suspected else ():
            if it.key in seen:
                raise ConfigError(f"query '{it.key}': the key occurs twice; expected each key once")
            if hash(it.key) in suspected:
                seen.add(it.key)

    def _filed(self, need: Need) -> list[AccessKey]:
        """Return the access keys of a query, first the one by which it is filed: that which most queries have."""
        return sorted(rarest(need, self._count_of), key=self._count_of, reverse=True)

    def _count_of(self, access_key: AccessKey) -> int:
        return self._counts[access_key.mark % _MARKS]

    def _divide(self, plan: _Plan) -> None:
        """Spool the queries of each shard in a file of its own."""
        with ExitStack() as stack:
            files = [stack.enter_context(_Spool(self._part(shard))) for shard in range(plan.shards)]
            for it in _spooled(self._spool):
                keys = [] if it.need is None else self._filed(it.need)
                files[plan.shard_of(keys[0].order if keys else None)].put(it._replace(need=None, access_keys=keys))
        self._spool.unlink()

    def _write(self, shard: int) -> tuple[Engine, Leading]:
        """Write a shard; return its engine, and what leads to it."""
        pairs, positions, leading = [], array("Q"), Leading()
        for it in _spooled(self._part(shard)):
            pairs.append((it.key, compile_rule(it.key, it.query, it.language)))
            positions.append(it.position)
            leading.add(it.access_keys)
        self._part(shard).unlink()
        engine = build_engine(pairs, self._hierarchies)
        engine.save(snapshot_path(self._folder, shard), opaque="names")
        np.save(positions_path(self._folder, shard), np.frombuffer(positions, np.uint64))
        return engine, leading

    def _part(self, shard: int) -> Path:
        return self._scratch / f"queries-{shard}"


class _Spool:
    """A file to which queries are written, some at a time; a context manager that closes it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._waiting: list[_Spooled] = []

    def put(self, it: _Spooled) -> None:
        """Write a query."""
        if isinstance(it.query, Query) and (opaques := it.query.opaques()):
            raise TamisError(
                f"query '{it.key}': the expensive predicate '{opaques[0][0]}' is a function of this program; register "
                "it, and give the query as text"
            )
        self._waiting.append(it)
        if len(self._waiting) == _SPOOLED_TOGETHER:
            self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._file:
            self._write()

    def _write(self) -> None:
        pickle.dump([tuple(it) for it in self._waiting], self._file, pickle.HIGHEST_PROTOCOL)
        self._waiting.clear()


def _spooled(path: Path) -> Iterator[_Spooled]:
    with path.open("rb") as file:
        while file.peek(1):
            part = pickle.load(file)  # noqa: S301 - this process has written it, into a folder of its own
            yield from map(_Spooled._make, part)


class _Sample:
    """What queries need, of all or of some thousand that are chosen by chance, each with the same probability.

    They are kept as bytes: Python's garbage collector would look at millions of small objects again and again.

    Attributes:
        seen: number of queries that were added.
    """

    def __init__(self) -> None:
        self.seen = 0
        self._needs: list[bytes] = []
        self._chance = random.Random(0)  # noqa: S311 - the same queries give the same shards

    def add(self, need: Need) -> None:
        """Add what a query needs."""
        self.seen += 1
        if len(self._needs) < _SAMPLE_MAX:
            self._needs.append(pickle.dumps(need))
        elif (place := int(self._chance.random() * self.seen)) < _SAMPLE_MAX:
            self._needs[place] = pickle.dumps(need)

    def needs(self) -> Iterator[Need]:
        """Yield what the chosen queries need."""
        return map(pickle.loads, self._needs)


class _Plan:
    """Says which shard a query goes to.

    Queries with an access key are in its order: each shard has those between two bounds, so that the values that lead
    to it are a range. A value that fills several shards leads to all of them.

    Args:
        count: number of queries.
        orders: those of the keys by which a sample of queries is filed.
        keyed: number of queries with an access key.
        shards: number of shards that are wanted.

    Attributes:
        every: number of shards that every message meets, which come first.
        shards: number of shards.
    """

    def __init__(self, count: int, orders: list[bytes], keyed: int, shards: int) -> None:
        self.every = _met_by_all(count - keyed, keyed, shards)
        others = min(shards - self.every, keyed)
        self.shards = self.every + others
        orders = sorted(orders)
        self._bounds = [orders[len(orders) * part // others] for part in range(1, others)]
        self._placed = 0

    def shard_of(self, order: bytes | None) -> int:
        """Return the shard of the next query: by the order of the key by which it is filed, or None without one."""
        self._placed += 1
        if order is None or self.every == self.shards:
            return self._placed % self.every
        first, last = bisect_left(self._bounds, order), bisect_right(self._bounds, order)
        return self.every + (first + self._placed % (last - first + 1) if last - first > 1 else last)


def _met_by_all(unkeyed: int, keyed: int, shards: int) -> int:
    """Return how many of the shards are for queries without access key, so that all shards are about as large."""
    if not unkeyed:
        return 0
    if not keyed or shards == 1:
        return min(shards, unkeyed)
    return min(unkeyed, max(1, min(shards - 1, round(shards * unkeyed / (unkeyed + keyed)))))
