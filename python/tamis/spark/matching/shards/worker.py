"""Finds the shards of rows, and matches rows in their shards, inside Spark's Python workers.

Like `tamis.spark.matching.worker`, it does not import Spark."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamis import Engine
from tamis.engine.shard_directory import ShardDirectory
from tamis.query.predicates import open_registered
from tamis.spark.matching.worker import Errors, KeyColumn, ShardState, with_values

SHARDS_OPEN_MAX = 2
"""Maximum number of shards that a worker process maps; the least recently used is closed first."""
DIRECTORIES_MAX = 3
"""Maximum number of directories that a worker process keeps open."""


class OpenShard(NamedTuple):
    """A shard that is mapped: its engine, the positions of its queries by id, and their keys."""

    engine: Engine
    positions: npt.NDArray[np.uint64]
    keys: KeyColumn

    def match(self, table: pa.Table, *, ids: bool) -> pa.ListArray:
        """Return the queries that each row satisfies: their positions, or struct<position, key>."""
        lists = self.engine.match_batch(table)
        positions = pa.array(self.positions[lists.values.to_numpy()].view(np.int64))
        if ids:
            return with_values(lists, positions)
        self.keys.make_room()
        keys = self.keys.of(lists.values)
        return with_values(lists, pa.StructArray.from_arrays([positions, keys], names=["position", "key"]))


def route_rows(
    state: ShardState, names: Sequence[str], columns: Sequence[pa.Array], *, errors: Errors = "raise"
) -> pa.StructArray:
    """Return the shards in which each row can match: struct<shards: list<int32>, error: string>.

    Args:
        state: of shards without changes.
        names: the names of the columns, as in `tamis.spark.matching.worker.match_rows`.
        columns: one array per name, all of the same length.
        errors: whether a row that cannot be read raises an error; otherwise its shards are null, with the reason.

    Raises:
        ValueError: a row cannot be read, and `errors` says raise.
    """
    directory = open_directory(state[0][0]())
    return directory.route(_table(names, columns), errors="raise" if errors == "raise" else "null")


def match_in_shards(
    state: ShardState, names: Sequence[str], columns: Sequence[pa.Array], *, ids: bool = False
) -> pa.ListArray:
    """Return the queries of its shard that each row satisfies: list<struct<position, key>>, or list<int64>, positions.

    A row without shard has null.

    Args:
        state: of shards without changes.
        names: the names of the columns, as in `tamis.spark.matching.worker.match_rows`, and one more.
        columns: one array per name; the last one is the shard of each row.
        ids: only the positions of queries among all, which are the ids that one engine of all would give them.

    Cost: 20 ms or more for each shard that is not open yet, so rows should be sorted by shard.
    """
    _, snapshots, positions = state[0]
    *parts, shards = columns
    table, numbers = _table(names[:-1], parts), shards.to_numpy(zero_copy_only=False)
    rows, found = [], []
    for shard in np.unique(numbers[~np.isnan(numbers)] if shards.null_count else numbers):
        rows.append(np.flatnonzero(numbers == shard))
        messages = table if len(rows[-1]) == len(numbers) else table.take(pa.array(rows[-1]))
        opened = open_shard(snapshots[int(shard)](), positions[int(shard)]())
        found.append(opened.match(messages, ids=ids))
    if shards.null_count:
        rows.append(np.flatnonzero(np.isnan(numbers)))
    nulls = pa.nulls(shards.null_count, pa.list_(pa.int64() if ids else _POSITION_AND_KEY))
    order = np.argsort(np.concatenate([np.empty(0, np.int64), *rows]))
    return pa.concat_arrays([*found, nulls]).take(pa.array(order))


_POSITION_AND_KEY = pa.struct([("position", pa.int64()), ("key", pa.string())])


def _table(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Table:
    return pa.Table.from_arrays(list(columns), names=list(names))


@functools.lru_cache(maxsize=DIRECTORIES_MAX)
def open_directory(path: str) -> ShardDirectory:
    """Return the directory of a folder of shards, opened once per process."""
    return ShardDirectory(path)


@functools.lru_cache(maxsize=SHARDS_OPEN_MAX)
def open_shard(snapshot: str, positions: str, hierarchies: bytes = b"") -> OpenShard:
    """Return a shard that is mapped; those used last stay open.

    Args:
        snapshot: the path of its snapshot.
        positions: the path of the positions of its queries.
        hierarchies: attribute -> value -> its parent, as JSON, of those that are others than in the snapshot.
    """
    engine = open_registered(snapshot)
    for attribute, parents in json.loads(hierarchies or b"{}").items():
        engine.hierarchy(attribute, parents)
    return OpenShard(engine, np.load(positions, mmap_mode="r"), KeyColumn(engine))
