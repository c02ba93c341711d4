"""Reads what bindings use of the store, and finds what has changed: queries (`x-query-key`), and hierarchies (`UNDER`).

It reads SQLite directly, because loading the store's own package takes half a second, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tamis._core import StoredHierarchies

if TYPE_CHECKING:
    import sqlite3

QueryText = tuple[str, str]
"""Language and text of a query."""

SILENT: Final[QueryText] = ("selector", "FALSE")
"""The text that stands for a query that is paused or expired."""

CHANGES_MAX: Final = 10_000
"""Maximum number of changes per call; the next call returns the remaining ones."""

_KEYS_AT_ONCE: Final = 500
"""Number of keys per statement; SQLite takes at least 999 parameters."""
_VALID: Final = "FROM query_versions WHERE to_revision IS NULL"
_LATEST: Final = "SELECT coalesce(max(revision), 0) FROM revisions"
_CHANGED: Final = "AND (from_revision, key) > (?, ?) ORDER BY from_revision, key LIMIT ?"
_EXPIRED: Final = (
    f"SELECT key, expires_at {_VALID} AND expires_at <= ? AND (expires_at, key) > (?, ?) "
    "ORDER BY expires_at, key LIMIT ?"
)
_EXPIRES: Final = "SELECT 1 FROM pragma_table_info('query_versions') WHERE name = 'expires_at'"


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
        self._expired: tuple[str, str] = ("", "")  # the same for time of expiry and key
        self._versions: dict[str, int] = {}  # attribute -> version of the hierarchy that was read last

    def get(self, key: str, timeout_s: float) -> QueryText | None:
        """Return the query under `key` now, `SILENT` if it is paused or expired; None if there is none.

        Args:
            key: the key of the query.
            timeout_s: maximum wait for a writer that locks the store.

        Raises:
            LookupError: the store cannot be read.
        """
        with self._open(timeout_s) as store:
            store.execute("BEGIN")
            rows = _read(store, "AND key = ?", (key,), _now())
        return rows[0][1] if rows else None

    def begin(self, keys: Iterable[str], timeout_s: float) -> dict[str, QueryText]:
        """Return the queries under `keys`, without those that do not exist; `changes` begins after this state.

        Raises:
            LookupError: the store cannot be read.
        """
        if not self._store.is_file():
            return {}
        queries: dict[str, QueryText] = {}
        now = _now()
        with self._open(timeout_s) as store:
            store.execute("BEGIN")  # one state of the store, whatever is written meanwhile
            (latest,) = store.execute(_LATEST).fetchone()
            wanted = list(keys)
            for start in range(0, len(wanted), _KEYS_AT_ONCE):
                part = wanted[start : start + _KEYS_AT_ONCE]
                marks = ", ".join("?" * len(part))
                queries.update((key, query) for key, query, _ in _read(store, f"AND key IN ({marks})", part, now))
        self._next, self._expired = (latest + 1, ""), (now, "")
        return queries

    def changes(self, timeout_s: float) -> dict[str, QueryText]:
        """Return queries that were added, changed or expired since the last call; removed ones are not.

        At most `CHANGES_MAX` of each. Cost: two look-ups while nothing has changed; else a scan of all queries.

        Raises:
            LookupError: the store cannot be read; the next call returns the same changes.
        """
        if not self._store.is_file():
            return {}
        with self._open(timeout_s) as store:
            store.execute("BEGIN")
            now = _now()
            expired = self._expired_until(store, now)
            (latest,) = store.execute(_LATEST).fetchone()
            if latest < self._next[0]:
                return expired
            rows = _read(store, _CHANGED, (*self._next, CHANGES_MAX), now)
        self._next = (rows[-1][2], rows[-1][0]) if len(rows) == CHANGES_MAX else (latest + 1, "")
        return expired | {key: query for key, query, _ in rows}

    def _expired_until(self, store: sqlite3.Connection, now: str) -> dict[str, QueryText]:
        if not _knows_expiry(store):
            return {}
        rows = store.execute(_EXPIRED, (now, *self._expired, CHANGES_MAX)).fetchall()
        if rows:
            self._expired = (rows[-1][1], rows[-1][0])
        return {key: SILENT for key, _ in rows}

    def changed_hierarchies(self, timeout_s: float) -> StoredHierarchies | None:
        """Return all hierarchies if one of them has changed since the last call, else None.

        Cost: one look-up while nothing has changed.

        Raises:
            LookupError: the store, or a hierarchy in it, cannot be read; the next call returns the same change.
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
            texts = dict(store.execute(f"SELECT attribute, parents {_TREES}"))
        try:
            trees = StoredHierarchies(texts)
        except ValueError as error:
            raise LookupError(f"the hierarchies of the store cannot be read: {error}") from error
        self._versions = versions
        return trees

    @contextmanager
    def _open(self, timeout_s: float) -> Iterator[sqlite3.Connection]:
        import sqlite3  # not before a store is read: it is a part of the time that a broker takes to start

        try:
            address = f"{self._store.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=timeout_s)) as store:
                yield store
        except sqlite3.Error as error:
            raise LookupError(f"the store cannot be read: {error}") from error


def _now() -> str:
    """Return the time as the store writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _knows_expiry(store: sqlite3.Connection) -> bool:
    """Return whether queries of the store can be paused and expire: no newer version may have opened it yet."""
    return store.execute(_EXPIRES).fetchone() is not None


def _read(
    store: sqlite3.Connection, where: str, values: Iterable[object], now: str
) -> list[tuple[str, QueryText, int]]:
    """Return key, query and revision of the valid queries that satisfy a condition."""
    silent = "paused OR coalesce(expires_at <= ?, FALSE)" if _knows_expiry(store) else "FALSE AND ?"
    statement = f"SELECT key, language, text, from_revision, {silent} {_VALID} {where}"
    rows = store.execute(statement, (now, *values))
    return [(key, SILENT if is_silent else (language, text), number) for key, language, text, number, is_silent in rows]
