"""The control plane's answers to the data plane, which asks rarely because it caches them."""

from __future__ import annotations

from pathlib import Path

from tamis.broker.stored_queries import StoredQueries
from tamis.broker.users.access import Access, Verb

_BUSY_TIMEOUT_S = 0.01
"""Maximum wait for a writer that locks the store. Normally writers do not; if one does, the client must bind again."""


class Rules:
    """Answers from the users in force and from the store. No answer calls the data plane.

    Attributes:
        access: the users in force; replaced when they change.
    """

    def __init__(self, access: Access, store: Path | None) -> None:
        self.access = access
        self._store = store

    def allowed(self, user: str, verb: Verb, vhost: str, resource: str, routing_key: str | None) -> bool:
        """Return the same as `Access.allowed`."""
        return self.access.allowed(user, verb, vhost, resource, routing_key)

    def has_topic_rules(self, user: str, vhost: str) -> bool:
        """Return the same as `Access.has_topic_rules`."""
        return self.access.has_topic_rules(user, vhost)

    def limits(self, user: str) -> tuple[int | None, int | None]:
        """Return the maximum numbers of connections and queues of a user."""
        limits = self.access.limits(user)
        return limits.connections, limits.queues

    def stored_query(self, key: str) -> tuple[str, str]:
        """Return language and text of the query that the store has under `key` now.

        Raises:
            LookupError: the query or the store does not exist, or the store cannot be read.
        """
        if self._store is None:
            raise LookupError("the broker has no store: give `store` in tamis.toml")
        if not self._store.is_file():
            raise LookupError(f"there is no store at {self._store.name} yet")
        query = StoredQueries(self._store).get(key, _BUSY_TIMEOUT_S)
        if query is None:
            raise LookupError(f"the store has no query '{key}'")
        return query
