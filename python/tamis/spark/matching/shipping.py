"""Takes a snapshot file to Spark's workers.

On one machine the workers map the file itself. On a cluster it is a broadcast variable: each executor gets its bytes
once, writes them to a file in its own temporary folder, and its Python processes map that."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from tamis.spark.interpreters import is_connect, is_local
from tamis.spark.matching.worker import Location, ShardState, State, here


class Shipped(NamedTuple):
    """A file that workers can open.

    Attributes:
        location: returns the path of the file in a worker.
        withdraw: called when no job uses the file any more; gives its memory back.
    """

    location: Location
    withdraw: Callable[[], None]


def ship(spark: SparkSession, path: Path, kept: int = 0) -> Shipped:
    """Make a file readable for the workers of a session.

    Args:
        spark: the session.
        path: the file, which is never changed. Its name is unique in the session, and ends with ``-NUMBER`` before its
            suffix if an executor may remove older files of the name.
        kept: the smallest number of a file of the same name that is still used; executors remove older ones.
    """
    if is_connect(spark):
        spark.addArtifacts(str(path), file=True)
        return Shipped(functools.partial(SparkFiles.get, path.name), _nothing)
    if is_local(spark):
        return stay(path)
    broadcast = spark.sparkContext.broadcast(_Content(path, kept))
    return Shipped(functools.partial(_unpacked, broadcast), broadcast.destroy)


def stay(path: Path, kept: int = 0) -> Shipped:
    """Leave a file where it is, for workers of this machine."""
    return Shipped(here(path), _nothing)


def state_of(location: Location, changes: tuple[bytes, ...] = ()) -> Callable[[], State]:
    """Return a function that returns an engine's state in a worker: the snapshot at `location`, and the changes since.

    It is sent by value, so that a worker without tamis can call it.
    """
    return lambda: (location(), changes)


def shards_of(
    directory: Location,
    snapshots: Sequence[Location],
    positions: Sequence[Location],
    since: tuple[bytes, bytes, Callable[[], State] | None] = (b"", b"", None),
) -> Callable[[], ShardState]:
    """Return a function that returns the state of shards in a worker. A file is fetched there when it is first used.

    Args:
        directory: of the directory.
        snapshots: of the snapshot of each shard.
        positions: of the positions of each shard.
        since: the other parts of the state: what left, hierarchies, and what came.
    """
    files = directory, list(snapshots), list(positions)
    gone, hierarchies, changed = since
    return lambda: (files, gone, hierarchies, changed() if changed is not None else None)


class _Content:
    """A file on its way: pickling it takes the bytes along, and unpickling it gives the path of a file with them."""

    def __init__(self, path: Path, kept: int) -> None:
        self._path, self._kept = path, kept

    def __reduce__(self) -> tuple[Callable[..., str], tuple[Any, ...]]:
        return unpack, (self._path.name, self._path.read_bytes(), self._kept)


def unpack(name: str, content: bytes, kept: int) -> str:
    """Write a file into the executor's folder, unless another of its processes has; remove those older than `kept`."""
    folder = Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])
    path = folder / name
    if not path.exists():
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(content)
        Path(file.name).replace(path)
    for other in folder.glob(f"{series_of(path)}-*{path.suffix}"):
        if number_of(other) < kept:
            other.unlink(missing_ok=True)
    return str(path)


def _unpacked(broadcast: Any) -> str:
    return str(broadcast.value)


def series_of(path: Path) -> str:
    """Return what the names of a file and of those that replace it have in common."""
    return path.stem.rpartition("-")[0]


def number_of(path: Path) -> int:
    """Return the number at the end of a file's name; 0 without one."""
    number = path.stem.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def _nothing() -> None:
    pass
