"""The match operator: adds to every row of a DataFrame the standing queries that it satisfies.

An Arrow UDF over a snapshot file that every worker maps; rows stay in the JVM, and only the message's parts cross."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BinaryType, MapType, StringType, StructType, VariantType

from tamis.engine import Engine
from tamis.errors import TamisError
from tamis.query import Query, QuerySpec, compile_in_file, load_queries
from tamis.spark import worker

SNAPSHOT_SUFFIX = ".tamis"
"""What the names of snapshot files end with; any other file is read as a file of queries."""

MatchRows = Callable[[str, "list[str]", "list[pa.Array]"], pa.Array]


def match(
    queries: str | os.PathLike[str] | Engine | Iterable[QuerySpec], *, ids: bool = False
) -> Callable[[DataFrame], DataFrame]:
    """A function for ``DataFrame.transform`` that adds the column ``matched``, batch or streaming.

    Columns looked at: ``topic`` (string) and ``body`` (string or binary), both optional, and ``properties`` (struct,
    map, variant or JSON text); without ``properties`` every other column is a property.

    Args:
        queries: a file of queries, a snapshot (``*.tamis``), an engine, or query specs. They are taken as they are
            now: an engine that changes later changes nothing here.
        ids: ``matched`` holds subscription ids (array<bigint>) instead of keys (array<string>); cheaper, and the only
            way for an engine whose keys are not text.

    Raises:
        ConfigError: the file cannot be read, or holds a query that cannot.
        QueryError: a query spec that cannot be read.
        SnapshotError: the snapshot is damaged.
        TypeError: a key that is not text, without `ids`.

    Cost: at most 1.3 times an Arrow UDF of the same signature that returns a constant, with 10,000 queries.
    """
    path = _snapshot_path(queries)
    function = worker.match_ids if ids else worker.match_keys

    def add_matched(frame: DataFrame) -> DataFrame:
        place = _publish(frame.sparkSession, path)
        returned = "array<bigint>" if ids else "array<string>"
        return frame.withColumn("matched", match_column(frame, place, function, returned))

    return add_matched


def match_column(frame: DataFrame, place: Callable[[], str], function: MatchRows, returned: str) -> Column:
    """The column that `function` of `tamis.spark.worker` gives for the messages of `frame`, as type `returned`.

    Args:
        frame: with the message's parts as columns, as `match` looks at them.
        place: called in the worker; the path of the snapshot there.
        function: one of `tamis.spark.worker`.
        returned: its type, as Spark writes types.

    Raises:
        TamisError: a column of a type that no such part has.

    The UDF counts as not deterministic although it is: Spark evaluates a deterministic one twice where a filter on
    its result follows, once for the filter and once for the column.
    """
    inputs = _inputs(frame)
    names = list(inputs)

    def matched(*columns: pa.Array) -> pa.Array:
        return function(place(), names, list(columns))

    # The types ask for a function type, and giving one is warned about: it is read from the annotations.
    udf = arrow_udf(matched, returned).asNondeterministic()  # type: ignore[call-overload]
    column: Column = udf(*inputs.values())
    return column


def _inputs(frame: DataFrame) -> dict[str, Column]:
    """The message's parts among the columns of `frame`, checked.

    Raises:
        TamisError: a column of a type that cannot be that part.
    """
    types = {field.name: field.dataType for field in frame.schema.fields}
    inputs = {}
    for name, allowed, expected in (
        ("topic", (StringType,), "a string"),
        (
            "properties",
            (StructType, MapType, StringType, VariantType),
            "a struct, a map, a variant or a string of JSON",
        ),
        ("body", (StringType, BinaryType), "a string or binary"),
    ):
        if name in types:
            if not isinstance(types[name], allowed):
                raise TamisError(f"column '{name}': expected {expected}, not {types[name].simpleString()}")
            inputs[name] = F.col(name)
    others = [name for name in types if name not in inputs]
    if "properties" not in inputs and others:
        inputs["properties"] = F.struct(*(F.col(f"`{name.replace('`', '``')}`") for name in others))
    if not inputs:
        raise TamisError("expected a column 'topic', 'properties' or 'body', or others that are properties; found none")
    return inputs


def _snapshot_path(queries: str | os.PathLike[str] | Engine | Iterable[QuerySpec]) -> Path:
    """A snapshot of the queries: the one given, checked, or a new one that is removed when Python ends."""
    if isinstance(queries, (str, os.PathLike)):
        path = Path(queries)
        if path.suffix == SNAPSHOT_SUFFIX:
            Engine.open(path)
            return path.absolute()
        specs = load_queries(path)
        queries = _engine_of((spec.key, compile_in_file(path, spec)) for spec in specs)
    elif not isinstance(queries, Engine):
        queries = _engine_of((spec.key, spec.compile()) for spec in queries)
    folder = Path(tempfile.mkdtemp(prefix="tamis-queries-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    saved = folder / f"{folder.name}{SNAPSHOT_SUFFIX}"  # workers keep files of one name in one place: be unique
    queries.save(saved)
    return saved


def _engine_of(pairs: Iterable[tuple[str, Query]]) -> Engine:
    engine = Engine()
    engine.add_many(pairs)
    return engine


def _publish(spark: SparkSession, path: Path) -> Callable[[], str]:
    """What tells a worker where the file is: in its place when all is one machine, else among the files sent to it."""
    if str(spark.sparkContext.master).startswith("local"):
        return functools.partial(str, path)
    spark.sparkContext.addFile(str(path))
    return functools.partial(SparkFiles.get, path.name)
