"""Adds Parquet files to a Delta table, each numbered batch of a stream once.

A commit carries the name of the stream and the number of the batch. The table keeps the last number of each stream."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from tamis.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("tamis.store")


class File(NamedTuple):
    """A Parquet file that a task has written.

    Attributes:
        name: the name in the folder of its table.
        rows: the number of rows.
        size: the size in bytes.
    """

    name: str
    rows: int
    size: int


class Table:
    """A Delta table that takes each batch once.

    Args:
        folder: the folder of the table, which is made if it is absent.
        schema: the schema of its rows.

    Raises:
        StoreError: it cannot be made or opened, or an existing table lacks one of the columns.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder, self._schema, self._turn = folder, schema, threading.Lock()
        with self._explained():
            folder.mkdir(parents=True, exist_ok=True)
            self._table = DeltaTable.create(str(folder), schema, mode="ignore")
            if missing := set(schema.names) - {field.name for field in self._table.schema().fields}:
                raise StoreError(
                    f"{folder}: the Delta table is another program's: it has no column '{min(missing)}'; give another "
                    "folder"
                )
            # Files that tasks of killed runs have left. They are a week old, so that nobody is still writing them.
            self._table.vacuum(dry_run=False, full=True)

    def commit(self, stream: str, number: int, files: Sequence[File]) -> bool:
        """Add the files of a batch in one commit; if the table has the batch, remove them.

        Returns:
            Whether they were added.

        Raises:
            StoreError: a file is absent or has another size, or the commit cannot be written. Then nothing counts.
        """
        if not files:
            return False
        with self._turn, self._explained():
            self._check(files)
            self._table.update_incremental()
            last = self._last(stream)
            if last is not None and last >= number:
                _log.info("%s: has batch %d of '%s' already", self._folder, number, stream)
                for file in files:
                    (self._folder / file.name).unlink()
                return False
            self._sync(self._folder)
            self._table.create_write_transaction(
                [self._action(file) for file in files],
                mode="append",
                schema=self._schema,
                commit_properties=CommitProperties(app_transactions=[Transaction(stream, number)]),
            )
            self._sync_log()
            return True

    def last(self, stream: str) -> int | None:
        """Return the number of the last batch of a stream in the table; None if it has no batch of it.

        Raises:
            StoreError: the table cannot be read.
        """
        with self._turn, self._explained():
            self._table.update_incremental()
            return self._last(stream)

    def _last(self, stream: str) -> int | None:
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
