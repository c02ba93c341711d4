"""Writes the results of batches to Delta tables: executors write Parquet files, and the driver commits their names.

A commit carries the name of the batch's stream and its number. The table keeps the last number of each stream, so that
a replay finds its rows there and adds nothing. Only then does the store record that the batch is done. The driver sees
counts and names of files, never rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from tamis.spark.matching.operator import in_worker
from tamis.spark.sinks.delta_worker import TABLES
from tamis.spark.sinks.names import summed
from tamis.spark.sinks.sink import Batch, Matching, Written
from tamis.spark.snapshots import Snapshot
from tamis.store import BatchCounts, Store
from tamis.store.delta_table import File, Table

_RETURNED = "kind string, key string, count bigint, path string, size bigint"


class DeltaSink:
    """Writes to the tables ``messages``, ``notifications`` and ``dead_letters`` in a folder that executors share.

    Raises:
        StoreError: the tables cannot be made or opened.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder = store, folder
        # Messages are committed first, so that a reader of the tables finds the message of each notification.
        self._tables = {name: Table(folder / name, schema) for name, schema in TABLES.items()}

    def write(self, batch: Batch, frame: DataFrame, snapshot: Snapshot) -> Written:
        """Match and write files in one Spark action, then commit: see `Sink`."""
        matching = Matching(frame, snapshot, batch.publication)
        function = in_worker(
            snapshot.state,
            "write_rows",
            {
                "folder": str(self._folder),
                "source": batch.source,
                "stream": batch.stream,
                "batch_id": batch.number,
            },
            "tamis.spark.sinks.delta_worker",
        )
        rows = matching.rows.mapInArrow(function, _RETURNED).toArrow().to_pylist()
        totals, by_query = summed(rows)
        for name, table in self._tables.items():
            files = [File(row["path"], row["count"], row["size"]) for row in rows if row["kind"] == name]
            self.commit(table, batch, files)
        counts = BatchCounts(matching.read, totals["matched"], totals["notifications"], totals["dead"])
        counts = self._store.record_batch(batch.stream, batch.number, counts, self._folder.resolve())
        return matching.written(counts, totals["dead"], by_query)

    def commit(self, table: Table, batch: Batch, files: Sequence[File]) -> None:
        """Commit the files of one table; see `Table.commit`."""
        table.commit(batch.stream, batch.number, files)
