"""Matches Arrow batches of messages inside Spark's Python workers.

It imports as little as possible, and not Spark, because every worker process pays for its imports."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis import Engine
from tamis._core import read_messages
from tamis.engine.replica import EngineChange, apply_change
from tamis.errors import SnapshotError
from tamis.query.predicates import open_registered
from tamis.spark.matching.parts import check_new, columns_by_name, wanted

if TYPE_CHECKING:
    from tamis.spark.matching.shards.engine import ShardedEngine

Errors = Literal["raise", "null", "column"]

ENGINES_MAX = 4
"""Maximum number of snapshots that a worker process keeps open; the least recently used is closed first."""

KEYS_KEPT_MAX = 1_000_000
"""Number of keys for each snapshot beyond which all are forgotten before the next Arrow batch."""

ID_MAX = 1 << 26
"""Subscription ids from this one on, of engines that have seen so many changes, have their keys read for each batch."""

TIMED_ROWS_MAX = 100
"""Maximum number of messages of an Arrow batch that are timed one by one."""

_PREDICATE = pa.struct([("text", pa.string()), ("value", pa.string()), ("result", pa.bool_())])
_EXPLAINED = pa.struct(
    [("result", pa.bool_()), ("predicates", pa.list_(_PREDICATE)), ("missing", pa.list_(pa.string()))]
)


State = tuple[str, tuple[bytes, ...]]
"""An engine's state: the path of a snapshot here, and the changes since then (`tamis.engine.replica`), oldest first."""
Location = Callable[[], str]
"""Called in a worker; returns the path of a file there."""
ShardFiles = tuple[Location, Sequence[Location], Sequence[Location]]
"""The directory, and the snapshot and the positions of each shard; called in a worker, each returns a path there."""
ShardState = tuple[ShardFiles, bytes, bytes, State | None]
"""The state of queries in shards: the arguments of `tamis.spark.matching.shards.engine.ShardedEngine`."""
AnyState = State | ShardState
"""The state of an engine, or of queries in shards."""


def here(path: str | Path) -> Location:
    """Return the location of a file that has the same path in workers. It is sent by value, without tamis."""
    return functools.partial(str, path)


def read_state(path: str) -> AnyState:
    """Return the state that is in a file now, which `tamis.spark.matching.following` writes.

    Cost: 2 µs if the file is the one that was read last.
    """
    status = os.stat(path)  # noqa: PTH116 - once per batch, and pathlib takes four times as long
    return _read_state(path, status.st_ino, status.st_mtime_ns)


@functools.lru_cache(maxsize=ENGINES_MAX)
def _read_state(path: str, _inode: int, _mtime_ns: int) -> AnyState:
    state = json.loads(Path(path).read_text(encoding="utf-8"))
    if "directory" not in state:
        return _one_file(state)
    files = here(state["directory"]), list(map(here, state["snapshots"])), list(map(here, state["positions"]))
    return files, bytes.fromhex(state["gone"]), state["hierarchies"].encode(), _one_file(state["changed"])


def _one_file(state: dict[str, Any]) -> State:
    return state["path"], tuple(change.encode() for change in state["changes"])


def open_engine(state: State) -> Engine:
    """Return the engine in a state. The snapshot is mapped once per process as long as the file stays the same.

    A change is applied once per process. It is the same for all states of a snapshot that have so many changes.

    Raises:
        SnapshotError: the file is absent, or is no snapshot.
        ConfigError: it names an expensive predicate that no package installed here registers.

    Cost: 2 µs if it is open already, and a few µs for each changed query; else 0.2 ms and one check of the whole index.
    """
    path, changes = state
    try:
        status = os.stat(path)  # noqa: PTH116 - once per batch, and pathlib takes four times as long
    except OSError as error:
        raise SnapshotError(f"{path}: the snapshot of the queries cannot be read here: {error.strerror}") from error
    return _opened(path, status.st_ino, status.st_mtime_ns).after(changes)


@functools.lru_cache(maxsize=ENGINES_MAX)
def _opened(path: str, _inode: int, _mtime_ns: int) -> _Opened:
    return _Opened(path)


