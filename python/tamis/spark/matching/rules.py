"""Makes a snapshot of the queries that a program gives, and takes it to Spark's workers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from tamis.engine import Engine
from tamis.engine.build import build_engine
from tamis.errors import ConfigError, TamisError
from tamis.query import compile_in_file, load_query_file
from tamis.query.hierarchy import Parents
from tamis.query.predicates import load_predicate, open_registered
from tamis.query.rules import compile_rules
from tamis.spark.interpreters import check_python, is_connect
from tamis.spark.matching.following import FollowedQueries
from tamis.spark.matching.parts import Asked
from tamis.spark.matching.shards.rules import ShardedRules
from tamis.spark.matching.shipping import ship, state_of
from tamis.spark.matching.worker import State
from tamis.spark.temporary import temporary_folder

SNAPSHOT_SUFFIX = ".tamis"
"""The suffix of snapshot files; any other file is read as a file of queries."""


class RuleSet(NamedTuple):
    """Queries as they were when they were given: an engine, and a file with the same for workers."""

    engine: Engine
    path: Path

    @classmethod
    def of(cls, queries: Any, hierarchies: Mapping[str, Parents] | None = None) -> RuleSet:
        """Return the queries of a file, a snapshot, an engine, or of what `tamis.query.rules.compile_rules` takes.

        Queries of a file that are paused or expired are left out.

        Args:
            queries: a snapshot and an engine have their own hierarchies.
            hierarchies: attribute -> value -> its parent, beside those in the file.

        Raises:
            ConfigError: they cannot be read, or have an expensive predicate that no package registers, or UNDER without
                a hierarchy.
            QueryError: the text of a query cannot be read.
            SnapshotError: the snapshot is damaged.
            TypeError: a key cannot be saved.
        """
        if is_folder(queries):
            raise TamisError(f"{queries}: expected one file of queries, not a folder of shards; name the file of one")
        is_path = isinstance(queries, (str, os.PathLike))
        is_snapshot = is_path and Path(queries).suffix == SNAPSHOT_SUFFIX
        if hierarchies and (is_snapshot or isinstance(queries, Engine)):
            raise TamisError("hierarchies: an engine and a snapshot have their own; expected none beside them")
        if is_snapshot:
            return cls(open_registered(queries), _kept(Path(queries)))
        if isinstance(queries, Engine):
            engine = queries
        else:
            engine = _of_file(Path(queries), hierarchies or {}) if is_path else _of_rules(queries, hierarchies or {})
        path = _new_path()
        _check_predicates(engine)
        engine.save(path, opaque="names")
        return cls(engine, path)

    @property
    def asked(self) -> Asked:
        """A function that returns which parts of messages the queries ask for."""
        return self.engine.asked

    def publish(self, spark: SparkSession) -> Callable[[], State]:
        """Return a function that returns the engine's state in a worker: the file on one machine, else a copy."""
        if not is_connect(spark):
            check_python(spark)
        return state_of(ship(spark, self.path).location)


def rules_of(
    queries: Any, hierarchies: Mapping[str, Parents] | None = None
) -> RuleSet | FollowedQueries | ShardedRules:
    """Return what `match` takes: queries that are followed, those in shards, or any others as they are now.

    Raises:
        As `RuleSet.of` and `ShardedRules`.
    """
    if is_folder(queries):
        if hierarchies:
            raise TamisError("hierarchies: shards have theirs from `write_shards`; expected none beside them")
        return ShardedRules(Path(queries))
    if not isinstance(queries, FollowedQueries):
        return RuleSet.of(queries, hierarchies)
    if hierarchies:
        raise TamisError("hierarchies: followed queries have theirs from `follow`; expected none beside them")
    return queries


def is_folder(queries: Any) -> bool:
    """Return whether queries are given by a folder, which only shards are in."""
    return isinstance(queries, (str, os.PathLike)) and Path(queries).is_dir()


def _of_file(path: Path, hierarchies: Mapping[str, Parents]) -> Engine:
    file = load_query_file(path)
    queries = ((spec.key, compile_in_file(path, spec)) for spec in file.active_queries())
    return build_engine(queries, {**file.trees(), **hierarchies})


def _of_rules(rules: Any, hierarchies: Mapping[str, Parents]) -> Engine:
    return build_engine(compile_rules(rules), hierarchies)


def _check_predicates(engine: Engine) -> None:
    """Check that workers will find every expensive predicate."""
    for name in engine.expensive():
        try:
            load_predicate(name)
        except ConfigError as error:
            raise TamisError(
                f"the expensive predicate '{name}' is a function of this program, which Spark's workers do not have: "
                f"{error}"
            ) from error


def _new_path() -> Path:
    """Return a path that no other snapshot of this session has: workers keep files of one name in one place."""
    folder = temporary_folder("queries")
    return folder / f"{folder.name}{SNAPSHOT_SUFFIX}"


def _kept(snapshot: Path) -> Path:
    """Return the snapshot under a name of its own, so that a file that replaces it later changes nothing."""
    path = _new_path()
    try:
        os.link(snapshot, path)  # a snapshot is never changed, only replaced
    except OSError:
        shutil.copyfile(snapshot, path)
    return path
