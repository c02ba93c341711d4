"""Copies the matches of a partition into a batch's staging tables, inside Spark's Python workers."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
from pyspark import TaskContext

from tamis.spark.matching.worker import open_engine
from tamis.store.postgres import WAIT_S, connect
from tamis.store.staging import Staging

COUNTED = pa.schema([("kind", pa.string()), ("key", pa.string()), ("count", pa.int64())])
"""What a task returns: the number of messages that ``matched`` or are ``dead``, and of matches of each ``query``."""

_ROWS = 100  # Arrow's rows that are Python's at a time
_COPY_BYTES = 1 << 20
_MESSAGES_OF_TASK_MAX = 1 << 40

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\ufffd"})


class ServerLostError(RuntimeError):
    """The server went away, or did not answer: the batch may be tried again."""


def copy_rows(
    path: str, batches: Iterator[pa.RecordBatch], *, conninfo: str, staging: Staging, source: str
) -> Iterator[pa.RecordBatch]:
    """Copy all rows of a partition in one transaction; return what was counted.

    Args:
        path: of the snapshot here.
        batches: rows as those of `Matching`.
        conninfo: of the server.
        staging: the tables.
        source: the adapter's name.

    Raises:
        ServerLostError: the server went away, or does not answer.
    """
    try:
        with connect(conninfo, WAIT_S) as connection:
            task = TaskContext.get()
            first = (task.partitionId() if task else 0) * _MESSAGES_OF_TASK_MAX
            copy = _Copy(connection, staging, source, path, first)
            for batch in batches:
                for start in range(0, batch.num_rows, _ROWS):
                    copy.add(batch.slice(start, _ROWS))
            copy.flush()
    except psycopg.OperationalError as error:
        raise ServerLostError(str(error)) from error
    yield copy.counted()


class _Copy:
    """The rows of one partition on their way to the server."""

    def __init__(
        self, connection: psycopg.Connection[Any], staging: Staging, source: str, path: str, first: int
    ) -> None:
        self._connection, self._staging, self._source = connection, staging, source
        self._engine = open_engine(path)
        self._queries: dict[int, _Query] = {}
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

    def flush(self) -> None:
        """Send what is there."""
        for name, texts in self._texts.items():
            if texts:
                with self._connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
                    copy.write("".join(texts))
                texts.clear()
        self._size = 0

    def counted(self) -> pa.RecordBatch:
        """What was counted, as `COUNTED`."""
        by_query: Counter[str] = Counter()
        for subscription_id, count in self._counts.items():
            by_query[self._queries[subscription_id].key] += count
        kinds = ["matched", "dead", *("query" for _ in by_query)]
        counts = [self._matched, self._dead, *by_query.values()]
        columns = [pa.array(kinds), pa.array([None, None, *by_query], pa.string()), pa.array(counts, pa.int64())]
        return pa.RecordBatch.from_arrays(columns, schema=COUNTED)

    def _add_message(self, row: dict[str, Any]) -> None:
        number, self._message = self._message, self._message + 1
        place = (row["partition"], row["offset"], row["digest"])
        fields = (*place, row["topic"] or "", row["properties"] or "{}", row["body"], row["xml"])
        self._put(self._staging.messages, f"{number}\t{_line(fields)}")
        named = (self._source, *place) if row["identity"] is None else (row["identity"],)
        of_message = json.dumps(named, separators=(",", ":"))[1:]
        lines = [
            f"{number}\t{order}\t{_digest(query.named + of_message)}\t{query.copied}\n"
            for order, query in enumerate(self._queries_of(row["ids"]))
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

    def _queries_of(self, ids: Sequence[int]) -> list[_Query]:
        known = self._queries
        if new := [one for one in ids if one not in known]:
            for one, (key, version) in zip(new, self._engine.keys(new), strict=True):
                known[one] = _Query(key, version)
        return [known[one] for one in ids]


class _Query:
    """A version of a query: its key, how ids of notifications begin, and how COPY takes it."""

    __slots__ = ("copied", "key", "named")

    def __init__(self, key: str, version: int) -> None:
        self.key = key
        self.named = json.dumps([key, version], separators=(",", ":"))[:-1] + ","
        self.copied = f"{key.translate(_ESCAPES)}\t{version}"


def _digest(named: str) -> str:
    """As `tamis.store.notification_id`, of which this is the end."""
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def _line(fields: Sequence[Any]) -> str:
    """A line of COPY's text."""
    return "\t".join("\\N" if it is None else str(it).translate(_ESCAPES) for it in fields) + "\n"
