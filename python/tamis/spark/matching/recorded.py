"""Keeps an engine as workers get it: a snapshot file, and the changes since it was written."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, Generic, NamedTuple

from tamis.engine import Engine
from tamis.engine.keys import K
from tamis.engine.replica import Addition, change_engine
from tamis.query.hierarchy import Parents
from tamis.query.predicates import open_registered
from tamis.spark.matching.parts import Asked, either

CHANGED_MAX: Final = 1_000
"""Maximum number of queries in a change that workers apply; after a larger one, they get a new file."""
CHANGES_BYTES_MAX: Final = 128 * 1024
"""Maximum size of all changes since the file was written; they go to the workers with every batch."""


class RecordedState(NamedTuple):
    """A state of the engine.

    Attributes:
        path: of the file that workers map.
        changes: what they apply to it, encoded; oldest first.
        asked: as `tamis.Engine.asked`; it may tell of parts for which only removed or later queries ask.
    """

    path: Path
    changes: tuple[bytes, ...]
    asked: Asked


class RecordedEngine(Generic[K]):
    """An engine, the file that workers map, and the changes that they apply to it. Not thread-safe.

    Args:
        folder: where the files go.
        name: how their names begin; a number follows.

    Attributes:
        engine: to be changed by `change` alone.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self.engine: Engine[K] = Engine()
        self._number = 0
        self._state: RecordedState | None = None  # None: a file must be written
        self._added: Engine[K] = Engine()  # the queries that were added since then

    def change(self, removed: Collection[K], added: Iterable[Addition], hierarchies: Mapping[str, Parents]) -> None:
        """Change the engine: see `change_engine`."""
        change = change_engine(self.engine, removed, added, hierarchies)
        if self._state is None or len(change.removed) + len(change.added) > CHANGED_MAX:
            self._state = None
            return
        changes = (*self._state.changes, change.encode())
        if sum(map(len, changes)) > CHANGES_BYTES_MAX:
            self._state = None
            return
        change_engine(self._added, [it.key for it in change.added if it.key in self._added], change.added, {})
        self._state = self._state._replace(changes=changes)

    def state(self) -> RecordedState:
        """Return the state of the engine. Files that were written before are not needed for it.

        Raises:
            OSError: the file cannot be written; the next call tries again.
            TypeError: a query cannot be saved.

        Cost: 10 µs per query if a file must be written.
        """
        if self._state is None:
            path = (self._folder / f"{self._name}-{self._number + 1}.tamis").absolute()
            self.engine.save(path, opaque="names")
            self._number += 1
            self._added = Engine()
            # The file never changes, so that what it asks for is found once, and not after each change of the engine.
            asked = functools.partial(either, open_registered(path).asked, self._added.asked)
            self._state = RecordedState(path, (), asked)
        return self._state
