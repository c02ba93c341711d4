"""Queries of the store, for bindings that name one (`x-query-key`): by their keys, and those that have changed.

Read straight from SQLite: loading the store's own package takes half a second. Nothing is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from tamis.errors import TamisError

Text = tuple[str, str]
"""Language and text of a query."""

BOUND_LANGUAGES: Final = frozenset(("selector", "cbm", "boolean", "text"))
"""What `x-query-language` takes. Queries in other languages are bound as the selector text that every query has."""

CHANGES_MAX: Final = 10_000
"""So many changes are given at once; the rest with the next call."""

_KEYS_AT_ONCE: Final = 500
"""SQLite takes at least 999 parameters."""
_VALID: Final = "FROM query_versions WHERE to_revision IS NULL"
_ONE: Final = f"SELECT language, text {_VALID} AND key = ?"
_LATEST: Final = "SELECT coalesce(max(revision), 0) FROM revisions"
_CHANGED: Final = (
    f"SELECT key, language, text, from_revision {_VALID} AND (from_revision, key) > (?, ?) "
    "ORDER BY from_revision, key LIMIT ?"
)


class StoredQueries:
    """The queries of one store, as they are. For one thread at a time, whichever it is.

    Args:
        store: the file; it may come later.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._seen: tuple[int, str] = (0, "")

    def get(self, key: str, timeout_s: float) -> Text | None:
        """The query under `key` now; None where there is none.

        Args:
            key: of the query.
            timeout_s: for a writer that lets nobody read.

        Raises:
            LookupError: the store cannot be read.
        """
        with self._open(timeout_s) as store:
            found: Text | None = store.execute(_ONE, (key,)).fetchone()
        return _bindable(*found) if found else None

    def begin(self, keys: Iterable[str], timeout_s: float) -> dict[str, Text]:
        """Those of `keys` that there are; `changes` then begins behind this state.

        Raises:
            LookupError: the store cannot be read.
        """
        if not self._store.is_file():
            return {}
        found: dict[str, Text] = {}
        with self._open(timeout_s) as store:
            store.execute("BEGIN")  # one state of the store, whoever writes meanwhile
            (latest,) = store.execute(_LATEST).fetchone()
            wanted = list(keys)
            for start in range(0, len(wanted), _KEYS_AT_ONCE):
                some = wanted[start : start + _KEYS_AT_ONCE]
                marks = ", ".join("?" * len(some))
                rows = store.execute(f"SELECT key, language, text {_VALID} AND key IN ({marks})", some)
                found.update((key, _bindable(language, text)) for key, language, text in rows)
        self._seen = (latest + 1, "")
        return found

    def changes(self, timeout_s: float) -> dict[str, Text]:
        """Queries that were added or have changed since the last call, at most `CHANGES_MAX`. Those removed are none.

        Cost: a look-up while nothing has changed; else a look at all queries.

        Raises:
            LookupError: the store cannot be read; the next call gives what this one would have.
        """
        if not self._store.is_file():
            return {}
        with self._open(timeout_s) as store:
            store.execute("BEGIN")
            (latest,) = store.execute(_LATEST).fetchone()
            if latest < self._seen[0]:
                return {}
            rows = store.execute(_CHANGED, (*self._seen, CHANGES_MAX)).fetchall()
        self._seen = (rows[-1][3], rows[-1][0]) if len(rows) == CHANGES_MAX else (latest + 1, "")
        return {key: _bindable(language, text) for key, language, text, _ in rows}

    @contextmanager
    def _open(self, timeout_s: float) -> Iterator[sqlite3.Connection]:
        try:
            address = f"{self._store.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=timeout_s)) as store:
                yield store
        except sqlite3.Error as error:
            raise LookupError(f"the store cannot be read: {error}") from error


def _bindable(language: str, text: str) -> Text:
    """The same query as a binding can have it. One that cannot be read is left to the broker, which says why."""
    if language in BOUND_LANGUAGES:
        return language, text
    from tamis.query import compile_query

    try:
        return "selector", str(compile_query(text, language))
    except TamisError:
        return language, text
