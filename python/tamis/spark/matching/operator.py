"""The match operator: adds to every row of a DataFrame the standing queries that it satisfies.

It is an Arrow UDF over a snapshot file that every worker maps. Rows stay in the JVM; only the parts of the message that
queries ask for go to Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import ArrayType, BooleanType, DataType, LongType, StringType, StructType

import tamis
from tamis.errors import TamisError
from tamis.name_hints import did_you_mean
from tamis.query.hierarchy import Parents
from tamis.spark.interpreters import is_connect
from tamis.spark.matching.columns import is_case_sensitive, message_columns
from tamis.spark.matching.following import FollowedQueries
from tamis.spark.matching.parts import check_new
from tamis.spark.matching.rules import RuleSet, rules_of
from tamis.spark.matching.shards.rules import ShardedRules, copies_of, part_names, put_together
from tamis.spark.matching.worker import Errors

_WORKER: Final = "tamis.spark.matching.worker"
_SHARD_WORKER: Final = "tamis.spark.matching.shards.worker"
_SHARD: Final = "\0shard"
"""The name of the last column of `tamis.spark.matching.shards.worker.match_in_shards`."""
_LEAVES_EXPENSIVE: Final = "spark.sql.optimizer.avoidDoubleFilterEval"
_LIMITS: Final = frozenset({"Limit", "GlobalLimit", "LocalLimit", "Offset", "Tail"})
_PASSED: Final = frozenset({"Project", "SubqueryAlias", "WithColumns", "WithColumnsRenamed", "Drop", "ToDF"})
"""The steps of a plan that keep its rows, below which Spark moves a column."""
_PIPELINES: Final = "pyspark.pipelines.graph_element_registry"
_ROUTED: Final = "struct<shards: array<int>, error: string>"
_PREDICATE: Final = StructType().add("text", StringType()).add("value", StringType()).add("result", BooleanType())
_EXPLAINED: Final = (
    StructType()
    .add("result", BooleanType())
    .add("predicates", ArrayType(_PREDICATE))
    .add("missing", ArrayType(StringType()))
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
    read; but in the functions of a declarative pipeline, where Spark does not tell the columns, all of them are.

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
        new = [column, f"{column}_error"] if errors == "column" else [column]
        if isinstance(rules, ShardedRules) and not _is_unseen() and not frame.isStreaming:
            return _match_sharded(frame, rules, new, ids=ids, errors=errors)
        matched = _row_column(frame, rules, "match", returned, new, ids=ids, errors=errors)
        if errors != "column":
            return frame.withColumn(column, matched)
        both = F.col(f"`{column}`")
        return frame.withColumn(column, matched).withColumns({new[1]: both.error, column: both.matched})

    return add_matched


def _is_unseen() -> bool:
    """Return whether Spark refuses to tell the columns: where a declarative pipeline is described."""
    pipelines = sys.modules.get(_PIPELINES)  # the program has imported it if it describes one
    try:
        return pipelines is not None and pipelines.get_active_graph_element_registry() is not None
    except PySparkRuntimeError:
        return False


def _match_sharded(frame: DataFrame, rules: ShardedRules, new: list[str], *, ids: bool, errors: Errors) -> DataFrame:
    """Add the column ``matched`` to rows that go to the shards in which they can match."""
    check_new(frame.columns, new)
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
        return frame.withColumn(column, _row_column(frame, rules, "explain", _EXPLAINED, [column], key=key))

    return add_explained


def _row_column(
    frame: DataFrame,
    rules: RuleSet | FollowedQueries | ShardedRules,
    verb: Literal["match", "explain"],
    returned: DataType,
    new: list[str],
    **options: Any,
) -> Column:
    """Return the column with what a worker says of each row, below which Spark moves filters on other columns.

    Such a filter even reaches the files that are read, and what it drops does not go to Python. A filter on the column
    itself must stay above it, or Python would be called twice: for the filter, and for the column. Spark leaves filters
    there if it takes the column for expensive. It takes regular expressions for expensive, and no functions of Python:
    so there is one, which is evaluated for rows without an answer only, and is never true.

    Rows behind a limit are an exception: Spark would move the column below it, and match what the limit drops.
    """
    spark = frame.sparkSession
    if _is_unseen():
        function, inputs = f"{verb}_whole", {"row": F.struct("*")}
        options |= {"new": new, "is_exact": is_case_sensitive(spark)}
    else:
        check_new(frame.columns, new)
        function, inputs = f"{verb}_rows", message_columns(frame, rules.asked)
    of_function = rules.publish(spark), function, returned
    if not _leaves_expensive(spark) or _is_limited(frame):
        return worker_column(inputs, *of_function, **options)
    found = _worker_udf(inputs, *of_function, **options)(*inputs.values())
    return F.coalesce(found, F.when(found.cast("string").rlike("a^"), found))


def _is_limited(frame: DataFrame) -> bool:
    """Return whether the rows are what a limit or an offset leaves. Spark has no public name for that."""
    plan: Any
    if is_connect(frame.sparkSession):
        plan = frame._plan
        while type(plan).__name__ in _PASSED and plan._child is not None:
            plan = plan._child
        return type(plan).__name__ in _LIMITS
    plan = frame._jdf.queryExecution().analyzed()
    while plan.nodeName() in _PASSED:
        plan = plan.children().head()
    return plan.nodeName() in _LIMITS


def _leaves_expensive(spark: SparkSession) -> bool:
    """Return whether Spark leaves a filter above a column that it takes for expensive."""
    try:  # with a default, Spark returns that instead of its own
        return str(spark.conf.get(_LEAVES_EXPENSIVE)).lower() == "true"
    except PySparkException:  # an older Spark does not know it
        return False


def worker_column(inputs: dict[str, Column], *of_function: Any, **options: Any) -> Column:
    """Return the column that a function of a workers' module returns.

    The UDF is declared as not deterministic although it is: Spark evaluates a deterministic one twice if a filter on
    its result follows, once for the filter and once for the column. No filter goes below it.

    Args:
        inputs: name -> column of the parts of the message, as `message_columns` returns them.
        state: called in the worker; returns the state of the engine there, which is the first argument.
        function: the name of the function.
        returned: its type. Where Spark does not tell columns, it does not read types either, so it is no text there.
        module: the module of the function.
        options: further arguments of the function.
    """
    column: Column = _worker_udf(inputs, *of_function, **options).asNondeterministic()(*inputs.values())
    return column


def _worker_udf(
    inputs: dict[str, Column],
    state: Callable[[], Any],
    function: str,
    returned: str | DataType,
    module: str = _WORKER,
    **options: Any,
) -> Any:
    names = list(inputs)
    call = in_worker(state, function, options, module)

    def matched(*columns: pa.Array) -> pa.Array:
        return call(names, list(columns))

    # The stubs ask for a function type, but passing one causes a warning: it is read from the annotations.
    return arrow_udf(matched, returned)  # type: ignore[call-overload]


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


def returned_type(ids: bool, errors: Errors) -> DataType:
    """Return the type of `tamis.spark.matching.worker.match_rows`."""
    matched = ArrayType(LongType() if ids else StringType())
    return StructType().add("matched", matched).add("error", StringType()) if errors == "column" else matched
