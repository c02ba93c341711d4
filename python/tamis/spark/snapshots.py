"""Keeps the queries of each revision for workers: a snapshot file, and the changes since it was written."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from tamis.engine.replica import Addition
from tamis.spark.matching.parts import Asked
from tamis.spark.matching.recorded import RecordedEngine
from tamis.spark.matching.shards.recorded import RecordedShards
from tamis.spark.matching.shipping import Shipped, number_of, series_of, shards_of, state_of, stay
from tamis.spark.matching.store_queries import Difference, Name, QuerySource, StoreQueries
from tamis.spark.matching.worker import AnyState
from tamis.store import QueryRecord

KEPT_MAX = 3
"""Number of snapshots kept besides those in use, because adapters may be a revision or two apart."""


@dataclass(frozen=True)
class Snapshot:
    """The queries of one revision.

    Attributes:
        state: returns the state of the engine in a worker.
        changes: what workers apply to the file that they map.
        asked: the parts of messages that its queries ask for, as `tamis.Engine.asked`, or more.
        names_of: the queries of subscription ids, in the given order.
    """

    state: Callable[[], AnyState]
    changes: tuple[bytes, ...]
    asked: Asked
    names_of: Callable[[Sequence[int]], list[Name]]


class _Kept(NamedTuple):
    """A snapshot, the paths of its files, and the number of the change that led to it."""

    snapshot: Snapshot
    paths: frozenset[Path]
    number: int


_Ship = Callable[[Path], Shipped]
"""Takes a file to the workers, once."""


class _Queries(Protocol):
    """The queries of the revision that was made last.

    Attributes:
        number: counts their changes.
    """

    number: int

    def go_to(self, revision: int) -> None:
        """Change to the queries of a revision, which may be an earlier one."""

    def make(self, ship: _Ship) -> _Kept:
        """Return them as a snapshot."""

    def forget(self, number: int) -> None:
        """Forget the names that no snapshot from this number on has."""


class _Original:
    """The queries in one engine, and the names of those that left it: see `_Queries`."""

    def __init__(self, source: QuerySource, folder: Path) -> None:
        self._queries = StoreQueries(source)
        self._recorded: RecordedEngine[Name] = RecordedEngine(folder, f"queries-{secrets.token_hex(4)}")
        self._gone: dict[int, tuple[int, Name]] = {}  # id -> the number of the change that removed it, and its name
        self.number = 0
        self._engine = self._recorded.engine

    def go_to(self, revision: int) -> None:
        """Change the engine. Cost: about 10 µs for each changed query; at first all are new."""
        if difference := self._queries.difference(revision):
            self._change(difference)
        self._queries.go(difference)

    def _change(self, difference: Difference) -> None:
        self.number += 1
        removed = difference.removed
        # Before they leave: another thread may ask for their names meanwhile.
        leaving = zip(self._engine.ids(removed), removed, strict=True)
        self._gone.update((one, (self.number, name)) for one, name in leaving)
        self._recorded.change(removed, map(_addition, difference.added), difference.hierarchies)

    def make(self, ship: _Ship) -> _Kept:
        path, changes, asked = self._recorded.state()
        snapshot = Snapshot(state_of(ship(path).location, changes), changes, asked, self.names_of)
        return _Kept(snapshot, frozenset([path]), self.number)

    def names_of(self, ids: Sequence[int]) -> list[Name]:
        """Return the names of the subscriptions of a snapshot that is still kept."""
        try:
            return self._engine.keys(ids)
        except KeyError:
            return [self._gone[one][1] if one in self._gone else self._engine.keys([one])[0] for one in ids]

    def forget(self, number: int) -> None:
        while self._gone and self._gone[first := next(iter(self._gone))][0] <= number:
            del self._gone[first]


class _InShards:
    """The queries in shards, which are written anew after many changes: see `_Queries`."""

    def __init__(self, source: QuerySource, folder: Path, shards: int) -> None:
        self._queries, self._folder, self._shards = StoreQueries(source), folder, shards
        self._name, self._cuts = f"queries-{secrets.token_hex(4)}", 0
        self._recorded: RecordedShards[Name] | None = None
        self.number = 0

    def go_to(self, revision: int) -> None:
        """Change the queries. Cost: about 120 µs for each query if the shards are written, else for each change."""
        if self._recorded is None:
            self._write(revision)
            return
        removed, added = (difference := self._queries.difference(revision)).removed, difference.added
        if difference and not self._recorded.takes(removed, added):
            self._write(revision)
            return
        if difference:
            self.number += 1
            self._recorded.change(removed, map(_addition, added), difference.hierarchies, self.number)
        self._queries.go(difference)

    def _write(self, revision: int) -> None:
        self._recorded = None  # if this fails, nobody knows where `_queries` is
        queries, hierarchies = self._queries.read_all(revision)
        cut = self._cuts + 1
        self._recorded = RecordedShards(
            self._folder, self._name, cut, self._shards, map(_addition, queries), hierarchies
        )
        self._cuts, self.number = cut, self.number + 1

    def make(self, ship: _Ship) -> _Kept:
        assert self._recorded is not None  # noqa: S101 - for the type checker: `go_to` comes first
        paths, gone, hierarchies, changed, asked = self._recorded.state()
        state = shards_of(
            ship(paths.directory).location,
            [ship(path).location for path in paths.snapshots],
            [ship(path).location for path in paths.positions],
            (gone, hierarchies, state_of(ship(changed.path).location, changed.changes)),
        )
        snapshot = Snapshot(state, changed.changes, asked, self._recorded.keys_of)
        return _Kept(snapshot, frozenset([*paths.all(), changed.path]), self.number)

    def forget(self, number: int) -> None:
        if self._recorded is not None:
            self._recorded.forget(number)


def _addition(record: QueryRecord) -> Addition:
    return Addition((record.key, record.version), record.text, record.language)


class Snapshots:
    """Snapshots by revision. Thread-safe: the batches of each adapter run in a thread of their own.

    There is one engine, which is changed from revision to revision. Workers get its file, and then the changes, until
    these are many. Each process writes files of its own names: the store may have been replaced, and with it the
    meaning of revisions.

    Args:
        source: the store.
        folder: where the files go; created if it is absent. Old files of tamis in it are removed.
        ship: takes a file, and the smallest number of a file of its kind that is still used, to the workers.
        shards: number of shards into which the queries are cut; 0: they are in one file.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(
        self, source: QuerySource, folder: Path, ship: Callable[[Path, int], Shipped] = stay, *, shards: int = 0
    ) -> None:
        self._original: _Queries = _InShards(source, folder, shards) if shards else _Original(source, folder)
        self._ship = ship
        self._lock = threading.Lock()
        self._snapshots: OrderedDict[int, _Kept] = OrderedDict()  # the one used longest ago is first
        self._users: dict[int, int] = {}
        self._newest: frozenset[Path] = frozenset()
        self._shipped: dict[Path, Shipped] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("queries-*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()

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
        self._original.go_to(revision)
        kept = self._original.make(self._shipped_once)
        self._newest = kept.paths
        return kept

    def _shipped_once(self, path: Path) -> Shipped:
        if path not in self._shipped:
            used = [number_of(other) for other in self._shipped if series_of(other) == series_of(path)]
            self._shipped[path] = self._ship(path, min(used, default=number_of(path)))
        return self._shipped[path]

    def _remove_old(self) -> None:
        unused = [revision for revision in self._snapshots if not self._users[revision]]
        for revision in unused[:-KEPT_MAX]:
            del self._users[revision], self._snapshots[revision]
        kept = self._snapshots.values()
        self._original.forget(min(it.number for it in kept))
        for path in self._shipped.keys() - self._newest.union(*(it.paths for it in kept)):
            self._shipped.pop(path).withdraw()
            path.unlink(missing_ok=True)
