"""The match operator: adds to every row of a DataFrame the standing queries that it satisfies.

It is an Arrow UDF over a snapshot file that every worker maps. Rows stay in the JVM; only the parts of the message that
queries ask for go to Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.pandas.functions import arrow_udf

import tamis
from tamis.errors import TamisError
from tamis.name_hints import did_you_mean
from tamis.query.hierarchy import Parents
from tamis.spark.matching.columns import message_columns
from tamis.spark.matching.rules import RuleSet, rules_of
from tamis.spark.matching.shards.rules import ShardedRules, copies_of, part_names, put_together
from tamis.spark.matching.worker import Errors

_WORKER: Final = "tamis.spark.matching.worker"
_SHARD_WORKER: Final = "tamis.spark.matching.shards.worker"
_SHARD: Final = "\0shard"
"""The name of the last column of `tamis.spark.matching.shards.worker.match_in_shards`."""
_ROUTED: Final = "struct<shards: array<int>, error: string>"
_EXPLAINED: Final = (
    "struct<result: boolean, predicates: array<struct<text: string, value: string, result: boolean>>, "
    "missing: array<string>>"
)


def match(
    queries: Any,
    *,
    ids: bool = False,
    column: str = "matched",
    errors: Errors = "raise",
    hierarchies: Mapping[str, Parents] | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """Return a function for ``DataFrame.transform`` that adds the column ``matched``, in a batch or a stream.

    It uses the columns ``topic`` (string) and ``body`` (string or binary), both optional, and ``properties`` (struct,
    map, variant or JSON text); without ``properties`` every other column is a property. What no query asks for is not
    read.

    Args:
        queries: a file of queries, a snapshot (``*.tamis``), a folder of shards (`tamis.spark.write_shards`), an
            engine, a mapping key -> text, tuples ``(key, text)`` or ``(key, text, language)``, rows, or a table with
            columns ``key``, ``text`` and perhaps ``language``: `tamis.query.rules.compile_rules`. Later changes have no
            effect, but for queries of `tamis.spark.follow`.
        ids: the column holds subscription ids (array<bigint>) instead of keys (array<string>); cheaper, and the only
            way for an engine whose keys are not text.
        column: the name of the new column.
        errors: what becomes of a row that cannot be read, such as one with broken JSON: ``raise`` stops the job;
            ``null`` makes the column null there; ``column`` adds another column, ``matched_error``, with the reason.
        hierarchies: for ``attribute UNDER 'value'``: attribute -> value -> its parent, or None for a root. A file,
            a snapshot and an engine may have their own.

    Raises:
        ConfigError: the queries, or one of them, cannot be read; or one uses UNDER without a hierarchy.
        QueryError: the text of a rule cannot be read; a note on the error names its key.
        SnapshotError: the snapshot is damaged.
        TypeError: a key is not text, and `ids` is false.
        ValueError: `errors` is none of the three.
        TamisError: when the function is called: the DataFrame has a column of the new name already, or one of a type
            that its part of the message cannot have.

    Cost: at most 1.3 times an Arrow UDF of the same signature that returns a constant, with 10,000 queries. Shards: see
    docs/sizing.md; the rows of a batch lose their order.
    """
    check_errors(errors)
    rules = rules_of(queries, hierarchies)
    returned = returned_type(ids, errors)

    def add_matched(frame: DataFrame) -> DataFrame:
        if isinstance(rules, ShardedRules) and not frame.isStreaming:
            return _match_sharded(frame, rules, column, ids=ids, errors=errors)
        new = _new_columns(frame, column, errors)
        inputs = message_columns(frame, rules.asked)
        state = rules.publish(frame.sparkSession)
        matched = worker_column(inputs, state, "match_rows", returned, ids=ids, errors=errors)
        if errors != "column":
            return frame.withColumn(column, matched)
        # Spark evaluates it once although two columns use it: a UDF that is not deterministic is not copied.
        both = F.col(f"`{column}`")
        return frame.withColumn(column, matched).withColumns({new[1]: both.error, column: both.matched})

    return add_matched


def _match_sharded(frame: DataFrame, rules: ShardedRules, column: str, *, ids: bool, errors: Errors) -> DataFrame:
    """Add the column ``matched`` to rows that go to the shards in which they can match."""
    new = _new_columns(frame, column, errors)
    state, parts = rules.publish(frame.sparkSession), message_columns(frame, rules.directory.asked)
    routed = worker_column(parts, state, "route_rows", _ROUTED, _SHARD_WORKER, errors=errors)
    copies = copies_of(frame, list(parts.values()), routed, rules)
    inputs = {name: F.col(part) for name, part in zip(parts, part_names(len(parts)), strict=True)}
    inputs[_SHARD] = F.col("shard")
    returned = "array<bigint>" if ids else "array<struct<position: bigint, key: string>>"
    found = worker_column(inputs, state, "match_in_shards", returned, _SHARD_WORKER, ids=ids)
    rows = put_together(copies, found, rules)
    matched = F.col("found") if ids else F.col("found").getField("key")
    columns = F.when(F.col("error").isNull(), matched), F.col("error")
    return rows.select("row.*", *(it.alias(name) for it, name in zip(columns, new, strict=False)))


def explain(
    queries: Any, key: str, *, column: str = "explained", hierarchies: Mapping[str, Parents] | None = None
) -> Callable[[DataFrame], DataFrame]:
    """Return a function for ``DataFrame.transform`` that adds a column: why one query matches or does not.

    The column is ``struct<result, predicates: array<struct<text, value, result>>, missing: array<string>>``: the result
    (null is unknown), each predicate with the value that it looked at, and the names that the row lacks. It is null for
    a row that cannot be read.

    Args:
        queries: see `match`; but queries that are followed are refused.
        key: the query.
        column: the name of the new column.
        hierarchies: see `match`.

    Raises:
        TamisError: no query has this key; the text has the nearest one.
        ConfigError, QueryError, SnapshotError: see `match`.

    Cost: about 30 µs per row; for looking at a sample, not for every row of a large table.
    """
    rules = RuleSet.of(queries, hierarchies)
    if key not in rules.engine:
        raise TamisError(f"no query has the key '{key}'{did_you_mean(key, map(str, rules.engine.all_keys()))}")

    def add_explained(frame: DataFrame) -> DataFrame:
        _check_new(frame, [column])
        state = rules.publish(frame.sparkSession)
        inputs = message_columns(frame, rules.engine.asked)
        return frame.withColumn(column, worker_column(inputs, state, "explain_rows", _EXPLAINED, key=key))

    return add_explained


def worker_column(
    inputs: dict[str, Column],
    state: Callable[[], Any],
    function: str,
    returned: str,
    module: str = _WORKER,
    **options: Any,
) -> Column:
    """Return the column that a function of a workers' module returns.

    The UDF is declared as not deterministic although it is: Spark evaluates a deterministic one twice if a filter on
    its result follows, once for the filter and once for the column.

    Args:
        inputs: name -> column of the parts of the message, as `message_columns` returns them.
        state: called in the worker; returns the state of the engine there, which is the first argument.
        function: the name of the function.
        returned: its type, as Spark writes types.
        module: the module of the function.
        options: further arguments of the function.
    """
    names = list(inputs)
    call = in_worker(state, function, options, module)

    def matched(*columns: pa.Array) -> pa.Array:
        return call(names, list(columns))

    # The stubs ask for a function type, but passing one causes a warning: it is read from the annotations.
    udf = arrow_udf(matched, returned).asNondeterministic()  # type: ignore[call-overload]
    column: Column = udf(*inputs.values())
    return column


def in_worker(
    state: Callable[[], Any], function: str, options: dict[str, Any], module: str = _WORKER
) -> Callable[..., Any]:
    """Return a function that calls a function of the workers' module with the state of the worker's engine.

    It is sent by value and imports tamis when it is called, so that a worker without this tamis says what is missing.
    """
    expected, driver = tamis.__version__, sys.executable

    def call(*arguments: Any) -> pa.Array:
        import importlib
        import sys

        try:
            import tamis

            found = f"tamis {tamis.__version__}"
        except ImportError as error:
            found = str(error)
        if found != f"tamis {expected}":
            raise RuntimeError(
                f"this worker of Spark runs {sys.executable} ({found}), and the program runs {driver} (tamis "
                f"{expected}): they need the same. Set PYSPARK_PYTHON to a Python with tamis {expected} that workers "
                "have, before the session starts"
            )
        return getattr(importlib.import_module(module), function)(state(), *arguments, **options)

    return call


def check_errors(errors: str) -> None:
    """Raise a ValueError if `errors` is not one of the three allowed values."""
    if errors not in ("raise", "null", "column"):
        raise ValueError(f"errors: expected 'raise', 'null' or 'column', not {errors!r}")


def returned_type(ids: bool, errors: Errors) -> str:
    """Return the type of `tamis.spark.matching.worker.match_rows`, as Spark writes it."""
    matched = "array<bigint>" if ids else "array<string>"
    return f"struct<matched: {matched}, error: string>" if errors == "column" else matched


def _new_columns(frame: DataFrame, column: str, errors: Errors) -> list[str]:
    """Return the names of the columns that a match adds."""
    new = [column, f"{column}_error"] if errors == "column" else [column]
    _check_new(frame, new)
    return new


def _check_new(frame: DataFrame, names: list[str]) -> None:
    known = {name.lower() for name in frame.columns}
    for name in names:
        if name.lower() in known:
            raise TamisError(f"the DataFrame has a column '{name}' already; drop it, or name another: column='...'")
