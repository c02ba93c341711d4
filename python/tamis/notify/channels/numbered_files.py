"""Writes each batch of notifications as one numbered Parquet file, exactly once; base of ``parquet`` and ``delta``.

The transaction that marks a batch as delivered also stores its number. A batch with the next number was left by a
crash: its notifications are then marked as delivered, and nothing is written twice."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tamis.config.deliveries import DeltaDelivery, ParquetDelivery
from tamis.notify.channels.channel import ChannelError, Sent
from tamis.notify.channels.files import explain, make_folder, sync_folder, write_whole
from tamis.notify.channels.rows import COLUMNS, Kind, Row, rows_of
from tamis.store import DueDelivery, Store

_TYPES: Mapping[Kind, pa.DataType] = {
    "text": pa.string(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "time": pa.timestamp("us", tz="UTC"),
    "json": pa.string(),
    "texts": pa.list_(pa.string()),
    "ranges": pa.list_(pa.list_(pa.int64())),
}

SCHEMA = pa.schema([(name, _TYPES[kind]) for name, kind in COLUMNS.items()])
"""The columns of a file: those of a line of ``jsonl``, with the properties as JSON, and the owner."""


class NumberedFiles:
    """Writes files into a folder, which it creates.

    Args:
        config: the delivery.
        store: keeps the number of the last batch.
    """

    batch_count = 500

    def __init__(self, config: ParquetDelivery | DeltaDelivery, store: Store) -> None:
        """Make the channel; no file is touched yet."""
        self._name, self._folder, self._store = config.name, config.folder.absolute(), store
        self._number: int | None = None  # of the last batch, if it is known to be recorded

    def open(self) -> None:
        """Find the number of the last batch, and record one that a crash has left.

        Raises:
            ChannelError: the folder cannot be used, or another pipeline writes under the same name.
        """
        make_folder(self._folder)
        recorded = self._store.file_size(self._name, self._folder)
        if recorded is None:  # another store's files: they stay, and our numbers follow theirs
            recorded = self._last()
            self._store.record_outcomes([], (self._name, self._folder, recorded))
        elif recorded != self._number:
            recorded = self._settled(recorded)
        self._number = recorded

    def deliver(self, due: Sequence[DueDelivery]) -> Sent:
        """Write one file with a row for each.

        Raises:
            ChannelError: it cannot be written; the next `open` finds out what was.
        """
        assert self._number is not None, "open comes first"  # noqa: S101 - for the type checker
        number, self._number = self._number + 1, None
        rows, failures = rows_of(due)
        if rows:
            content = parquet(list(rows.values()))
            path = self._folder / f"{self._prefix(number)}{next(iter(rows.values()))['id']}.parquet"
            try:
                write_whole(path, content)
                sync_folder(self._folder)
            except OSError as error:
                raise ChannelError(explain(path, error)) from error
            self._publish(number, path, len(rows))
        else:
            number -= 1
        self._number = number
        return Sent(failures, file_size=(self._name, self._folder, number))

    def interrupt(self) -> None:
        """Do nothing: nothing here waits."""

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _last(self) -> int:
        """Return the number of the last batch that is there; 0 if there is none."""
        raise NotImplementedError

    def _left(self, recorded: int) -> list[Path]:
        """Return the files that count, and whose batches come after this one.

        Raises:
            ChannelError: that cannot be found out.
        """
        raise NotImplementedError

    def _publish(self, number: int, path: Path, rows: int) -> None:
        """Let a file count.

        Raises:
            ChannelError: it cannot count; the file may be there.
        """
        raise NotImplementedError

    def _prefix(self, number: int) -> str:
        return f"{self._name}-{number:09}-"

    def _files(self) -> Iterator[tuple[int, Path]]:
        """Return the files of this delivery with their numbers."""
        pattern = re.compile(re.escape(self._name) + r"-(\d{9,})-[0-9a-f]+\.parquet")
        for path in self._folder.iterdir():
            if named := pattern.fullmatch(path.name):
                yield int(named[1]), path

    def _settled(self, recorded: int) -> int:
        """Record the batch that a crash has left, if there is one; return the number of the last batch."""
        left = self._left(recorded)
        if not left:
            return recorded
        try:
            ids = [str(it) for path in left for it in pq.read_table(path, columns=["id"]).column("id").to_pylist()]
        except (OSError, pa.ArrowException) as error:
            raise ChannelError(f"{left[0]}: what the last run has written cannot be read: {error}") from error
        if len(left) > 1 or self._store.pending_among(self._name, ids) != set(ids):
            raise ChannelError(
                f"{left[-1]}: this file was not written by this delivery: another pipeline writes under the name "
                f"'{self._name}', too. Give each delivery a folder or a name of its own"
            )
        number = recorded + 1
        self._store.mark_delivered(self._name, ids, "written before the last stop", (self._name, self._folder, number))
        return number


def parquet(rows: Sequence[Row]) -> bytes:
    """Return rows as a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([_typed(row) for row in rows], schema=SCHEMA), buffer, compression="zstd")
    return buffer.getvalue()


def _typed(row: Row) -> dict[str, Any]:
    properties = json.dumps(row["properties"], ensure_ascii=False)
    return {**row, "created_at": datetime.fromisoformat(row["created_at"]), "properties": properties}
