"""Watches the store, and updates bindings when the queries that they name, or hierarchies, have changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tamis._core import StoredHierarchies
from tamis.broker.log import Log
from tamis.broker.server.data_plane import DataPlane, now_us
from tamis.broker.stored_queries import QueryText, StoredQueries

TIMEOUT_S = 1.0
"""Maximum time that a writer may lock the store before reading is put off to the next check."""


class StoreWatch:
    """Keeps bindings with `x-query-key` up to date, and the hierarchies that all queries follow.

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
        self._rebound_count = 0
        self._last_error = ""
        self._is_reading = False

    def begin(self) -> None:
        """Take the hierarchies, and update bindings whose queries changed while there was no broker."""
        if self._queries is None:
            return
        try:
            if (hierarchies := self._queries.changed_hierarchies(TIMEOUT_S)) is not None:
                self._follow(hierarchies)
            self._pending = self._queries.begin(self._broker.stored_keys(), TIMEOUT_S)
        except LookupError as error:
            self._failed(error)
        while self._rebind():
            pass

    def check(self) -> None:
        """Look for changes in a thread: that may take time where there are many."""
        if self._pending:
            self._rebind_all()
        elif self._queries is not None and not self._is_reading:
            self._is_reading = True
            reading = asyncio.get_running_loop().run_in_executor(None, _changes, self._queries)
            reading.add_done_callback(self._read)

    def _read(self, reading: asyncio.Future[tuple[StoredHierarchies | None, dict[str, QueryText]]]) -> None:
        self._is_reading = False
        if reading.cancelled():
            return
        if error := reading.exception():
            if not isinstance(error, LookupError):
                raise error
            self._failed(error)
            return
        self._last_error = ""
        hierarchies, queries = reading.result()
        if hierarchies is not None:
            self._follow(hierarchies)
            # It has those before now, which may be many values.
            asyncio.get_running_loop().run_in_executor(None, hierarchies.clear)
        self._pending = queries
        self._rebind_all()

    def _failed(self, error: LookupError) -> None:
        """Log an error once, and not every second."""
        if str(error) != self._last_error:
            self._log.warning("store not read", reason=str(error))
        self._last_error = str(error)

    def _follow(self, hierarchies: StoredHierarchies) -> None:
        """Let all queries follow these hierarchies from the next message on. Afterwards they are those before."""
        attributes = hierarchies.attributes()
        self._broker.set_hierarchies(hierarchies, now_us())
        self._log.info("hierarchies changed", attributes=attributes)

    def _rebind_all(self) -> None:
        """Update all bindings, some at a time: clients have their turn in between."""
        if self._rebind():
            asyncio.get_running_loop().call_soon(self._rebind_all)

    def _rebind(self) -> bool:
        """Update some of the bindings that name pending queries, or none if the journal has no room now.

        Returns:
            Whether more have to follow at once.
        """
        if not self._pending:
            return False
        replaced = self._broker.replace_stored(self._pending, now_us())
        if replaced is None:
            return False
        bindings, refused, has_more = replaced
        self._rebound_count += bindings
        for key, reason in refused:
            self._log.warning("stored query not bound", key=key, reason=reason)
            del self._pending[key]
        if has_more:
            return True
        if self._rebound_count:
            self._log.info("stored queries changed", bindings=self._rebound_count)
        self._pending, self._rebound_count = {}, 0
        return False


def _changes(queries: StoredQueries) -> tuple[StoredHierarchies | None, dict[str, QueryText]]:
    """Return the hierarchies if they have changed, and the queries that have."""
    return queries.changed_hierarchies(TIMEOUT_S), queries.changes(TIMEOUT_S)
