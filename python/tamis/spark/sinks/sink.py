"""Defines what a sink of batches is, and the Spark action that each of them begins with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import StringType, StructType, VariantType

from tamis.spark.matching.columns import message_columns
from tamis.spark.matching.operator import worker_column
from tamis.spark.publishing import Publication
from tamis.spark.snapshots import Snapshot
from tamis.store import BatchCounts, MessageRow
from tamis.store.seen import MESSAGE_ID_CHARACTERS

MESSAGE_COLUMNS = [name for name in MessageRow._fields if name != "source"]
_PLACE = ("partition", "offset", "digest")
_TEXTS = ("topic", "properties", "body", "xml", "raw", "identity")
"""The columns that only a message that matched, or could not be read, needs."""
_PERCENTILES = [(step + 0.5) / 100 for step in range(100)]
_TIME_FORMAT = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "true"}


@dataclass(frozen=True)
class Batch:
    """A batch that is to be written.

    Attributes:
        stream: the name of the checkpoint that counts `number`.
        number: the number of the batch in its stream.
        source: the adapter's name.
        default_deliveries: the deliveries of queries that name none.
        publication: the broker to which the messages are also published.
        seen_kept: the number of messages read of which the store keeps a note; 0: it gets none of this batch.
    """

    stream: str
    number: int
    source: str
    default_deliveries: tuple[str, ...]
    publication: Publication | None = None
    seen_kept: int = 0


@dataclass(frozen=True)
class Written:
    """The outcome of a batch.

    Attributes:
        counts: the counts on record.
        dead: number of messages that could not be read.
        by_query: key of a query -> number of its matches.
        match_us: percentiles of the time to match a message, in µs.
        timed: number of messages that were timed.
        unpublished: a sentence about messages that could not be published; None if all could.
    """

    counts: BatchCounts
    dead: int
    by_query: Counter[str]
    match_us: list[float]
    timed: int
    unpublished: str | None


class Sink(Protocol):
    """The destination of the matches of batches."""

    def write(self, batch: Batch, frame: DataFrame, snapshot: Snapshot) -> Written:
        """Match the rows of `frame`, write what matched, and record that the batch is done, all or nothing.

        Raises:
            StoreError: the results cannot be written; nothing of the batch counts.
        """


class Matching:
    """The rows of a batch that matched or could not be read, as a DataFrame; and what Spark counted of all rows.

    Collecting the rows matches them, and publishes them if that was asked for.

    Args:
        frame: rows as every adapter gives them.
        snapshot: the queries.
        publication: the broker to which the messages are also published.
        seen: keep the other rows, too, each with its place alone, and add the column `message_id`.

    Attributes:
        rows: the rows, with the columns of messages, `error`, `raw`, `identity`, and the subscriptions' `ids`.
    """

    def __init__(
        self, frame: DataFrame, snapshot: Snapshot, publication: Publication | None, *, seen: bool = False
    ) -> None:
        unpublished = F.lit(None) if publication is None else publication.column(frame, _properties_text(frame))
        returned = "struct<ids: array<bigint>, us: double, error: string>"
        match = worker_column(message_columns(frame, snapshot.asked), snapshot.state, "match_ids_timed", returned)
        self._observed = Observation()
        # Spark moves no filter below an observation, so each row is matched once, and every row is counted.
        matched = (
            frame.withColumn("match", match)
            .withColumn("unpublished", unpublished.cast("string"))
            .observe(
                self._observed,
                F.count(F.lit(1)).alias("read"),
                F.count("unpublished").alias("unpublished"),
                F.max("unpublished").alias("reason"),
                F.count("match.us").alias("timed"),
                F.percentile_approx("match.us", _PERCENTILES, 1_000).alias("match_us"),
            )
            .withColumn("raw", F.coalesce("raw", F.when(F.col("match.error").isNotNull(), _raw(frame))))
            .withColumn("error", F.coalesce("error", "match.error"))
        )
        wanted = F.col("error").isNotNull() | (F.size("match.ids") > 0)
        texts = {name: F.col(name) for name in _TEXTS} | {"properties": _properties_text(frame)}
        if seen:
            texts = {name: F.when(wanted, column) for name, column in texts.items()}
            texts["message_id"] = _message_id(frame)
        columns = [column.alias(name) for name, column in texts.items()]
        rows = matched if seen else matched.filter(wanted)
        self.rows = rows.select(*_PLACE, "error", *columns, F.col("match.ids").alias("ids"))

    @property
    def read(self) -> int:
        """The number of messages in the batch; after the action."""
        return int(self._observed.get["read"])

    def written(self, counts: BatchCounts, dead: int, by_query: Counter[str]) -> Written:
        """Return the outcome of the batch, with Spark's counts; call it after the action."""
        metrics = self._observed.get
        match_us = list(metrics["match_us"] or ())
        return Written(counts, dead, by_query, match_us, int(metrics["timed"]), _told(metrics))


def _raw(frame: DataFrame) -> Column:
    """Return what is kept of a message that the queries cannot read: its properties, or else its body."""
    return F.encode(F.coalesce(_properties_text(frame), F.col("body"), F.lit("")), "UTF-8")


def _message_id(frame: DataFrame) -> Column:
    """Return the property `message_id` as text; null for a message without it."""
    kind = frame.schema["properties"].dataType
    if isinstance(kind, StringType):
        found = F.get_json_object("properties", "$.message_id")
    elif isinstance(kind, VariantType):
        found = F.try_variant_get(F.col("properties"), "$.message_id", "string")
    elif isinstance(kind, StructType) and "message_id" in kind.names:
        found = F.col("properties.message_id").cast("string")
    else:
        return F.lit(None).cast("string")
    return F.left(found, F.lit(MESSAGE_ID_CHARACTERS))


def _told(metrics: Mapping[str, Any]) -> str | None:
    count = int(metrics["unpublished"])
    return f"{count:,} of {metrics['read']:,} messages were not published: {metrics['reason']}" if count else None


def _properties_text(frame: DataFrame) -> Column:
    """Return the properties as JSON text."""
    if isinstance(frame.schema["properties"].dataType, StringType):
        return F.col("properties")
    return F.to_json("properties", _TIME_FORMAT)
