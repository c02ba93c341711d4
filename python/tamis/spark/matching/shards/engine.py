"""Matches messages in shards one after another, as one engine of all their queries would.

It serves streams and the pipeline, whose batches are small: rows stay in their order and their task, and nothing is
shuffled. It does not import Spark."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tamis import Engine
from tamis.engine.replica import EngineChange, apply_change
from tamis.engine.shard_directory import ShardDirectory
from tamis.spark.matching.shards.worker import OpenShard, open_directory, open_shard
from tamis.spark.matching.worker import ENGINES_MAX, Errors, ShardFiles, ShardState, here, open_engine

CHANGED_ID_MIN: Final = 1 << 40
"""The ids of queries that came after the shards were written begin here; those in shards have their positions."""

_Numbers = npt.NDArray[np.int64]


class ShardedEngine:
    """The part of `tamis.Engine` that workers use, over shards and what has changed since they were written.

    Not thread-safe for `match_batch`; `keys` is.

    Args:
        files: the shards.
        gone: ids in the shards that do not match any more.
        hierarchies: attribute -> value -> its parent, of those that were replaced since, as JSON.
        changed: the queries that came since.
    """

    def __init__(
        self,
        files: ShardFiles,
        gone: bytes = b"",
        hierarchies: bytes = b"",
        changed: Engine[Any] | None = None,
    ) -> None:
        self._files, self._changed = files, changed
        self._gone, self._hierarchies = np.frombuffer(gone, np.int64), hierarchies

    def move(self, files: ShardFiles) -> None:
        """Take the same shards from other places."""
        self._files = files

    def match_batch(self, data: pa.Table | pa.RecordBatch, *, errors: Errors = "raise") -> pa.Array:
        """Return the ids of each row, as `tamis.Engine.match_batch` does.

        Cost: a few ms for each shard that a row meets and that is not open, and 1 ms besides.
        """
        table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
        # What no query asks for any more does no harm: only live queries say whether a row can be read.
        is_exact = not self._gone.size
        told = self._directory.route(table, errors="raise" if errors == "raise" and is_exact else "null")
        reasons, found = told.field("error"), [self._of_shards(table, told.field("shards"))]
        if not is_exact and reasons.null_count < len(reasons):
            reasons, more = self._of_doubtful(table, reasons)
            found.append(more)
        if self._changed is not None and len(self._changed):
            lists = self._changed.match_batch(table, errors="raise" if errors == "raise" else "column")
            if errors != "raise":
                reasons, lists = pc.coalesce(reasons, lists.field("error")), lists.field("ids")
            found.append((_rows_of(lists), lists.flatten().to_numpy().astype(np.int64) + CHANGED_ID_MIN))
        is_wrong = pc.is_valid(reasons)
        if errors == "raise" and pc.any(is_wrong).as_py():
            row = pc.index(is_wrong, True).as_py()
            raise ValueError(f"row {row}: {reasons[row]}")
        lists = _lists(table.num_rows, found, is_wrong)
        return lists if errors != "column" else pa.StructArray.from_arrays([lists, reasons], names=["ids", "error"])

    def keys(self, ids: Sequence[int]) -> list[Any]:
        """Return the keys of ids, in the order given; also of those that are gone from the shards.

        Raises:
            KeyError: there is no such id.
        """
        wanted = np.asarray(ids, np.int64)
        keys: list[Any] = [None] * len(wanted)
        missing = np.ones(len(wanted), np.bool_)
        if (changed := np.flatnonzero(wanted >= CHANGED_ID_MIN)).size and self._changed is not None:
            _fill(keys, changed, self._changed.keys((wanted[changed] - CHANGED_ID_MIN).tolist()))
            missing[changed] = False
        for shard in range(self._directory.shards if missing.any() else 0):
            opened = self._shard(shard)
            if not len(opened.positions):
                continue
            places = np.searchsorted(opened.positions, wanted.astype(np.uint64))
            at = np.minimum(places, len(opened.positions) - 1)
            held = np.flatnonzero(missing & (opened.positions[at] == wanted.astype(np.uint64)))
            _fill(keys, held, opened.engine.keys(at[held].tolist()))
            missing[held] = False
        if missing.any():
            raise KeyError(int(wanted[missing][0]))
        return keys

    @property
    def _directory(self) -> ShardDirectory:
        return open_directory(self._files[0]())

    def _shard(self, number: int) -> OpenShard:
        _, snapshots, positions = self._files
        return open_shard(snapshots[number](), positions[number](), self._hierarchies)

    def _of_shards(self, table: pa.Table, shards: pa.ListArray) -> tuple[_Numbers, _Numbers]:
        """Return the row and the id of each match in the shards that each row meets."""
        met, rows = shards.flatten().to_numpy(), _rows_of(shards)
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for number in np.unique(met):
            some = rows[met == number]
            opened = self._shard(int(number))
            lists = opened.engine.match_batch(table if len(some) == table.num_rows else table.take(pa.array(some)))
            positions = opened.positions[lists.flatten().to_numpy()].astype(np.int64)
            found.append((some[_rows_of(lists)], positions))
        matched, ids = (np.concatenate(parts) for parts in zip(*found, strict=True))
        if self._gone.size:
            stay = ~np.isin(ids, self._gone)
            matched, ids = matched[stay], ids[stay]
        return matched, ids

    def _of_doubtful(
        self, table: pa.Table, reasons: pa.StringArray
    ) -> tuple[pa.StringArray, tuple[_Numbers, _Numbers]]:
        """Decide about the rows that the directory cannot read: return the reasons of all rows, and what matched.

        Every shard is asked until one cannot read the row either, since nobody knows which of them the row meets.
        """
        texts, found = reasons.to_pylist(), [(np.empty(0, np.int64), np.empty(0, np.int64))]
        doubtful = [row for row, text in enumerate(texts) if text is not None]
        for row in doubtful:
            texts[row] = None
        _, snapshots, positions = self._files
        for snapshot, place in zip(snapshots, positions, strict=True):
            opened = _live_shard(snapshot(), place(), self._hierarchies, self._gone.tobytes())
            told = opened.engine.match_batch(table.take(pa.array(doubtful, pa.int64())), errors="column")
            for row, text in zip(doubtful, told.field("error").to_pylist(), strict=True):
                texts[row] = text
            lists = told.field("ids")
            ids = opened.positions[lists.flatten().to_numpy()].astype(np.int64)
            found.append((np.asarray(doubtful, np.int64)[_rows_of(lists)], ids))
            doubtful = [row for row in doubtful if texts[row] is None]
            if not doubtful:
                break
        matched, ids = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return pa.array(texts, pa.string()), (matched, ids)


def open_sharded(state: ShardState) -> ShardedEngine:
    """Return the engine in a state of shards; the same object for the same shards, if nothing came since."""
    files, gone, hierarchies, changed = state
    if changed is not None:
        return ShardedEngine(files, gone, hierarchies, open_engine(changed))
    engine = _sharded(files[0](), gone, hierarchies)
    engine.move(files)
    return engine


@functools.lru_cache(maxsize=ENGINES_MAX)
def _sharded(directory: str, gone: bytes, hierarchies: bytes) -> ShardedEngine:
    return ShardedEngine((here(directory), (), ()), gone, hierarchies)


@functools.lru_cache(maxsize=1)
def _live_shard(snapshot: str, positions: str, hierarchies: bytes, gone: bytes) -> OpenShard:
    """Return a shard without the queries that are gone."""
    opened = open_shard.__wrapped__(snapshot, positions, hierarchies)
    removed = np.flatnonzero(np.isin(opened.positions, np.frombuffer(gone, np.int64).astype(np.uint64)))
    apply_change(opened.engine, EngineChange(opened.engine._core.next_id(), removed.tolist(), [], {}))
    return opened


def _rows_of(lists: pa.ListArray) -> _Numbers:
    """Return the row of each value of a column of lists."""
    rows: _Numbers = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    return rows


def _lists(count: int, found: Sequence[tuple[_Numbers, _Numbers]], is_wrong: pa.BooleanArray) -> pa.ListArray:
    """Return a list of ids for each row, ascending, from the rows and ids of all matches; null where a row is wrong."""
    rows, ids = (np.concatenate(parts) for parts in zip(*found, strict=True))
    stay = ~is_wrong.to_numpy(zero_copy_only=False).astype(np.bool_)[rows]
    rows, ids = rows[stay], ids[stay]
    order = np.lexsort((ids, rows))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int32)
    values = pa.array(ids[order].astype(np.uint64))
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=is_wrong if pc.any(is_wrong).as_py() else None)


def _fill(keys: list[Any], places: _Numbers, values: Sequence[Any]) -> None:
    for place, value in zip(places.tolist(), values, strict=True):
        keys[place] = value


def encode_hierarchies(hierarchies: Mapping[str, Any]) -> bytes:
    """Return hierarchies as `ShardedEngine` takes them; nothing for none."""
    return json.dumps({name: dict(it) for name, it in hierarchies.items()}).encode() if hierarchies else b""
