"""The match operator: adds to every row of a DataFrame the standing queries that it satisfies.

It is an Arrow UDF over a snapshot file that every worker maps. Rows stay in the JVM; only the parts of the message go
to Python."""

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
from tamis.engine.build import build_engine
from tamis.errors import TamisError
from tamis.query import QuerySpec, compile_in_file, load_query_file
from tamis.spark import worker

SNAPSHOT_SUFFIX = ".tamis"
"""The suffix of snapshot files; any other file is read as a file of queries."""

MatchRows = Callable[[str, "list[str]", "list[pa.Array]"], pa.Array]


def match(
    queries: str | os.PathLike[str] | Engine | Iterable[QuerySpec], *, ids: bool = False
) -> Callable[[DataFrame], DataFrame]:
    """A function for ``DataFrame.transform`` that adds the column ``matched``, in a batch or a stream.

    It uses the columns ``topic`` (string) and ``body`` (string or binary), both optional, and ``properties`` (struct,
    map, variant or JSON text); without ``properties`` every other column is a property.

    Args:
        queries: a file of queries, a snapshot (``*.tamis``), an engine, or query specs. Later changes of an engine
            have no effect.
        ids: ``matched`` holds subscription ids (array<bigint>) instead of keys (array<string>); cheaper, and the only
            way for an engine whose keys are not text.

    Raises:
        ConfigError: the file, or a query in it, cannot be read; or a query uses UNDER without a hierarchy, which a TOML
            file or an engine may have.
        QueryError: a query spec cannot be read.
        SnapshotError: the snapshot is damaged.
        TypeError: a key is not text, and `ids` is false.

    Cost: at most 1.3 times an Arrow UDF of the same signature that returns a constant, with 10,000 queries.
    """
    path = _snapshot_path(queries)
    function = worker.match_ids if ids else worker.match_keys

    def add_matched(frame: DataFrame) -> DataFrame:
        location = _publish(frame.sparkSession, path)
        returned = "array<bigint>" if ids else "array<string>"
        return frame.withColumn("matched", match_column(frame, location, function, returned))

    return add_matched


def match_column(frame: DataFrame, location: Callable[[], str], function: MatchRows, returned: str) -> Column:
    """The column that `function` of `tamis.spark.worker` returns for the messages of `frame`.

    The UDF is declared as not deterministic although it is: Spark evaluates a deterministic one twice if a filter on
    its result follows, once for the filter and once for the column.

    Args:
        frame: with the parts of the message as columns, as `match` uses them.
        location: called in the worker; returns the path of the snapshot there.
        function: one of `tamis.spark.worker`.
        returned: its type, as Spark writes types.

    Raises:
        TamisError: a column has a type that its part of the message cannot have.
    """
    inputs = _inputs(frame)
    names = list(inputs)

    def matched(*columns: pa.Array) -> pa.Array:
        return function(location(), names, list(columns))

    # The stubs ask for a function type, but passing one causes a warning: it is read from the annotations.
    udf = arrow_udf(matched, returned).asNondeterministic()  # type: ignore[call-overload]
    column: Column = udf(*inputs.values())
    return column


def _inputs(frame: DataFrame) -> dict[str, Column]:
    """The columns of `frame` that are parts of the message, checked.

    Raises:
        TamisError: a column has a type that its part cannot have.
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
    """A snapshot of the queries: the given one, checked, or a new one that is removed when Python ends."""
    if isinstance(queries, (str, os.PathLike)):
        path = Path(queries)
        if path.suffix == SNAPSHOT_SUFFIX:
            Engine.open(path)
            return path.absolute()
        file = load_query_file(path)
        hierarchies = {spec.attribute: spec.parents for spec in file.hierarchies}
        queries = build_engine(((spec.key, compile_in_file(path, spec)) for spec in file.queries), hierarchies)
    elif not isinstance(queries, Engine):
        queries = build_engine(((spec.key, spec.compile()) for spec in queries), {})
    folder = Path(tempfile.mkdtemp(prefix="tamis-queries-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    saved = folder / f"{folder.name}{SNAPSHOT_SUFFIX}"  # unique: workers keep files of one name at one location
    queries.save(saved)
    return saved


def _publish(spark: SparkSession, path: Path) -> Callable[[], str]:
    """A function that returns the path of the file in a worker: `path` on one machine, else that of a copy."""
    if str(spark.sparkContext.master).startswith("local"):
        return functools.partial(str, path)
    spark.sparkContext.addFile(str(path))
    return functools.partial(SparkFiles.get, path.name)
