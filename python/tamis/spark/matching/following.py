"""Follows queries that change while streams match with them: those of a store, a file, or a table.

The driver looks for changes, and writes the state of its engine to a file that workers look at before each Arrow batch.
They map the snapshot that it names and apply the changes since; so a change costs them its own queries only."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from pyspark.sql import SparkSession

from tamis._core import Query
from tamis.closing import Closing
from tamis.engine.replica import Addition
from tamis.engine.shards import SHARDS_MAX
from tamis.errors import TamisError
from tamis.query import compile_in_file, load_query_file
from tamis.query.hierarchy import Parents, refuse_missing
from tamis.query.rules import compile_rule, rule_texts
from tamis.spark.interpreters import check_python, is_connect, is_local
from tamis.spark.matching.followed_state import FollowedState, InOneFile, InShards, Step
from tamis.spark.matching.store_queries import StoreQueries
from tamis.spark.matching.worker import AnyState
from tamis.spark.temporary import temporary_folder
from tamis.store import QueryRecord, Store

EVERY_S: Final = 0.5
"""Time between two looks for changes, unless another one is given."""
_FILES_KEPT: Final = 2

_log = logging.getLogger("tamis.spark")


class _Source(Protocol):
    """What is followed."""

    def look(self) -> Step | None:
        """Return what changed since the last step that was taken; None if nothing did."""

    def taken(self) -> None:
        """The last step was taken."""


def follow(
    queries: Any,
    *,
    every_s: float = EVERY_S,
    folder: str | os.PathLike[str] | None = None,
    hierarchies: Mapping[str, Parents] | None = None,
    shards: int = 0,
) -> FollowedQueries:
    """Return queries for `tamis.spark.match` and `register_function` that follow what they come from.

    A change is matched by the Arrow batches that begin after the next look, or after `FollowedQueries.refresh`.

    >>> rules = tamis.spark.follow(Store.open("tamis.sqlite"))          # doctest: +SKIP
    >>> hits = stream.transform(tamis.spark.match(rules))               # doctest: +SKIP

    Args:
        queries: an open store, the path of a file of queries, or a function that returns what `match` takes, such as
            ``lambda: spark.table("rules")``. The function is called at each look.
        every_s: time between two looks. A look at a store or a file that did not change takes about 2 ms.
        folder: where the driver writes and the workers read; None: a temporary one on this machine. On a cluster, and
            with Spark Connect, all machines must have it under the same path.
        hierarchies: see `match`; beside those in the file. A store has its own.
        shards: number of shards into which the queries are cut, if they are too many for the memory of a machine: see
            `write_shards`. 0: none.

    Raises:
        ConfigError, QueryError: the queries, or one of them, cannot be read.
        StoreError: the store cannot be read.
        TamisError: `queries` are none of the three.
        ValueError: `every_s` is not positive, or `shards` is out of bounds.
    """
    if not 0 <= shards <= SHARDS_MAX:
        raise ValueError(f"shards: expected 0 to {SHARDS_MAX}, not {shards}")
    if not every_s > 0:
        raise ValueError(f"every_s: expected a positive number of seconds, not {every_s!r}")
    return FollowedQueries(_source(queries, hierarchies or {}), every_s, folder, shards)


class FollowedQueries(Closing):
    """Queries that are followed. Use them as a context manager, or call `close` when no stream needs them any more."""

    def __init__(self, source: _Source, every_s: float, folder: str | os.PathLike[str] | None, shards: int = 0) -> None:
        self._source, self._every_s, self.is_shared = source, every_s, folder is not None
        self._folder = temporary_folder("follow") if folder is None else Path(folder).absolute()
        self._name = f"queries-{secrets.token_hex(4)}"
        self._state_path = self._folder / f"{self._name}.json"
        self._followed: FollowedState = (
            InShards(self._folder, self._name, shards) if shards else InOneFile(self._folder, self._name)
        )
        self._files: list[frozenset[Path]] = []
        self._is_written = False
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._look, name="tamis-follow", daemon=True)
        self.refresh()
        self._thread.start()

    def __len__(self) -> int:
        """Return the number of queries after the last look."""
        return len(self._followed)

    @property
    def asked(self) -> None:
        """The parts of messages that the queries ask for: all, since a later query may ask for any."""

    @property
    def failure(self) -> Exception | None:
        """Why the last look failed, such as a query that cannot be read; None if it did not.

        The queries stay as they were before it.
        """
        return self._failure

    def refresh(self) -> bool:
        """Look for changes now. Arrow batches that begin later are matched with them.

        Returns:
            Whether there were any.

        Raises:
            As `follow`; the queries stay as they were. OSError: the folder cannot be written.
        """
        with self._lock:
            step = self._source.look()
            if step is not None:
                self._followed.change(step)
                self._source.taken()
                self._is_written = False
            if self._is_written:
                return False
            self._write()
            self._is_written = True
            return True

    def close(self) -> None:
        """Look for no more changes. Streams that still run go on with the last queries until the program ends."""
        self._ended.set()
        self._thread.join()

    def publish(self, spark: SparkSession) -> Callable[[], AnyState]:
        """Return a function that returns the state of the engine in a worker, at the time when it is called.

        Raises:
            TamisError: the workers may be on other machines, and no folder was given that all have.
        """
        if not is_connect(spark):
            check_python(spark)
        if not self.is_shared and not is_local(spark):
            raise TamisError(
                "follow: the workers of other machines do not see the temporary folder of this one; expected "
                "folder='...', which all machines have under the same path"
            )
        path = str(self._state_path)

        def state() -> AnyState:
            from tamis.spark.matching.worker import read_state

            return read_state(path)

        return state

    def _look(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                self.refresh()
                self._failure = None
            except Exception as error:  # noqa: BLE001 - whatever a function of the user raises is told, and tried again
                if str(error) != str(self._failure):
                    _log.warning("followed queries stay as they are: %s", error)
                self._failure = error

    def _write(self) -> None:
        """Tell the workers."""
        text, files = self._followed.write()
        if files not in self._files:
            self._files.append(files)
        new = self._state_path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self._state_path)
        # A worker may just have read the state before.
        while len(self._files) > _FILES_KEPT:
            for path in self._files.pop(0).difference(*self._files):
                path.unlink(missing_ok=True)


def _source(queries: Any, hierarchies: Mapping[str, Parents]) -> _Source:
    if isinstance(queries, Store):
        if hierarchies:
            raise TamisError("hierarchies: a store has its own; expected none beside it")
        return _OfStore(queries)
    if isinstance(queries, str | os.PathLike):
        return _OfFile(Path(queries), hierarchies)
    if callable(queries):
        return _OfRules(lambda: _Rules(rule_texts(queries()), hierarchies))
    raise TamisError(
        f"follow: expected an open store, the path of a file of queries, or a function that returns queries, such as "
        f"lambda: spark.table('rules'), not {type(queries).__name__}"
    )


class _OfStore:
    """The queries of a store."""

    def __init__(self, store: Store) -> None:
        self._store, self._queries = store, StoreQueries(store)
        self._revision: int | None = None

    def look(self) -> Step | None:
        revision = self._store.matching_revision()
        if revision == self._revision:
            return None
        self._next = self._queries.difference(revision)
        added = list(map(_addition, self._next.added))
        return Step([key for key, _ in self._next.removed], added, self._next.hierarchies, self._everything)

    def taken(self) -> None:
        self._queries.go(self._next)
        self._revision = self._next.revision

    def _everything(self) -> tuple[Iterator[Addition], Mapping[str, Parents]]:
        revision = self._next.revision
        return map(_addition, self._store.each_query_at(revision)), self._store.hierarchies_at(revision)


def _addition(record: QueryRecord) -> Addition:
    return Addition(record.key, record.text, record.language)


class _Rules(NamedTuple):
    """Key -> text and language of queries, the hierarchies that they follow, and how one of them is compiled."""

    texts: dict[str, tuple[str, str]]
    hierarchies: Mapping[str, Parents]
    compiled: Callable[[str, str, str], Query] = compile_rule


class _OfRules:
    """Queries that are read as a whole; what differs from those of the last time is what changed."""

    def __init__(self, read: Callable[[], _Rules]) -> None:
        self._read = read
        self._known = self._next = _Rules({}, {})

    def look(self) -> Step | None:
        self._next = texts, hierarchies, compiled = self._read()
        before, trees = self._known.texts, self._known.hierarchies
        added = [Addition(key, *it) for key, it in texts.items() if before.get(key) != it]
        removed = [key for key, it in before.items() if texts.get(key) != it]
        moved = {name: tree for name, tree in hierarchies.items() if trees.get(name) != tree}
        # An unchanged query may need a hierarchy that is gone.
        checked = texts if trees.keys() - hierarchies.keys() else [it.key for it in added]
        refuse_missing(((f"query '{key}'", compiled(key, *texts[key])) for key in checked), hierarchies)
        if not (added or removed or moved):
            return None
        return Step(removed, added, moved, lambda: ((Addition(key, *it) for key, it in texts.items()), hierarchies))

    def taken(self) -> None:
        self._known = self._next


class _OfFile:
    """The queries of a file, which is read again when it was changed or replaced, or a query in it expires."""

    def __init__(self, path: Path, hierarchies: Mapping[str, Parents]) -> None:
        self._path, self._hierarchies = path, hierarchies
        self._rules = _OfRules(self._load)
        self._stamp: tuple[int, int, int] | None = None
        self._next_stamp: tuple[int, int, int] | None = None
        self._expires_at: datetime | None = None

    def look(self) -> Step | None:
        self._next_stamp = None
        with suppress(OSError):  # reading it tells why
            status = self._path.stat()  # before it is read: a change meanwhile is read at the next look
            self._next_stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        has_expired = self._expires_at is not None and datetime.now(UTC) >= self._expires_at
        if self._next_stamp is not None and self._next_stamp == self._stamp and not has_expired:
            return None
        step = self._rules.look()
        if step is None:
            self._stamp = self._next_stamp
        return step

    def taken(self) -> None:
        self._rules.taken()
        self._stamp = self._next_stamp

    def _load(self) -> _Rules:
        file = load_query_file(self._path)
        specs = {spec.key: spec for spec in file.active_queries()}
        texts = {key: (spec.text, spec.language) for key, spec in specs.items()}
        self._expires_at = min((it.expires_at for it in specs.values() if it.expires_at is not None), default=None)
        hierarchies = {**file.trees(), **self._hierarchies}
        return _Rules(texts, hierarchies, lambda key, *_: compile_in_file(self._path, specs[key]))
