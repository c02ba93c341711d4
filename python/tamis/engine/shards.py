"""Cuts queries into shards: snapshot files, and a directory that says which of them a message can match in.

The directory is a snapshot, too. It has the access keys of each shard as queries, lists of values or ranges, so that
what a message meets is decided by the code that matches it: numbers, lists and dotted names mean the same in both.

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
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tamis._core import Query
from tamis.engine.access import AccessKey, Need, keys_of, need_of, quoted, rarest
from tamis.engine.build import build_engine
from tamis.engine.engine import Engine
from tamis.errors import ConfigError, SnapshotError, TamisError
from tamis.query.file import load_query_file
from tamis.query.hierarchy import Parents, refuse_missing
from tamis.query.languages import selector
from tamis.query.predicates import open_registered, predicate
from tamis.query.rules import compile_rule, each_rule

if TYPE_CHECKING:
    import pyarrow as pa

DIRECTORY: Final = "directory.tamis"
SHARDS_MAX: Final = 256
"""Maximum number of shards: one file of each is open while they are cut."""

_MARKS: Final = 1 << 22
"""Number of counters for access keys; keys that share one are taken for more frequent than they are."""
LISTED_MAX = 1_000
"""Maximum number of values of a property that the directory lists for a shard; it has the range of more."""
_PART_BYTES_MAX: Final = 32 * 1024
_SPOOLED_TOGETHER: Final = 1_000
_SAMPLE_MAX: Final = 50_000
_LAST, _BEFORE_SURROGATES, _AFTER_SURROGATES = "\U0010ffff", "\ud7ff", "\ue000"
_PART_MAX: Final = 500
_NO_VALUE: Final = "'tamis: no message has this value'"
_EVERY, _KEY, _ASKED = "every", "key", "asked"
"""The kinds of queries in the directory: true of every message; with access keys; never true, but asking for parts."""
_ANY_CASE: Final = re.compile(r'ANYCASE\((?:"(?:[^"]|"")*"|[^")]*)\)')

Numbers = npt.NDArray[np.int64]


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

    Cost: about 100 µs per query. Memory for the queries of one shard, and 8 bytes for each query of all.
    """
    if not 1 <= shards <= SHARDS_MAX:
        raise ValueError(f"shards: expected 1 to {SHARDS_MAX}, not {shards}")
    target = Path(folder).absolute()
    if target.exists() and any(target.iterdir()):
        raise ConfigError(f"{folder}: expected a new or an empty folder for the shards")
    rules, known = _rules_of(queries, hierarchies or {})
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
        written = Path(scratch, "written")
        written.mkdir()
        summary = _Cutter(Path(scratch), written, known).cut(rules, shards)
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
    key: str
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

    def cut(self, rules: Any, shards: int) -> ShardSummary:
        """Write the shards and their directory."""
        count = self._read(rules)
        plan = _Plan(count, [self._filed(need)[0].order for need in self._sample.needs], self._sample.seen, shards)
        self._divide(plan)
        directory = _DirectoryWriter(plan.every, self._any_case)
        for shard in range(plan.shards):
            directory.add(shard, *self._write(shard))
        directory.save(self._folder / DIRECTORY)
        return ShardSummary(count, plan.shards, plan.every)

    def _read(self, rules: Any) -> int:
        """Spool the queries, and count their access keys; return the number of queries."""
        hashes = array("q")
        with _Spool(self._spool) as spool:
            for key, query, language in each_rule(rules):
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

    def _write(self, shard: int) -> tuple[Engine, _Leading]:
        """Write a shard; return its engine, and what leads to it."""
        pairs, positions, leading = [], array("Q"), _Leading()
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
    """A file to which queries are written, some thousand at a time; a context manager that closes it."""

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

    Attributes:
        needs: of the chosen queries.
        seen: number of queries that were added.
    """

    def __init__(self) -> None:
        self.needs: list[Need] = []
        self.seen = 0
        self._chance = random.Random(0)  # noqa: S311 - the same queries give the same shards

    def add(self, need: Need) -> None:
        """Add what a query needs."""
        self.seen += 1
        if len(self.needs) < _SAMPLE_MAX:
            self.needs.append(need)
        elif (place := int(self._chance.random() * self.seen)) < _SAMPLE_MAX:
            self.needs[place] = need


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


class _DirectoryWriter:
    """Makes the queries of a directory."""

    def __init__(self, every: int, any_case: Iterable[str]) -> None:
        self._every = every
        self._pairs: list[tuple[Any, Query]] = []
        self._asked = set(any_case)
        self._expensive: set[str] = set()

    def add(self, shard: int, engine: Engine, leading: _Leading) -> None:
        """Add what leads to a shard, and what its queries ask for."""
        _, topic, body = engine.asked(())
        self._asked.update(map(quoted, engine.names()), ["topic"] * topic, ["body"] * body)
        self._expensive.update(engine.expensive())
        if shard < self._every:
            self._pairs.append(((_EVERY, shard), selector("TRUE")))
            return
        self._pairs += (((_KEY, shard, number), it) for number, it in enumerate(leading.queries()))

    def save(self, path: Path) -> None:
        """Write the directory.

        It asks for every part of a message for which a shard asks, so that a row that cannot be read is found here.
        """
        tests = [f"{name} = {_NO_VALUE}" for name in sorted(self._asked)]
        asking = [selector(" AND ".join(part)) for part in _parts(tests)]
        asking += [selector("FALSE") & predicate(name) for name in sorted(self._expensive)]
        engine: Engine = Engine()
        engine.add_many([*self._pairs, *(((_ASKED, number), it) for number, it in enumerate(asking))])
        engine.save(path, opaque="names")


class _Leading:
    """The access keys that lead to a shard, by property and kind, and whether queries are filed by them."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, bool], _Values] = {}

    def add(self, access_keys: Iterable[AccessKey]) -> None:
        """Add those of a query, of which the first is the one by which it is filed."""
        for number, key in enumerate(access_keys):
            self._values.setdefault((key.name, key.kind, number == 0), _Values()).add(key)

    def queries(self) -> Iterator[Query]:
        """Yield queries of which one is true when one of the access keys holds."""
        for _, values in sorted(self._values.items()):
            yield from map(selector, values.conditions())


