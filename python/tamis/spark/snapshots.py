"""Keeps the queries of each revision for workers: a snapshot file, and the changes since it was written."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tamis.engine.replica import Addition
from tamis.spark.matching.columns import Asked
from tamis.spark.matching.recorded import RecordedEngine
from tamis.spark.matching.shipping import Shipped, state_of, stay
from tamis.spark.matching.store_queries import Difference, Name, QuerySource, StoreQueries
from tamis.spark.matching.worker import State

KEPT_MAX = 3
"""Number of snapshots kept besides those in use, because adapters may be a revision or two apart."""


@dataclass(frozen=True)
class Snapshot:
    """The queries of one revision.

    Attributes:
        shipped: the file that workers map.
        changes: what they apply to it.
        asked: the parts of messages that its queries ask for, as `tamis.Engine.asked`, or more.
        names_of: the queries of subscription ids, in the given order.
    """

    shipped: Shipped
    changes: tuple[bytes, ...]
    asked: Asked
    names_of: Callable[[Sequence[int]], list[Name]]

    @property
    def state(self) -> Callable[[], State]:
        """A function that returns the state of the engine in a worker."""
        return state_of(self.shipped.location, self.changes)


class _Kept(NamedTuple):
    """A snapshot, the path of its file, and the number of the change that led to it."""

    snapshot: Snapshot
    path: Path
    number: int


class _Original:
    """The engine of the revision that was made last, and the names of queries that left it.

    Attributes:
        number: counts the changes of the engine.
    """

    def __init__(self, source: QuerySource, folder: Path) -> None:
        self._queries = StoreQueries(source)
        self._recorded: RecordedEngine[Name] = RecordedEngine(folder, f"queries-{secrets.token_hex(4)}")
        self._gone: dict[int, tuple[int, Name]] = {}  # id -> the number of the change that removed it, and its name
        self.number = 0
        self._engine, self.state = self._recorded.engine, self._recorded.state

    def go_to(self, revision: int) -> None:
        """Change the engine to the queries of a revision, which may be an earlier one.

        Cost: about 10 µs for each changed query; at first all are new.
        """
        if difference := self._queries.difference(revision):
            self._change(difference)
        self._queries.go(difference)

    def _change(self, difference: Difference) -> None:
        self.number += 1
        removed = difference.removed
        # Before they leave: another thread may ask for their names meanwhile.
        leaving = zip(self._engine.ids(removed), removed, strict=True)
        self._gone.update((one, (self.number, name)) for one, name in leaving)
        added = (Addition((it.key, it.version), it.text, it.language) for it in difference.added)
        self._recorded.change(removed, added, difference.hierarchies)

    def names_of(self, ids: Sequence[int]) -> list[Name]:
        """Return the names of the subscriptions of a snapshot that is still kept."""
        try:
            return self._engine.keys(ids)
        except KeyError:
            return [self._gone[one][1] if one in self._gone else self._engine.keys([one])[0] for one in ids]

    def forget(self, number: int) -> None:
        """Forget the names that no snapshot from this number on has."""
        while self._gone and self._gone[first := next(iter(self._gone))][0] <= number:
            del self._gone[first]


class Snapshots:
    """Snapshots by revision. Thread-safe: the batches of each adapter run in a thread of their own.

    There is one engine, which is changed from revision to revision. Workers get its file, and then the changes, until
    these are many. Each process writes files of its own names: the store may have been replaced, and with it the
    meaning of revisions.

    Args:
        source: the store.
        folder: where the files go; created if it is absent. Old files of tamis in it are removed.
        ship: takes a file, and the smallest number of a file that is still used, to the workers.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, source: QuerySource, folder: Path, ship: Callable[[Path, int], Shipped] = stay) -> None:
        self._original, self._ship = _Original(source, folder), ship
        self._lock = threading.Lock()
        self._snapshots: OrderedDict[int, _Kept] = OrderedDict()  # the one used longest ago is first
        self._users: dict[int, int] = {}
        self._shipped: OrderedDict[Path, Shipped] = OrderedDict()  # oldest first
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("queries-*.tamis"):
            old.unlink()

    @contextmanager
    def at(self, revision: int) -> Iterator[Snapshot]:
        """Yield the snapshot of `revision`; its file stays while the block runs.

        Raises:
            OSError: the file cannot be written, such as on a full disk.

        Cost: for a new revision, compiling its changed queries (about 10 µs each), and at times writing the file; else
        nothing.
        """
        with self._lock:
            kept = self._snapshots.get(revision) or self._make(revision)
            self._snapshots[revision] = kept
            self._snapshots.move_to_end(revision)
            self._users[revision] = self._users.get(revision, 0) + 1
        try:
            yield kept.snapshot
        finally:
            with self._lock:
                self._users[revision] -= 1
                self._remove_old()

    def _make(self, revision: int) -> _Kept:
        original = self._original
        original.go_to(revision)
        path, changes, asked = original.state()
        if path not in self._shipped:
            self._shipped[path] = self._ship(path, _number(next(iter(self._shipped), path)))
        snapshot = Snapshot(self._shipped[path], changes, asked, original.names_of)
        return _Kept(snapshot, path, original.number)

    def _remove_old(self) -> None:
        unused = [revision for revision in self._snapshots if not self._users[revision]]
        for revision in unused[:-KEPT_MAX]:
            del self._users[revision], self._snapshots[revision]
        kept = self._snapshots.values()
        self._original.forget(min(it.number for it in kept))
        newest = next(reversed(self._shipped))
        for path in self._shipped.keys() - {newest, *(it.path for it in kept)}:
            self._shipped.pop(path).withdraw()
            path.unlink(missing_ok=True)


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
