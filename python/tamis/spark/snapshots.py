"""Keeps the snapshot file of each revision of the queries while a batch may need it."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tamis.engine import Engine
from tamis.query import compile_query
from tamis.query.predicates import open_registered
from tamis.spark.matching.shipping import Shipped, stay
from tamis.store import QueryRecord

KEPT_MAX = 3
"""Number of snapshots kept besides those in use, because adapters may be a revision or two apart."""


class QuerySource(Protocol):
    """The part of the store that snapshots are made from: queries, and the hierarchies that they follow."""

    def queries_at(self, revision: int) -> Sequence[QueryRecord]:
        """Return the queries valid at `revision`, in the order in which they were added."""

    def hierarchies_at(self, revision: int) -> Mapping[str, Mapping[str, str | None]]:
        """Return attribute -> hierarchy, of those valid at `revision`."""


@dataclass(frozen=True)
class Snapshot:
    """The queries of one revision, in a mapped file. The keys of its engine are pairs of a query's key and version.

    Attributes:
        path: the path of the file.
        shipped: the file for workers.
        records: key -> the version of the query in this revision.
    """

    path: Path
    shipped: Shipped
    records: Mapping[str, QueryRecord]
    _engine: Engine = field(repr=False)

    def asked(self, names: Iterable[str]) -> tuple[list[str], bool, bool]:
        """Return the parts of messages that its queries ask for, as `tamis.Engine.asked`."""
        return self._engine.asked(names)

    def records_of(self, ids: Sequence[int]) -> list[QueryRecord]:
        """Return the queries of subscription ids, in the given order."""
        return [self.records[key] for key, _ in self._engine.keys(ids)]


class Snapshots:
    """Snapshots by revision. Thread-safe: the batches of each adapter run in a thread of their own.

    Each process writes its files again, under another name: the store may have been replaced, and with it the meaning
    of revisions.

    Args:
        source: the store.
        folder: where the files go; created if it is absent. Old files of tamis in it are removed.
        ship: takes a file, and the smallest revision that is still used, to the workers.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, source: QuerySource, folder: Path, ship: Callable[[Path, int], Shipped] = stay) -> None:
        self._source, self._folder, self._ship = source, folder, ship
        self._name = f"queries-{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._snapshots: OrderedDict[int, Snapshot] = OrderedDict()  # the one used longest ago is first
        self._users: dict[int, int] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("queries-*.tamis"):
            old.unlink()

    @contextmanager
    def at(self, revision: int) -> Iterator[Snapshot]:
        """Yield the snapshot of `revision`; its file stays while the block runs.

        Raises:
            OSError: the file cannot be written, such as on a full disk.

        Cost: for a new revision, compiling its new queries (about 10 µs each) and writing the file; else nothing.
        """
        with self._lock:
            snapshot = self._snapshots.get(revision) or self._make(revision)
            self._snapshots[revision] = snapshot
            self._snapshots.move_to_end(revision)
            self._users[revision] = self._users.get(revision, 0) + 1
        try:
            yield snapshot
        finally:
            with self._lock:
                self._users[revision] -= 1
                self._remove_old()

    def _make(self, revision: int) -> Snapshot:
        """Make a new snapshot from the one used last; only new versions of queries are compiled."""
        records = {record.key: record for record in self._source.queries_at(revision)}
        last = next(reversed(self._snapshots.values()), None)
        engine, before = (open_registered(last.path), last.records) if last else (Engine(), {})
        for key, old in before.items():
            if key not in records or records[key].version != old.version:
                engine.remove((key, old.version))
        engine.add_many(
            ((key, record.version), compile_query(record.text, record.language))
            for key, record in records.items()
            if before.get(key) != record
        )
        for attribute, parents in self._source.hierarchies_at(revision).items():
            engine.hierarchy(attribute, parents)
        path = (self._folder / f"{self._name}-{revision}.tamis").absolute()
        engine.save(path, opaque="names")
        return Snapshot(path, self._ship(path, min(self._snapshots, default=0)), records, engine)

    def _remove_old(self) -> None:
        unused = [revision for revision in self._snapshots if not self._users[revision]]
        for revision in unused[:-KEPT_MAX]:
            del self._users[revision]
            snapshot = self._snapshots.pop(revision)
            snapshot.shipped.withdraw()
            snapshot.path.unlink(missing_ok=True)
