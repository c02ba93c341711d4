"""What the data plane asks of the control plane, synchronously and rarely: it remembers the answers."""

from __future__ import annotations

from pathlib import Path

from tamis.broker.access import Access, Verb
from tamis.broker.stored_queries import StoredQueries

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

        Raises:
            LookupError: there is none, or no store, or it cannot be read.
        """
        if self._store is None:
            raise LookupError("the broker has no store: give `store` in tamis.toml")
        if not self._store.is_file():
            raise LookupError(f"there is no store at {self._store.name} yet")
        query = StoredQueries(self._store).get(key, _BUSY_TIMEOUT_S)
        if query is None:
            raise LookupError(f"the store has no query '{key}'")
        return query
