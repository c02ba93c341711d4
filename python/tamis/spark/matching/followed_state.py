"""Keeps followed queries as workers find them: files, and a text that names them and what has changed since."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tamis.engine.replica import Addition
from tamis.query.hierarchy import Parents
from tamis.spark.matching.recorded import RecordedEngine
from tamis.spark.matching.shards.recorded import RecordedShards


class Step(NamedTuple):
    """What changed since the last look: keys that go, then queries that come, and hierarchies that are replaced.

    `everything` returns all queries and hierarchies that are there after it.
    """

    removed: Collection[str]
    added: Collection[Addition]
    hierarchies: Mapping[str, Parents]
    everything: Callable[[], tuple[Iterable[Addition], Mapping[str, Parents]]]


class FollowedState(Protocol):
    """The queries that are followed."""

    def __len__(self) -> int:
        """Return the number of queries."""

    def change(self, step: Step) -> None:
        """Change the queries."""

    def write(self) -> tuple[str, frozenset[Path]]:
        """Return the text for workers, and the files that it names.

        Raises:
            OSError: a file cannot be written; the next call tries again.
        """


class InOneFile:
    """Queries in one engine: see `FollowedState`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._recorded: RecordedEngine[str] = RecordedEngine(folder, name)

    def __len__(self) -> int:
        return len(self._recorded.engine)

    def change(self, step: Step) -> None:
        """Change the queries."""
        self._recorded.change(step.removed, step.added, step.hierarchies)

    def write(self) -> tuple[str, frozenset[Path]]:
        """Return the text for workers, and the file that it names."""
        path, changes, _ = self._recorded.state()
        return json.dumps(_engine(path, changes)), frozenset([path])


class InShards:
    """Queries in shards, which are written anew after many changes: see `FollowedState`."""

    def __init__(self, folder: Path, name: str, shards: int) -> None:
        self._folder, self._name, self._shards, self._cuts = folder, name, shards, 0
        self._recorded: RecordedShards[str] | None = None

    def __len__(self) -> int:
        return len(self._recorded) if self._recorded is not None else 0

    def change(self, step: Step) -> None:
        """Change the queries, or write the shards anew."""
        if self._recorded is not None and self._recorded.takes(step.removed, step.added):
            self._recorded.change(step.removed, step.added, step.hierarchies)
            self._recorded.forget(0)  # nobody asks for names
            return
        queries, hierarchies = step.everything()
        cut = self._cuts + 1
        self._recorded = RecordedShards(self._folder, self._name, cut, self._shards, queries, hierarchies)
        self._cuts = cut

    def write(self) -> tuple[str, frozenset[Path]]:
        """Return the text for workers, and the files that it names."""
        if self._recorded is None:
            self.change(Step((), (), {}, lambda: ((), {})))
        assert self._recorded is not None  # noqa: S101 - for the type checker
        paths, gone, hierarchies, changed, _ = self._recorded.state()
        state = {
            "directory": str(paths.directory),
            "snapshots": list(map(str, paths.snapshots)),
            "positions": list(map(str, paths.positions)),
            "gone": gone.hex(),
            "hierarchies": hierarchies.decode(),
            "changed": _engine(changed.path, changed.changes),
        }
        return json.dumps(state), frozenset([*paths.all(), changed.path])


def _engine(path: Path, changes: tuple[bytes, ...]) -> dict[str, Any]:
    return {"path": str(path), "changes": [change.decode() for change in changes]}
