"""The sink for a store in a file: the results go to the driver, which alone can write it.

The driver holds them as Arrow. It makes rows of them only piece by piece, as the store takes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tamis.spark.sinks.seen_rows import results_of, seen_of
from tamis.spark.sinks.sink import MESSAGE_COLUMNS, Batch, Matching, Written
from tamis.spark.snapshots import Snapshot
from tamis.store import BatchResult, DeadLetter, MessageRow, Notification, Store, notification_id
from tamis.store.seen import SeenBatch

_PART_ROWS = 100  # rows of Arrow that are converted to Python at a time
_PART_MATCHES = 1_000


class DriverSink:
    """Writes to `store` in the driver."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, batch: Batch, frame: DataFrame, snapshot: Snapshot) -> Written:
        """Match in one Spark action, and write what it returns: see `Sink`."""
        matching = Matching(frame, snapshot, batch.publication, seen=batch.seen_kept > 0)
        rows, seen = matching.rows.toArrow(), None
        if batch.seen_kept:
            seen = SeenBatch(batch.source, seen_of(rows), batch.seen_kept)
            rows = results_of(rows)
        results = make_results(rows, matching.read, snapshot, batch.source)
        counts = self._store.commit_batch(batch.stream, batch.number, results, batch.default_deliveries, seen)
        dead = rows.num_rows - rows["error"].null_count
        return matching.written(counts, dead, _count_by_query(rows, snapshot))


def make_results(rows: pa.Table, read: int, snapshot: Snapshot, source: str) -> Iterator[BatchResult]:
    """Turn the rows into messages, notifications and dead letters for the store: a part for each few matches."""
    yield BatchResult(read_count=read)
    for row in _rows(rows):
        key = (source, row["partition"], row["offset"], row["digest"])
        if row["error"] is not None:
            yield BatchResult(dead_letters=[DeadLetter(*key, row["error"], row["raw"] or b"")])
            continue
        named = key if row["identity"] is None else (row["identity"],)
        texts = {"topic": row["topic"] or "", "properties": row["properties"] or "{}"}
        message = MessageRow(source, **{name: row[name] for name in MESSAGE_COLUMNS} | texts)
        yield BatchResult(matched_count=1)
        for start in range(0, len(row["ids"]), _PART_MATCHES):
            queries = snapshot.names_of(row["ids"][start : start + _PART_MATCHES])
            notifications = [
                Notification(notification_id(query, version, *named), query, version, *key)
                for query, version in queries
            ]
            yield BatchResult([message], notifications)


def _count_by_query(rows: pa.Table, snapshot: Snapshot) -> Counter[str]:
    """Return the number of matches of each query."""
    counts = pc.value_counts(pc.list_flatten(rows.filter(pc.is_null(rows["error"]))["ids"]))
    queries = snapshot.names_of(counts.field("values").to_pylist())
    return Counter({key: n for (key, _), n in zip(queries, counts.field("counts").to_pylist(), strict=True)})


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=_PART_ROWS):
        yield from batch.to_pylist()
