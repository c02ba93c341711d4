"""Keeps queries in shards as workers get them: the shards, the ids that have left them, and what came since."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple

import numpy as np

from tamis.engine.keys import K
from tamis.engine.replica import Addition
from tamis.engine.shard_directory import DIRECTORY, ShardDirectory
from tamis.engine.shards import cut_shards, positions_path, snapshot_path
from tamis.query.hierarchy import Parents
from tamis.spark.matching.parts import Asked, either
from tamis.spark.matching.recorded import RecordedEngine, RecordedState
from tamis.spark.matching.shards.engine import CHANGED_ID_MIN, ShardedEngine, encode_hierarchies
from tamis.spark.matching.worker import here

CHANGED_MIN: Final = 1_000
CHANGED_MAX: Final = 100_000
"""Shards are written anew when the queries that left them or came since are more than those of a shard, within these
bounds: the ids of those that left travel with each batch, and those that came are in the memory of each worker."""


class ShardPaths(NamedTuple):
    """The files of shards on this machine: the directory, and the snapshot and the positions of each shard."""

    directory: Path
    snapshots: tuple[Path, ...]
    positions: tuple[Path, ...]

    def all(self) -> tuple[Path, ...]:
        """Return all files."""
        return (self.directory, *self.snapshots, *self.positions)


class RecordedShardState(NamedTuple):
    """A state of the queries.

    Attributes:
        paths: the shards.
        gone: ids in them that do not match any more, as `ShardedEngine` takes them.
        hierarchies: those that were replaced since, as `ShardedEngine` takes them.
        changed: the engine of the queries that came since.
        asked: as `tamis.Engine.asked`, or more.
    """

    paths: ShardPaths
    gone: bytes
    hierarchies: bytes
    changed: RecordedState
    asked: Asked


class RecordedShards(Generic[K]):
    """Queries that were cut into shards once, and have changed since. Not thread-safe.

    Args:
        folder: where the files go.
        name: how their names begin.
        number: how their names end; those of a later cut have a larger one.
        shards: number of shards.
        queries: all of them.
        hierarchies: all of them.

    Raises:
        ConfigError, QueryError: a query cannot be compiled.
        OSError: the files cannot be written; nothing remains of them.

    Cost: as `tamis.engine.shards.write_shards`.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        number: int,
        shards: int,
        queries: Iterable[Addition],
        hierarchies: Mapping[str, Parents],
    ) -> None:
        hashes = array("q")

        def hashed() -> Iterator[tuple[K, str, str]]:
            for it in queries:
                hashes.append(hash(it.key))
                yield it

        cut = folder / f"{name}-{number}"
        summary = cut_shards(hashed(), cut, shards, hierarchies)
        self.paths = _moved(cut, folder, name, number, summary.shards)
        self.count = summary.queries
        self._changed_max = max(CHANGED_MIN, min(CHANGED_MAX, self.count // shards))
        self._order = np.argsort(np.frombuffer(hashes, np.int64), kind="stable")
        self._hashes = np.frombuffer(hashes, np.int64)[self._order]
        self._directory_asked = ShardDirectory(self.paths.directory).asked
        self._gone: set[int] = set()
        self._replaced: dict[str, Parents] = {}
        self._changed: RecordedEngine[K] = RecordedEngine(folder, f"{name}c{number}")
        self._changed.change([], [], hierarchies)
        directory, snapshots, positions = self.paths
        self._cut = ShardedEngine((here(directory), list(map(here, snapshots)), list(map(here, positions))))
        self._left: dict[int, tuple[int, K]] = {}  # id -> the number of the change that removed it, and its key

    def __len__(self) -> int:
        """Return the number of queries."""
        return self.count - len(self._gone) + len(self._changed.engine)

    def takes(self, removed: Collection[K], added: Collection[Any]) -> bool:
        """Return whether a change is small enough; else the shards should be written anew."""
        before = len(self._gone) + len(self._changed.engine)
        return before + len(removed) + len(added) <= self._changed_max

    def change(
        self, removed: Collection[K], added: Iterable[Addition], hierarchies: Mapping[str, Parents], number: int = 0
    ) -> None:
        """Change the queries.

        Args:
            number: of the change, for `forget`.
            removed: keys that are there.
            added: with keys that are not there, or are removed.
            hierarchies: attribute -> value -> its parent, of those that are replaced.
        """
        later = [key for key in removed if key in self._changed.engine]
        others = set(removed).difference(later)
        gone = [self._position_of(key) for key in others]
        # Before they leave: another thread may ask for their names meanwhile.
        leaving = zip(self._changed.engine.ids(later), later, strict=True)
        self._left.update((one, (number, key)) for one, key in leaving)
        self._changed.change(later, added, hierarchies)
        self._gone.update(gone)
        self._replaced.update(hierarchies)

    def state(self) -> RecordedShardState:
        """Return the state of the queries.

        Raises:
            OSError: a file cannot be written; the next call tries again.
        """
        gone = np.fromiter(sorted(self._gone), np.int64, len(self._gone)).tobytes()
        changed = self._changed.state()
        asked = functools.partial(either, self._directory_asked, changed.asked)
        return RecordedShardState(self.paths, gone, encode_hierarchies(self._replaced), changed, asked)

    def keys_of(self, ids: Sequence[int]) -> list[K]:
        """Return the keys of ids, in the order given; also of queries that have left."""
        later = [one for one in ids if one >= CHANGED_ID_MIN]
        first = [one for one in ids if one < CHANGED_ID_MIN]
        keys = dict(zip(first, self._cut.keys(first), strict=True)) if first else {}
        keys.update(zip(later, self._keys_of_changed([one - CHANGED_ID_MIN for one in later]), strict=True))
        return [keys[one] for one in ids]

    def forget(self, number: int) -> None:
        """Forget the keys that left with this change or an earlier one."""
        while self._left and self._left[first := next(iter(self._left))][0] <= number:
            del self._left[first]

    def _keys_of_changed(self, ids: Sequence[int]) -> list[K]:
        engine = self._changed.engine
        try:
            return engine.keys(ids)
        except KeyError:
            return [self._left[one][1] if one in self._left else engine.keys([one])[0] for one in ids]

    def _position_of(self, key: K) -> int:
        """Return the position of a query in the shards, which is its id.

        Raises:
            KeyError: it is not there.
        """
        first, last = (int(np.searchsorted(self._hashes, hash(key), side)) for side in ("left", "right"))
        for position in self._order[first:last].tolist():
            if self._cut.keys([position])[0] == key:
                return int(position)
        raise KeyError(key)


def _moved(cut: Path, folder: Path, name: str, number: int, shards: int) -> ShardPaths:
    """Move the files of a folder of shards to names of their own, since workers keep files of one name in one place."""

    def moved(path: Path, part: str) -> Path:
        return path.replace((folder / f"{name}{part}-{number}{path.suffix}").absolute())

    snapshots = tuple(moved(snapshot_path(cut, it), f"s{it}") for it in range(shards))
    positions = tuple(moved(positions_path(cut, it), f"s{it}") for it in range(shards))
    paths = ShardPaths(moved(cut / DIRECTORY, "d"), snapshots, positions)
    cut.rmdir()
    return paths
