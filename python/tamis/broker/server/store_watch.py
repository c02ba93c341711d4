"""Watches the store, and updates bindings when the queries that they name have changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tamis.broker.log import Log
from tamis.broker.server.data_plane import DataPlane, now_us
from tamis.broker.stored_queries import QueryText, StoredQueries

TIMEOUT_S = 1.0
"""Maximum time that a writer may lock the store before reading is put off to the next check."""


class StoreWatch:
    """Keeps bindings with `x-query-key` up to date.

    Args:
        store: the store's file; None when the broker has none.
        plane: has the bindings.
        log: gets changes, and stores that cannot be read.
    """

    def __init__(self, store: Path | None, plane: DataPlane, log: Log) -> None:
        self._queries = StoredQueries(store) if store else None
        self._broker = plane.broker
        self._log = log
        self._pending: dict[str, QueryText] = {}
        self._last_error = ""
        self._is_reading = False

    def begin(self) -> None:
        """Update bindings whose queries changed while there was no broker."""
        if self._queries is None:
            return
        try:
            self._rebind(self._queries.begin(self._broker.stored_keys(), TIMEOUT_S))
        except LookupError as error:
            self._failed(error)

    def check(self) -> None:
        """Look for changed queries in a thread: that may take time where there are many."""
        if self._pending:
            self._rebind(self._pending)
        elif self._queries is not None and not self._is_reading:
            self._is_reading = True
            reading = asyncio.get_running_loop().run_in_executor(None, self._queries.changes, TIMEOUT_S)
            reading.add_done_callback(self._read)

    def _read(self, reading: asyncio.Future[dict[str, QueryText]]) -> None:
        self._is_reading = False
        if reading.cancelled():
            return
        if error := reading.exception():
            if not isinstance(error, LookupError):
                raise error
            self._failed(error)
            return
        self._last_error = ""
        self._rebind(reading.result())

    def _failed(self, error: LookupError) -> None:
        """Log an error once, and not every second."""
        if str(error) != self._last_error:
            self._log.warning("store not read", reason=str(error))
        self._last_error = str(error)

    def _rebind(self, queries: dict[str, QueryText]) -> None:
        """Update the bindings that name `queries`, or later if the journal has no room now."""
        self._pending = {}
        if not queries:
            return
        replaced = self._broker.replace_stored(queries, now_us())
        if replaced is None:
            self._pending = queries
            return
        bindings, refused = replaced
        if bindings:
            self._log.info("stored queries changed", bindings=bindings)
        for key, reason in refused:
            self._log.warning("stored query not bound", key=key, reason=reason)
