"""What the data plane asks of the control plane, synchronously and rarely: it remembers the answers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tamis.broker.access import Access, Verb

_CURRENT_QUERY = "SELECT language, text FROM query_versions WHERE key = ? AND to_revision IS NULL"
_BUSY_TIMEOUT_S = 0.01
"""A writer of the store lets readers go on; should it not, the client binds again, and nobody waits for it."""


class Rules:
    """The answers: from the users in force, and from the store. None of them calls the data plane back.

    Attributes:
        access: the users in force; another one is put here when they change.
    """

    def __init__(self, access: Access, store: Path | None) -> None:
        self.access = access
        self._store = store

    def allowed(self, user: str, verb: Verb, vhost: str, resource: str, routing_key: str | None) -> bool:
        """As `Access.allowed`."""
        return self.access.allowed(user, verb, vhost, resource, routing_key)

    def has_topic_rules(self, user: str, vhost: str) -> bool:
        """As `Access.has_topic_rules`."""
        return self.access.has_topic_rules(user, vhost)

    def limits(self, user: str) -> tuple[int | None, int | None]:
        """Connections and queues that the user may have."""
        found = self.access.limits(user)
        return found.connections, found.queues

    def stored_query(self, key: str) -> tuple[str, str]:
        """Language and text of the query that the store has under `key` now.

        Read straight from SQLite: loading the store's own package takes half a second, on the event loop.

        Raises:
            LookupError: there is none, or no store, or it cannot be read.
        """
        if self._store is None:
            raise LookupError("the broker has no store: give `store` in tamis.toml")
        if not self._store.is_file():
            raise LookupError(f"there is no store at {self._store.name} yet")
        try:
            address = f"{self._store.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_TIMEOUT_S)) as store:
                row = store.execute(_CURRENT_QUERY, (key,)).fetchone()
        except sqlite3.Error as error:
            raise LookupError(f"the store cannot be read: {error}") from error
        if row is None:
            raise LookupError(f"the store has no query '{key}'")
        language, text = row
        return language, text
