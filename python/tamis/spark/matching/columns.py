"""Finds the columns of a DataFrame that are parts of messages and that queries ask for; only these go to Python."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType, VariantType

from tamis.errors import TamisError
from tamis.spark.matching.parts import Asked, columns_by_name, wanted

_PARTS: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "topic": ((StringType,), "a string"),
    "properties": (
        (StructType, MapType, StringType, VariantType),
        "a struct, a map, a variant or a string of JSON",
    ),
    "body": ((StringType, BinaryType), "a string or binary"),
}


def message_columns(frame: DataFrame, asked: Asked | None = None) -> dict[str, Column]:
    """Return name -> column of the parts of the messages in `frame`; without ``properties``, of each property.

    Args:
        frame: a DataFrame with the columns that `tamis.spark.match` uses.
        asked: the parts that queries ask for; None: all.

    Returns:
        At least one column.

    Raises:
        TamisError: `frame` has no columns, or one of a type that its part cannot have.
    """
    column_of = columns_by_name(frame.columns, is_exact=is_case_sensitive(frame.sparkSession))
    types = {name: frame.schema[column].dataType for name, column in column_of.items()}
    if not types:
        raise TamisError("expected a column 'topic', 'properties' or 'body', or others that are properties; found none")
    names = wanted(types, asked)
    for name in set(names) & set(_PARTS):
        _check(name, types[name])
    columns = {name: F.col(_quoted(column_of[name])) for name in names}
    if "properties" in types and asked is not None and isinstance(struct := types["properties"], StructType):
        columns = {**columns, **_asked_fields(columns["properties"], struct, asked)}
    return columns or {"topic": F.lit("")}


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether Spark tells names apart that differ in case only."""
    return str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"


def _asked_fields(properties: Column, struct: StructType, asked: Asked) -> dict[str, Column]:
    """Return the column ``properties`` with the fields that queries ask for; an absent struct stays absent."""
    fields = asked(struct.fieldNames())[0]
    values = [properties.getField(name).alias(name) for name in fields] or [F.lit(None).alias("none")]
    return {"properties": F.when(properties.isNotNull(), F.struct(*values))}


def _check(name: str, data_type: DataType) -> None:
    allowed, expected = _PARTS[name]
    if not isinstance(data_type, allowed):
        raise TamisError(f"column '{name}': expected {expected}, not {data_type.simpleString()}")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
