"""Takes rows to the shards in which they can match, and puts together what was found there.

A worker process maps one shard after another, and never all: together they may be more than the memory of a machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses

from tamis.engine.shard_directory import DIRECTORY, ShardDirectory
from tamis.engine.shards import positions_path, snapshot_path
from tamis.errors import ConfigError
from tamis.spark.interpreters import check_python, is_connect
from tamis.spark.matching.parts import Asked
from tamis.spark.matching.shipping import shards_of, ship
from tamis.spark.matching.worker import Location, ShardState
from tamis.spark.temporary import temporary_folder


class ShardedRules:
    """Queries in a folder of shards, as they were when they were given.

    Args:
        folder: what `tamis.engine.shards.write_shards` wrote.

    Attributes:
        directory: says which shards a message meets.
        partitions: number of parts into which rows are divided.

    Raises:
        ConfigError: the folder holds no shards.
        SnapshotError: the directory is damaged.
        OSError: a file cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / DIRECTORY).is_file():
            raise ConfigError(f"{folder}: expected a folder of shards, with {DIRECTORY}; `tamis shard` writes one")
        self.directory = ShardDirectory(folder / DIRECTORY)
        self.partitions = max(self.directory.shards, 1)
        numbers = range(self.directory.shards)
        kept = temporary_folder("shards")
        self._directory_path = _kept(folder / DIRECTORY, kept, "directory")
        self._snapshots = [_kept(snapshot_path(folder, it), kept, str(it)) for it in numbers]
        self._positions = [_kept(positions_path(folder, it), kept, str(it)) for it in numbers]

    @property
    def asked(self) -> Asked:
        """A function that returns which parts of messages the queries ask for."""
        return self.directory.asked

    def publish(self, spark: SparkSession) -> Callable[[], ShardState]:
        """Return a function that returns the state in a worker. Files on another machine are copied when first used."""
        if not is_connect(spark):
            check_python(spark)

        def shipped(path: Path) -> Location:
            return ship(spark, path).location

        directory = shipped(self._directory_path)
        return shards_of(directory, list(map(shipped, self._snapshots)), list(map(shipped, self._positions)))


def _kept(path: Path, folder: Path, number: str) -> Path:
    """Return the file under a name of its own, so that a file that replaces it later changes nothing."""
    kept = folder / f"{folder.name}-{number}{path.suffix}"
    try:
        os.link(path, kept)
    except OSError:
        shutil.copyfile(path, kept)
    return kept


def copies_of(frame: DataFrame, parts: list[Column], routed: Column, rules: ShardedRules) -> DataFrame:
    """Return a copy of each row for each of its shards, divided and sorted by shard.

    Only the first copy of a row has its columns; the others have what they are matched by.

    Args:
        frame: the rows.
        parts: the parts of their messages.
        routed: struct<shards, error>, as `tamis.spark.matching.shards.worker.route_rows` returns it.
        rules: the shards. The rows of those that every message meets are divided further.

    Returns:
        The columns ``number`` (of the row), ``row``, ``error``, ``shard`` (null for a row without), and `part_names`.
    """
    names = part_names(len(parts))
    numbered = frame.select(
        F.monotonically_increasing_id().alias("number"),
        F.struct("*").alias("row"),
        *(part.alias(name) for part, name in zip(parts, names, strict=True)),
        routed.alias("routed"),
    )
    shards = F.posexplode_outer("routed.shards").alias("copy", "shard")
    copies = numbered.select("number", "row", *names, F.col("routed.error").alias("error"), shards)
    is_first = F.coalesce(F.col("copy"), F.lit(0)) == 0
    copies = copies.withColumn("row", F.when(is_first, F.col("row"))).drop("copy")
    spread = F.when(F.col("shard") >= rules.directory.every, F.lit(0)).otherwise(F.col("number"))
    return copies.repartition(rules.partitions, "shard", spread).sortWithinPartitions("shard")


def part_names(count: int) -> list[str]:
    """Return the names of the columns of copies that are parts of messages."""
    return [f"part{number}" for number in range(count)]


def put_together(copies: DataFrame, found: Column, rules: ShardedRules) -> DataFrame:
    """Return one row for the copies of each row, with the columns ``row``, ``error`` and ``found``.

    Args:
        copies: those of `copies_of`.
        found: what was found in the shard of each copy: an array, or null.
        rules: the shards.

    Returns:
        ``found`` has all that was found, sorted.
    """
    matched = copies.select("number", "row", "error", found.alias("found"))
    one = matched.repartition(rules.partitions, "number").groupBy("number")
    return one.agg(
        F.first("row", ignorenulls=True).alias("row"),
        F.first("error", ignorenulls=True).alias("error"),
        F.array_sort(F.flatten(F.collect_list("found"))).alias("found"),
    )