class _Opened:
    """A snapshot that is mapped, and the engine that changes have made of it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._open()

    def after(self, changes: Sequence[bytes]) -> Engine:
        """Return the engine after some changes; if it has more of them already, it is opened again."""
        if len(changes) < self._count:
            self._open()
        for change in changes[self._count :]:
            apply_change(self._engine, EngineChange.decode(change))
            self._count += 1
        return self._engine

    def _open(self) -> None:
        self._engine, self._count = open_registered(self._path), 0
        self._engine.match({})  # the first match checks the whole index: the time of no message should include that


def engine_in(state: AnyState) -> Engine | ShardedEngine:
    """Return the engine in a state, or what matches as one in shards.

    Raises:
        As `open_engine`.
    """
    if len(state) == 2:
        return open_engine(state)
    from tamis.spark.matching.shards.engine import open_sharded

    return open_sharded(state)


def match_rows(
    state: AnyState,
    names: Sequence[str],
    columns: Sequence[pa.Array],
    *,
    ids: bool = False,
    errors: Errors = "raise",
) -> pa.Array:
    """Return the subscriptions that each row satisfies: list<string>, their keys.

    Args:
        state: the state of the engine.
        names: the names of the columns: ``properties``, and perhaps ``topic`` and ``body``; or those of properties.
        columns: one array per name, all of the same length.
        ids: list<int64>, their ids, instead.
        errors: the errors of a row that cannot be read: it ends the batch, is null, or is null with its reason, as
            struct<matched, error: string>.

    Raises:
        TypeError: a key is not text.
        ValueError: a row cannot be read, and `errors` says raise.
    """
    engine = engine_in(state)
    result = engine.match_batch(pa.Table.from_arrays(list(columns), names=list(names)), errors=errors)
    found = result.field("ids") if errors == "column" else result
    matched = _signed(found) if ids else _keys(engine, found)
    if errors != "column":
        return matched
    return pa.StructArray.from_arrays([matched, result.field("error")], names=["matched", "error"])


def match_message(state: AnyState, message: pa.Array, *, ids: bool = False, errors: Errors = "raise") -> pa.Array:
    """Match messages in one column: a struct of all parts, or what is allowed for ``properties``."""
    if not pa.types.is_struct(message.type) or {field.name for field in message.type} == {"value", "metadata"}:
        return match_rows(state, ["properties"], [message], ids=ids, errors=errors)
    names = [field.name for field in message.type]
    return match_rows(state, names, message.flatten(), ids=ids, errors=errors)


def match_whole(
    state: AnyState,
    _: Sequence[str],
    columns: Sequence[pa.Array],
    *,
    new: Sequence[str],
    is_exact: bool,
    **options: Any,
) -> pa.Array:
    """Match rows whose columns the driver did not see: one column, a struct of all of them.

    Args:
        new: the names of the columns that the match adds.
        is_exact: whether Spark tells names apart that differ in case only.
        options: those of `match_rows`.

    Raises:
        TamisError: a row has one of these columns already, or two that are the same part of a message.
    """
    names, parts = _parts_of(columns[0], new, engine_in(state), is_exact)
    return match_rows(state, names, parts, **options)


def explain_whole(
    state: State, _: Sequence[str], columns: Sequence[pa.Array], *, new: Sequence[str], is_exact: bool, key: str
) -> pa.Array:
    """Explain rows whose columns the driver did not see, as `match_whole` matches them."""
    names, parts = _parts_of(columns[0], new, open_engine(state), is_exact)
    return explain_rows(state, names, parts, key=key)


def _parts_of(row: pa.StructArray, new: Sequence[str], engine: Any, is_exact: bool) -> tuple[list[str], list[pa.Array]]:
    """Return the parts of messages that queries ask for, as `message_columns` does where columns are seen."""
    columns = dict(zip((field.name for field in row.type), row.flatten(), strict=True))
    check_new(columns, new)
    found = columns_by_name(columns, is_exact=is_exact)
    names = wanted(found, engine.asked if isinstance(engine, Engine) else None)
    return names or ["topic"], [columns[found[name]] for name in names] or [pa.array([""] * len(row))]


def explain_rows(state: State, names: Sequence[str], columns: Sequence[pa.Array], *, key: str) -> pa.Array:
    """Return why the query of `key` is true, false or unknown for each row; null for a row that cannot be read.

    Raises:
        KeyError: there is no such query.
    """
    engine = open_engine(state)
    messages = read_messages(pa.Table.from_arrays(list(columns), names=list(names)))
    return pa.array([None if it is None else _explanation(engine, key, *it) for it in messages], _EXPLAINED)


def _explanation(engine: Engine, key: str, properties: dict[str, Any], topic: str, body: Any) -> dict[str, Any]:
    found = engine.explain(key, properties, topic, body)
    predicates = [(text, None if value is None else str(value), result) for text, value, result in found.predicates]
    return {"result": found.result, "predicates": predicates, "missing": list(found.missing)}


def match_ids_timed(state: AnyState, names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    """Return the ids of each row, and the time that matching took: struct<ids: list<int64>, us: double, error: string>.

    A row that cannot be read has no ids, and the reason in ``error``.

    The last rows, up to `TIMED_ROWS_MAX`, are matched one by one. Their ``us`` is the CPU time of the thread, less that
    of a call without rows: workers share the cores with Spark, and waiting for a core says nothing about matching. The
    ``us`` of the other rows is null. In shards, which are opened one after another, rows are matched together, and the
    ``us`` of each is the mean of all.
    """
    engine, count = engine_in(state), len(columns[0])
    batch = pa.RecordBatch.from_arrays(list(columns), names=list(names))
    if not isinstance(engine, Engine):
        found, us = _match_timed(engine, batch)
        return _timed(found, [us / max(count, 1)] * count)
    first_timed = max(0, count - TIMED_ROWS_MAX)
    call_us = min(_match_timed(engine, batch.slice(0, 0))[1] for _ in range(5))
    rows = [_match_timed(engine, batch.slice(row, 1)) for row in range(first_timed, count)]
    found = pa.concat_arrays([_match_all(engine, batch.slice(0, first_timed)), *(row for row, _ in rows)])
    times = [None] * first_timed + [max(0.0, us - call_us) for _, us in rows]
    return _timed(found, times)


def _timed(found: pa.StructArray, times: list[float | None]) -> pa.StructArray:
    parts = [_signed(found.field("ids")), pa.array(times, pa.float64()), found.field("error")]
    return pa.StructArray.from_arrays(parts, names=["ids", "us", "error"])


def _match_all(engine: Engine | ShardedEngine, batch: pa.RecordBatch) -> pa.StructArray:
    return engine.match_batch(batch, errors="column")


def _match_timed(engine: Engine | ShardedEngine, batch: pa.RecordBatch) -> tuple[pa.StructArray, float]:
    """Return the ids for each row of `batch`, and the CPU time of the call in µs."""
    started = time.thread_time_ns()
    found = _match_all(engine, batch)
    return found, (time.thread_time_ns() - started) / 1000


def _keys(engine: Engine | ShardedEngine, ids: pa.ListArray) -> pa.ListArray:
    """Return the keys of ids, as text."""
    column = _column_of(engine)
    column.make_room()
    return with_values(ids, column.of(ids.values))


_Numbers = npt.NDArray[np.integer[Any]]


class KeyColumn:
    """The keys of an engine as Arrow text. A key is read once, which takes 3 µs; then Arrow copies it.

    Args:
        engine: a snapshot that is open.
    """

    def __init__(self, engine: Engine | ShardedEngine) -> None:
        self._engine = engine
        self._keys: pa.StringArray = pa.array([], pa.string())
        self._positions: _Numbers = np.empty(0, np.int32)  # by id

    def of(self, ids: pa.UInt64Array) -> pa.StringArray:
        """Return the keys of subscription ids.

        Raises:
            TypeError: a key is not text.
        """
        wanted = ids.to_numpy()
        if wanted.size and int(wanted.max()) >= ID_MAX:
            distinct, ranks = np.unique(wanted, return_inverse=True)
            return self._read(distinct).take(pa.array(ranks))
        positions = self._positions_of(wanted)
        if (unknown := positions < 0).any():
            self._learn(np.unique(wanted[unknown]))
            positions = self._positions_of(wanted)
        return self._keys.take(pa.array(positions))

    def make_room(self) -> None:
        """Forget all keys if they are too many."""
        if len(self._keys) > KEYS_KEPT_MAX:
            self._keys, self._positions = pa.array([], pa.string()), np.empty(0, np.int32)

    def _positions_of(self, ids: _Numbers) -> _Numbers:
        """Return the positions of ids in the column; -1 of those that are not there."""
        if ids.size and (last := int(ids.max())) >= self._positions.size:
            more = np.full(last + 1 - self._positions.size, -1, np.int32)
            self._positions = np.concatenate([self._positions, more])
        positions: _Numbers = self._positions[ids]
        return positions

    def _learn(self, ids: _Numbers) -> None:
        keys = self._read(ids)
        self._positions[ids] = np.arange(len(self._keys), len(self._keys) + len(keys))
        self._keys = pa.concat_arrays([self._keys, keys])

    def _read(self, ids: _Numbers) -> pa.StringArray:
        keys = self._engine.keys(ids.tolist())
        if wrong := [key for key in keys if not isinstance(key, str)]:
            raise TypeError(f"key {wrong[0]!r}: `matched` holds text; use match(..., ids=True) and engine.keys(ids)")
        return pa.array(keys, pa.string())


@functools.lru_cache(maxsize=ENGINES_MAX)
def _column_of(engine: Engine | ShardedEngine) -> KeyColumn:
    return KeyColumn(engine)


def _signed(ids: pa.ListArray) -> pa.ListArray:
    """Return the ids as int64, since Spark has no unsigned numbers; ids count from 0 and never reach 2^63."""
    return with_values(ids, ids.values.view(pa.int64()))


def with_values(lists: pa.ListArray, values: pa.Array) -> pa.ListArray:
    """Return lists of the same lengths, and null where `lists` is."""
    mask = lists.is_null() if lists.null_count else None
    return pa.ListArray.from_arrays(lists.offsets, values, mask=mask)
