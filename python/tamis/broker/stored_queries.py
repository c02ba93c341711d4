"""Reads what bindings use of the store, and finds what has changed: queries (`x-query-key`), and hierarchies (`UNDER`).

It reads SQLite directly, because loading the store's own package takes half a second, and writes nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

QueryText = tuple[str, str]
"""Language and text of a query."""

Hierarchies = dict[str, dict[str, str | None]]
"""Attribute -> value -> its parent, or None for a root."""

CHANGES_MAX: Final = 10_000
"""Maximum number of changes per call; the next call returns the remaining ones."""

_KEYS_AT_ONCE: Final = 500
"""Number of keys per statement; SQLite takes at least 999 parameters."""
_VALID: Final = "FROM query_versions WHERE to_revision IS NULL"
_ONE: Final = f"SELECT language, text {_VALID} AND key = ?"
_LATEST: Final = "SELECT coalesce(max(revision), 0) FROM revisions"
_CHANGED: Final = (
    f"SELECT key, language, text, from_revision {_VALID} AND (from_revision, key) > (?, ?) "
    "ORDER BY from_revision, key LIMIT ?"
)


_TABLE: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'hierarchy_versions'"
_TREES: Final = "FROM hierarchy_versions WHERE to_revision IS NULL"


class StoredQueries:
    """The queries of one store. For one thread at a time, but not always the same.

    Args:
        store: the file, which need not exist yet.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._next: tuple[int, str] = (0, "")  # revision and key from which `changes` goes on
        self._versions: dict[str, int] = {}  # attribute -> version of the hierarchy that was read last

    def get(self, key: str, timeout_s: float) -> QueryText | None:
        """Return the query under `key` now; None if there is none.

        Args:
            key: the key of the query.
            timeout_s: maximum wait for a writer that locks the store.

        Raises:
            LookupError: the store cannot be read.
        """
        with self._open(timeout_s) as store:
            query: QueryText | None = store.execute(_ONE, (key,)).fetchone()
        return query

    def begin(self, keys: Iterable[str], timeout_s: float) -> dict[str, QueryText]:
        """Return the queries under `keys`, without those that do not exist; `changes` begins after this state.

        Raises:
            LookupError: the store cannot be read.
        """
        if not self._store.is_file():
            return {}
        queries: dict[str, QueryText] = {}
        with self._open(timeout_s) as store:
            store.execute("BEGIN")  # one state of the store, whatever is written meanwhile
            (latest,) = store.execute(_LATEST).fetchone()
            wanted = list(keys)
            for start in range(0, len(wanted), _KEYS_AT_ONCE):
                part = wanted[start : start + _KEYS_AT_ONCE]
                marks = ", ".join("?" * len(part))
                rows = store.execute(f"SELECT key, language, text {_VALID} AND key IN ({marks})", part)
                queries.update((key, (language, text)) for key, language, text in rows)
        self._next = (latest + 1, "")
        return queries

    def changes(self, timeout_s: float) -> dict[str, QueryText]:
        """Return queries that were added or changed since the last call, at most `CHANGES_MAX`; removed ones are not.

        Cost: one look-up while nothing has changed; else a scan of all queries.

        Raises:
            LookupError: the store cannot be read; the next call returns the same changes.
        """
        if not self._store.is_file():
            return {}
        with self._open(timeout_s) as store:
            store.execute("BEGIN")
            (latest,) = store.execute(_LATEST).fetchone()
            if latest < self._next[0]:
                return {}
            rows = store.execute(_CHANGED, (*self._next, CHANGES_MAX)).fetchall()
        self._next = (rows[-1][3], rows[-1][0]) if len(rows) == CHANGES_MAX else (latest + 1, "")
        return {key: (language, text) for key, language, text, _ in rows}

    def changed_hierarchies(self, timeout_s: float) -> Hierarchies | None:
        """Return all hierarchies if one of them has changed since the last call, else None.

        Cost: one look-up while nothing has changed.

        Raises:
            LookupError: the store cannot be read; the next call returns the same change.
        """
        if not self._store.is_file():
            return None
        with self._open(timeout_s) as store:
            store.execute("BEGIN")
            if store.execute(_TABLE).fetchone() is None:
                return None  # a store that no newer version has opened yet
            versions = dict(store.execute(f"SELECT attribute, version {_TREES}"))
            if versions == self._versions:
                return None
            trees = {
                name: json.loads(parents) for name, parents in store.execute(f"SELECT attribute, parents {_TREES}")
            }
        self._versions = versions
        return trees

    @contextmanager
    def _open(self, timeout_s: float) -> Iterator[sqlite3.Connection]:
        try:
            address = f"{self._store.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=timeout_s)) as store:
                yield store
        except sqlite3.Error as error:
            raise LookupError(f"the store cannot be read: {error}") from error
