"""Finds the columns of a DataFrame that are parts of messages and that queries ask for; only these go to Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructType, VariantType

from tamis.errors import TamisError

Asked = Callable[[Iterable[str]], tuple[list[str], bool, bool]]
"""The result of `tamis.Engine.asked`."""

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
    column_of = _column_of(frame)
    types = {name: frame.schema[column].dataType for name, column in column_of.items()}
    if not types:
        raise TamisError("expected a column 'topic', 'properties' or 'body', or others that are properties; found none")
    has_properties = "properties" in types
    names = [name for name in types if name in _PARTS or not has_properties]
    wanted = _wanted(names, asked)
    for name in set(wanted) & set(_PARTS):
        _check(name, types[name])
    columns = {name: F.col(_quoted(column_of[name])) for name in wanted}
    if has_properties and asked is not None and isinstance(struct := types["properties"], StructType):
        columns = {**columns, **_asked_fields(columns["properties"], struct, asked)}
    return columns or {"topic": F.lit("")}


def either(first: Asked, other: Asked, names: Iterable[str]) -> tuple[list[str], bool, bool]:
    """Return what one or the other asks for."""
    wanted = list(names)
    (some, topic, body), (more, other_topic, other_body) = first(wanted), other(wanted)
    asked = {*some, *more}
    return [name for name in wanted if name in asked], topic or other_topic, body or other_body


def _wanted(names: list[str], asked: Asked | None) -> list[str]:
    """Return those of `names` that queries ask for."""
    if asked is None:
        return names
    properties, topic, body = asked(names)
    parts = {"topic": topic, "body": body, "properties": "properties" in names}
    return [name for name in names if parts.get(name, False) or name in properties]


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether Spark tells names apart that differ in case only."""
    return str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"


def _column_of(frame: DataFrame) -> dict[str, str]:
    """Part or property -> name of its column. The names of parts count without regard to case, unless Spark's do not.

    Raises:
        TamisError: two columns are the same part.
    """
    is_exact = is_case_sensitive(frame.sparkSession)
    found: dict[str, str] = {}
    for column in frame.columns:
        name = column if is_exact or column.lower() not in _PARTS else column.lower()
        if name in _PARTS and name in found:
            raise TamisError(f"columns '{found[name]}' and '{column}': Spark takes their names as the same; drop one")
        found[name] = column
    return found


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
