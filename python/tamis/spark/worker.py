"""Matches Arrow batches of messages inside Spark's Python workers.

It imports as little as possible, and not Spark, because every worker process pays for its imports."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tamis import Engine
from tamis.errors import SnapshotError

ENGINES_MAX = 4
"""Maximum number of snapshots that a worker process keeps open; the least recently used is closed first."""

TIMED_ROWS_MAX = 100
"""Maximum number of messages of an Arrow batch that are timed one by one."""


def open_engine(path: str) -> Engine:
    """The engine of a snapshot, mapped once per process as long as the file stays the same.

    Raises:
        SnapshotError: the file is absent, or is no snapshot.

    Cost: 2 µs if it is open already, else 0.2 ms and one check of the whole index.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - once per batch, and pathlib takes four times as long
    except OSError as error:
        raise SnapshotError(f"{path}: the snapshot of the queries cannot be read here: {error.strerror}") from error
    return _open(path, status.st_ino, status.st_mtime_ns)


@functools.lru_cache(maxsize=ENGINES_MAX)
def _open(path: str, _inode: int, _mtime_ns: int) -> Engine:
    engine = Engine.open(path)
    engine.match({})  # the first match checks the whole index: the time of no message should include that
    return engine


def match_ids(path: str, names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    """The ids of the subscriptions that each row satisfies: list<int64>, never null.

    Args:
        path: of the snapshot.
        names: of the columns: ``properties``, and perhaps ``topic`` and ``body``.
        columns: one array per name, all of the same length.
    """
    return _signed(open_engine(path).match_batch(pa.Table.from_arrays(list(columns), names=list(names))))


def match_keys(path: str, names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    """The keys of the subscriptions that each row satisfies: list<string>; otherwise as `match_ids`.

    Raises:
        TypeError: a key is not text.
    """
    engine = open_engine(path)
    ids = engine.match_batch(pa.Table.from_arrays(list(columns), names=list(names)))
    distinct = ids.flatten().unique()
    keys = engine.keys(distinct.to_pylist())
    if wrong := [key for key in keys if not isinstance(key, str)]:
        raise TypeError(f"key {wrong[0]!r}: `matched` holds text; use match(..., ids=True) and engine.keys(ids)")
    return pa.ListArray.from_arrays(ids.offsets, pa.array(keys, pa.string()).take(pc.index_in(ids.flatten(), distinct)))


def match_ids_timed(path: str, names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    """As `match_ids`, with the time that matching took: struct<ids: list<int64>, us: double>.

    The last rows, up to `TIMED_ROWS_MAX`, are matched one by one. Their ``us`` is the CPU time of the thread, less that
    of a call without rows: workers share the cores with Spark, and waiting for a core says nothing about matching. The
    ``us`` of the other rows is null.
    """
    engine, count = open_engine(path), len(columns[0])
    batch = pa.RecordBatch.from_arrays(list(columns), names=list(names))
    first_timed = max(0, count - TIMED_ROWS_MAX)
    call_us = min(_match_timed(engine, batch.slice(0, 0))[1] for _ in range(5))
    rows = [_match_timed(engine, batch.slice(row, 1)) for row in range(first_timed, count)]
    ids = pa.concat_arrays([engine.match_batch(batch.slice(0, first_timed)), *(row_ids for row_ids, _ in rows)])
    times = [None] * first_timed + [max(0.0, us - call_us) for _, us in rows]
    return pa.StructArray.from_arrays([_signed(ids), pa.array(times, pa.float64())], names=["ids", "us"])


def _match_timed(engine: Engine, batch: pa.RecordBatch) -> tuple[pa.ListArray, float]:
    """The ids for each row of `batch`, and the CPU time of the call in µs."""
    started = time.thread_time_ns()
    ids = engine.match_batch(batch)
    return ids, (time.thread_time_ns() - started) / 1000


def _signed(ids: pa.ListArray) -> pa.ListArray:
    """The same bytes as int64, since Spark has no unsigned numbers; ids count from 0 and never reach 2^63."""
    return pa.ListArray.from_arrays(ids.offsets, ids.values.view(pa.int64()))
