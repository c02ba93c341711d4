"""Writes the matches of a partition to Parquet files, inside Spark's Python workers.

Nobody sees the files until the driver has committed them; those of a task that failed stay unseen."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tamis.spark.matching.worker import AnyState
from tamis.spark.sinks.names import COUNTED, NamedQueries, NamedQuery, counted, named

_BATCH = [("stream", pa.string()), ("batch_id", pa.int64())]
_PLACE = [("source", pa.string()), ("partition", pa.string()), ("offset", pa.int64()), ("digest", pa.string())]
_TEXTS = [(name, pa.string()) for name in ("topic", "properties", "body", "xml")]
_QUERY = [("notification_id", pa.string()), ("query_key", pa.string()), ("query_version", pa.int32())]

TABLES = {
    "messages": pa.schema(_BATCH + _PLACE + _TEXTS),
    "notifications": pa.schema(_QUERY + _BATCH + _PLACE),
    "dead_letters": pa.schema([*_BATCH, *_PLACE, ("reason", pa.string()), ("raw", pa.binary())]),
}
"""Name -> schema of each table."""

RETURNED = pa.schema([*COUNTED, ("path", pa.string()), ("size", pa.int64())])
"""The result of a task: its counts, and of each file its table, its number of rows, its path and its size."""

_ROWS = 100  # rows of Arrow that are converted to Python at a time
_GROUP_ROWS = 100_000
_GROUP_CHARACTERS = 16 << 20  # rows of one row group, which is in memory at once


def write_rows(
    state: AnyState,
    batches: Iterator[pa.RecordBatch],
    *,
    folder: str,
    source: str,
    stream: str,
    batch_id: int,
) -> Iterator[pa.RecordBatch]:
    """Write all rows of a partition; return what was counted, and the files, which are on disk.

    Args:
        state: the state of the engine here.
        batches: the rows of `Matching`.
        folder: the folder of the tables, the same on every machine.
        source: the adapter's name.
        stream: the stream of the batch.
        batch_id: the number of the batch.
    """
    rows = _Rows(state, Path(folder), {"source": source, "stream": stream, "batch_id": batch_id})
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            rows.add(batch.slice(start, _ROWS))
    yield rows.close()


class _Rows:
    """The rows of one partition on their way to the tables."""

    def __init__(self, state: AnyState, folder: Path, constant: dict[str, Any]) -> None:
        self._queries, self._source = NamedQueries(state, NamedQuery), constant["source"]
        self._files = {name: _File(folder / name, schema, constant) for name, schema in TABLES.items()}
        self._counts: Counter[int] = Counter()
        self._matched = self._dead = 0

    def add(self, rows: pa.RecordBatch) -> None:
        for row in rows.to_pylist():
            if row["error"] is None:
                self._add_message(row)
            else:
                self._dead += 1
                self._files["dead_letters"].add(row | {"reason": row["error"], "raw": row["raw"] or b""})

    def _add_message(self, row: dict[str, Any]) -> None:
        self._matched += 1
        self._counts.update(row["ids"])
        self._files["messages"].add(row | {"topic": row["topic"] or "", "properties": row["properties"] or "{}"})
        queries, message = self._queries.of(row["ids"]), named(row, self._source)
        about: dict[str, list[Any]] = {
            "notification_id": [query.id_of(message) for query in queries],
            "query_key": [query.key for query in queries],
            "query_version": [query.version for query in queries],
        }
        self._files["notifications"].add(row, about)

    def close(self) -> pa.RecordBatch:
        told = counted(self._matched, self._dead, self._queries.by_key(self._counts)).to_pylist()
        for name, file in self._files.items():
            if written := file.close():
                told.append(dict(zip(RETURNED.names, (name, None, *written), strict=True)))
        return pa.RecordBatch.from_pylist(told, schema=RETURNED)


class _File:
    """A Parquet file of a table; it is made when there are rows.

    Args:
        folder: the folder of the table.
        schema: the schema of its rows.
        constant: the columns that are the same in each row.
    """

    def __init__(self, folder: Path, schema: pa.Schema, constant: dict[str, Any]) -> None:
        self._path, self._schema, self._constant = folder / f"part-{uuid.uuid4()}.parquet", schema, constant
        self._writer: pq.ParquetWriter | None = None
        self._columns: dict[str, list[Any]] = {name: [] for name in schema.names if name not in constant}
        self._characters = self._count = self._waiting = 0

    def add(self, row: dict[str, Any], many: dict[str, list[Any]] | None = None) -> None:
        """Add a row; or as many as the columns `many` have, each with the other columns of the row."""
        lists = many or {}
        count = len(next(iter(lists.values()))) if lists else 1
        for name, column in self._columns.items():
            if name in lists:
                column += lists[name]
                continue
            value = row[name]
            column += [value] * count
            self._characters += len(value) if isinstance(value, str | bytes) else 0
        self._waiting += count
        if self._waiting >= _GROUP_ROWS or self._characters >= _GROUP_CHARACTERS:
            self._write()

    def close(self) -> tuple[int, str, int] | None:
        """Put the file on disk; return its number of rows, its name and its size; None if there is none."""
        if self._waiting:
            self._write()
        if self._writer is None:
            return None
        self._writer.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
        return self._count, self._path.name, self._path.stat().st_size

    def _write(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd")
        columns = [
            pa.array(self._columns[field.name], field.type)
            if field.name in self._columns
            else pa.repeat(pa.scalar(self._constant[field.name], field.type), self._waiting)
            for field in self._schema
        ]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))
        self._count += self._waiting
        self._characters = self._waiting = 0
        for column in self._columns.values():
            column.clear()
