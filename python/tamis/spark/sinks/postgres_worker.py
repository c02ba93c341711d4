"""Copies the matches of a partition into a batch's staging tables, inside Spark's Python workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
from pyspark import TaskContext

from tamis.errors import StoreError
from tamis.spark.matching.worker import AnyState
from tamis.spark.sinks.names import NamedQueries, NamedQuery, counted, named
from tamis.spark.sinks.seen_rows import results_of, seen_of
from tamis.store.postgres import WAIT_S, connect, explain, is_lost
from tamis.store.staging import Staging

_ROWS = 100  # rows of Arrow that are converted to Python at a time
_COPY_BYTES = 1 << 20
_MESSAGES_OF_TASK_MAX = 1 << 40

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\ufffd"})


class ServerLostError(RuntimeError):
    """The server went away, or did not answer: the batch may be tried again."""


def copy_rows(
    state: AnyState,
    batches: Iterator[pa.RecordBatch],
    *,
    conninfo: str,
    place: str,
    staging: Staging,
    source: str,
    seen: bool,
) -> Iterator[pa.RecordBatch]:
    """Copy all rows of a partition in one transaction; return what was counted.

    Args:
        state: the state of the engine here.
        batches: the rows of `Matching`.
        conninfo: how libpq reaches the server.
        place: the same without the password, for errors.
        staging: the tables.
        source: the adapter's name.
        seen: whether the rows are all that were read, and each of them gets a note.

    Raises:
        ServerLostError: the server went away, or does not answer.
        StoreError: it cannot write, or refuses; the text says why.
    """
    try:
        with connect(conninfo, WAIT_S) as connection:
            task = TaskContext.get()
            first = (task.partitionId() if task else 0) * _MESSAGES_OF_TASK_MAX
            copy = _Copy(connection, staging, source, state, first)
            for batch in batches:
                if seen:
                    copy.note(batch)
                results = results_of(batch) if seen else batch
                for start in range(0, results.num_rows, _ROWS):
                    copy.add(results.slice(start, _ROWS))
            copy.flush()
    except psycopg.OperationalError as error:
        if is_lost(error):
            raise ServerLostError(str(error)) from error
        raise StoreError(explain(place, error)) from error
    yield copy.counted()


class _Copy:
    """The rows of one partition on their way to the server."""

    def __init__(
        self, connection: psycopg.Connection[Any], staging: Staging, source: str, state: AnyState, first: int
    ) -> None:
        self._connection, self._staging, self._source = connection, staging, source
        self._queries = NamedQueries(state, _Query)
        self._message = first
        self._texts: dict[str, list[str]] = {name: [] for name in staging.tables()}
        self._size = 0
        self._counts: Counter[int] = Counter()
        self._matched = self._dead = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take some rows; they go to the server when there are enough."""
        for row in rows.to_pylist():
            if row["error"] is None:
                self._add_message(row)
            else:
                self._add_dead_letter(row)
            if self._size >= _COPY_BYTES:
                self.flush()

    def note(self, rows: pa.RecordBatch) -> None:
        """Take a note of each row that is a message."""
        for message in seen_of(rows):
            self._put(self._staging.seen, _line(message))
            if self._size >= _COPY_BYTES:
                self.flush()

    def flush(self) -> None:
        """Send what is there."""
        for name, texts in self._texts.items():
            if texts:
                with self._connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
                    copy.write("".join(texts))
                texts.clear()
        self._size = 0

    def counted(self) -> pa.RecordBatch:
        """Return the counts, as `COUNTED`."""
        return counted(self._matched, self._dead, self._queries.by_key(self._counts))

    def _add_message(self, row: dict[str, Any]) -> None:
        number, self._message = self._message, self._message + 1
        place = (row["partition"], row["offset"], row["digest"])
        fields = (*place, row["topic"] or "", row["properties"] or "{}", row["body"], row["xml"])
        self._put(self._staging.messages, f"{number}\t{_line(fields)}")
        message = named(row, self._source)
        lines = [
            f"{number}\t{order}\t{query.id_of(message)}\t{query.copied}\n"
            for order, query in enumerate(self._queries.of(row["ids"]))
        ]
        self._put(self._staging.notifications, "".join(lines))
        self._counts.update(row["ids"])
        self._matched += 1

    def _add_dead_letter(self, row: dict[str, Any]) -> None:
        fields = (row["partition"], row["offset"], row["digest"], row["error"])
        raw = "\\\\x" + (row["raw"] or b"").hex()
        self._put(self._staging.dead_letters, f"{_line(fields)[:-1]}\t{raw}\n")
        self._dead += 1

    def _put(self, table: str, text: str) -> None:
        self._texts[table].append(text)
        self._size += len(text)


class _Query(NamedQuery):
    """A query, and how COPY takes its key and version."""

    __slots__ = ("copied",)

    def __init__(self, key: str, version: int) -> None:
        super().__init__(key, version)
        self.copied = f"{key.translate(_ESCAPES)}\t{version}"


def _line(fields: Sequence[Any]) -> str:
    """Return a line of COPY's text."""
    return "\t".join("\\N" if it is None else str(it).translate(_ESCAPES) for it in fields) + "\n"