class _Values:
    """Access keys of one property and kind: all of them while they are few, or the range in which they are."""

    def __init__(self) -> None:
        self._listed: set[str] | None = set()
        self._low: AccessKey | None = None
        self._high: AccessKey | None = None

    def add(self, key: AccessKey) -> None:
        self._low = key if self._low is None else min(self._low, key, key=_value)
        self._high = key if self._high is None else max(self._high, key, key=_value)
        if self._listed is not None:
            self._listed.add(key.text)
            if len(self._listed) > LISTED_MAX and key.kind != "boolean":  # these have no ranges
                self._listed = None

    def conditions(self) -> Iterator[str]:
        """Yield selectors of which one is true when one of the keys holds."""
        low, high = self._low, self._high
        if low is None or high is None:
            return
        if low.kind == "topic":
            yield from sorted(self._listed) if self._listed is not None else [_topics(low.value, high.value)]
        elif self._listed is None:
            yield f"{low.name} BETWEEN {low.text} AND {high.text}"
        else:
            for part in _parts(sorted(self._listed)):
                yield f"{low.name} IN ({', '.join(part)})"


def _value(key: AccessKey) -> Any:
    return key.value


def _topics(low: str, high: str) -> str:
    """Return a test for the topics from `low` to those that begin with `high`."""
    from_low = f"topic >= {_literal(low)}"
    end = high.rstrip(_LAST)
    if not end:
        return from_low
    following = chr(ord(end[-1]) + 1) if end[-1] != _BEFORE_SURROGATES else _AFTER_SURROGATES
    return f"{from_low} AND topic < {_literal(end[:-1] + following)}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _parts(texts: Iterable[str]) -> Iterator[list[str]]:
    """Cut texts into lists that fit into a query."""
    part: list[str] = []
    size = 0
    for text in texts:
        if part and (len(part) == _PART_MAX or size + len(text) > _PART_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text.encode()) + 8
    if part:
        yield part


class ShardDirectory:
    """Says in which shards a message can match.

    Args:
        path: the directory of a folder of shards.

    Attributes:
        every: number of shards that every message meets; they come first.
        shards: number of shards.

    Raises:
        SnapshotError: the file is damaged, or is no directory.
        OSError: it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._engine = open_registered(path)
        self.asked = self._engine.asked
        keys = self._engine.all_keys()
        ids = self._engine.ids(keys)
        self._shard_of = np.full(max(ids, default=0) + 1, -1, np.int64)  # by id
        self.every = 0
        for number, key in zip(ids, keys, strict=True):
            match key:
                case (str(kind), int(shard), *_) if kind in (_EVERY, _KEY):
                    self._shard_of[number] = shard
                    self.every += kind == _EVERY
                case (str(kind), *_) if kind == _ASKED:
                    pass
                case _:
                    raise SnapshotError(
                        f"{path}: expected the directory of a folder of shards, and it has a key {key!r}"
                    )
        self.shards = int(self._shard_of.max()) + 1

    def route(self, table: Any, *, errors: Literal["raise", "null"] = "raise") -> pa.StructArray:
        """Return the shards in which each row of an Arrow table can match: struct<shards: list<int32>, error: string>.

        Args:
            table: as for `Engine.match_batch`.
            errors: of a row that cannot be read: it raises an error; or its shards are null, and the reason is in
                ``error``.

        Raises:
            TypeError, ValueError: as `Engine.match_batch`.
        """
        import pyarrow as pa

        if errors == "raise":
            ids = self._engine.match_batch(table)
            reasons = pa.nulls(len(ids), pa.string())
        else:
            found = self._engine.match_batch(table, errors="column")
            ids, reasons = found.field("ids"), found.field("error")
        shards = _shard_lists(ids, self._shard_of, self.shards)
        return pa.StructArray.from_arrays([shards, reasons], names=["shards", "error"])


def _shard_lists(ids: Any, shard_of: Numbers, shards: int) -> Any:
    """Return the distinct shards for each list of ids, ascending; null where that is null."""
    import pyarrow as pa

    lengths = np.diff(ids.offsets.to_numpy())
    found = shard_of[ids.values.to_numpy()]
    pairs = np.repeat(np.arange(len(ids)), lengths) * max(shards, 1) + found
    pairs = np.unique(pairs[found >= 0])
    rows, numbers = np.divmod(pairs, max(shards, 1))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(ids)))]).astype(np.int32)
    mask = ids.is_null() if ids.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(numbers.astype(np.int32)), mask=mask)
