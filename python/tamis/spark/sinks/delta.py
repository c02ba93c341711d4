"""Writes the results of batches to Delta tables: executors write Parquet files, and the driver commits their names.

A commit carries the name of the batch's stream and its number. The table keeps the last number of each stream, so that
a replay finds its rows there and adds nothing. Only then does the store record that the batch is done. The driver sees
counts and names of files, never rows."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame

from tamis.errors import StoreError
from tamis.spark.matching.operator import in_worker
from tamis.spark.sinks.delta_worker import TABLES
from tamis.spark.sinks.names import summed
from tamis.spark.sinks.sink import Batch, Matching, Written
from tamis.spark.snapshots import Snapshot
from tamis.store import BatchCounts, Store

_RETURNED = "kind string, key string, count bigint, path string, size bigint"
_log = logging.getLogger("tamis.spark")


class File(NamedTuple):
    """A Parquet file that a task has written.

    Attributes:
        name: in the folder of its table.
        rows: their number.
        size: in bytes.
    """

    name: str
    rows: int
    size: int


class DeltaSink:
    """Writes to the tables ``messages``, ``notifications`` and ``dead_letters`` in a folder that executors share.

    Raises:
        StoreError: the tables cannot be made or opened.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder = store, folder
        # A notification comes after its message, so that who reads the tables finds the message of each.
        self._tables = {name: Table(folder / name, schema) for name, schema in TABLES.items()}

    def write(self, batch: Batch, frame: DataFrame, snapshot: Snapshot) -> Written:
        """Match and write files in one Spark action, then commit: see `Sink`."""
        matching = Matching(frame, snapshot, batch.publication)
        function = in_worker(
            snapshot.shipped.location,
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
        counts = self._store.record_batch(batch.stream, batch.number, counts)
        return matching.written(counts, totals["dead"], by_query)

    def commit(self, table: Table, batch: Batch, files: Sequence[File]) -> None:
        """Commit the files of one table; see `Table.commit`."""
        table.commit(batch.stream, batch.number, files)


class Table:
    """A Delta table that takes each batch once.

    Args:
        folder: of the table; it is made if it is not there.
        schema: of its rows.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder, self._schema, self._turn = folder, schema, threading.Lock()
        with self._explained():
            folder.mkdir(parents=True, exist_ok=True)
            self._table = DeltaTable.create(str(folder), schema, mode="ignore")
            # What tasks of killed runs have left; a week old, so that nobody can be writing it.
            self._table.vacuum(dry_run=False, full=True)

    def commit(self, stream: str, number: int, files: Sequence[File]) -> None:
        """Add the files of a batch in one commit; if the table has the batch, remove them.

        Raises:
            StoreError: a file is not there, as its size was told; or the commit cannot be written. Nothing counts.
        """
        if not files:
            return
        with self._turn, self._explained():
            self._check(files)
            self._table.update_incremental()
            last = self._last(stream)
            if last is not None and last >= number:
                _log.info("%s: has batch %d of '%s' already", self._folder, number, stream)
                for file in files:
                    (self._folder / file.name).unlink()
                return
            self._sync(self._folder)
            self._table.create_write_transaction(
                [self._action(file) for file in files],
                mode="append",
                schema=self._schema,
                commit_properties=CommitProperties(app_transactions=[Transaction(stream, number)]),
            )
            self._sync_log()

    def _last(self, stream: str) -> int | None:
        """The number of the last batch of a stream that the table has."""
        return self._table.transaction_version(stream)

    def _check(self, files: Sequence[File]) -> None:
        """Refuse files that workers have written where this machine does not see them."""
        for file in files:
            path = self._folder / file.name
            size = path.stat().st_size if path.exists() else None
            if size != file.size:
                found = "is not there" if size is None else f"has {size:,} bytes"
                raise StoreError(
                    f"{path}: a worker wrote {file.size:,} bytes, and here the file {found}; [pipeline] notifications "
                    "has to be a folder that this machine and all workers share"
                )

    def _action(self, file: File) -> AddAction:
        written = int((self._folder / file.name).stat().st_mtime * 1000)
        return AddAction(file.name, file.size, {}, written, True, json.dumps({"numRecords": file.rows}))

    def _sync_log(self) -> None:
        """Put the commit on disk, before the store says that the batch is done."""
        log = self._folder / "_delta_log"
        self._sync(log / f"{self._table.version():020}.json")
        self._sync(log)

    def _sync(self, path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[Any]:
        try:
            yield
        except (DeltaError, OSError) as error:
            raise StoreError(f"{self._folder}: the Delta table cannot be read or written: {error}") from error
