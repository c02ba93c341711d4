"""Registers matching as a function of SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from tamis.query.hierarchy import Parents
from tamis.spark.matching.operator import check_errors, in_worker, returned_type
from tamis.spark.matching.rules import rules_of


def register_function(
    spark: SparkSession,
    queries: Any,
    name: str = "tamis_match",
    *,
    ids: bool = False,
    errors: Literal["raise", "null"] = "raise",
    hierarchies: Mapping[str, Parents] | None = None,
) -> None:
    """Register a function of SQL that returns the keys of the queries that a row satisfies.

    Its one argument is a struct of the message's parts: ``SELECT *, tamis_match(struct(*)) AS matched FROM mail``.
    ``tamis_match(struct(price, region))`` sends only these two columns to Python.

    Args:
        spark: the session; only there is the function known.
        queries: see `tamis.spark.match`.
        name: the name of the function; a function of that name is replaced.
        ids: it returns subscription ids (array<bigint>) instead of keys (array<string>).
        errors: whether a row that cannot be read stops the job, or gives null.
        hierarchies: see `tamis.spark.match`.

    Raises:
        ConfigError, QueryError, SnapshotError: see `tamis.spark.match`.
    """
    check_errors(errors)
    call = in_worker(rules_of(queries, hierarchies).publish(spark), "match_message", {"ids": ids, "errors": errors})

    def matched(message: pa.Array) -> pa.Array:
        return call(message)

    udf = arrow_udf(matched, returned_type(ids, errors)).asNondeterministic()  # type: ignore[call-overload]
    spark.udf.register(name, udf)
