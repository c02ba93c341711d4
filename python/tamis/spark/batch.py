"""Processes one micro-batch: pins the queries' revision, matches in one Spark action, commits.

The order makes replays exact: the revision is pinned first, so that a replay after a crash matches with the same
queries; the results count when the store has recorded that the batch is done, so that a replay adds nothing. Until
then the driver holds them as Arrow; it makes rows of them only piece by piece, as the store takes them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
from pyspark.sql.types import StringType

from tamis.spark.matching.columns import message_columns
from tamis.spark.matching.operator import worker_column
from tamis.spark.progress import BatchReport
from tamis.spark.publishing import Publication
from tamis.spark.snapshots import Snapshot, Snapshots
from tamis.store import BatchResult, DeadLetter, MessageRow, Notification, Store, notification_id

_PART_ROWS = 100  # Arrow's rows that are Python's at a time
_PART_MATCHES = 1_000
_PERCENTILES = [(step + 0.5) / 100 for step in range(100)]
_MESSAGE_COLUMNS = [name for name in MessageRow._fields if name != "source"]
_TIME_FORMAT = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "true"}


@dataclass(frozen=True)
class Matched:
    """The results of one Spark action.

    Attributes:
        rows: of messages with matches, and of dead letters.
        read: number of messages in the batch.
        match_us: percentiles of the time to match a message, in µs.
        timed: number of messages that were timed.
        unpublished: what to tell of messages that could not be published; None if all could.
    """

    rows: pa.Table
    read: int
    match_us: list[float]
    timed: int
    unpublished: str | None = None


def process_batch(
    store: Store,
    snapshots: Snapshots,
    stream: str,
    source: str,
    default_deliveries: tuple[str, ...],
    frame: DataFrame,
    batch_id: int,
    publication: Publication | None = None,
) -> BatchReport | None:
    """Match one batch and store its results; None if the store had them already.

    Args:
        store: where results go.
        snapshots: of the store's queries.
        stream: names the checkpoint that counts `batch_id`.
        source: the adapter's name, for the notifications.
        default_deliveries: the deliveries of queries that name none.
        frame: rows as every adapter gives them.
        batch_id: Spark's number; the same number means the same rows before and after a crash.
        publication: where the messages are published, too.

    Raises:
        StoreError: the store cannot be written.
        OSError: the snapshot cannot be written.

    Cost: 0.1 to 0.3 s for Spark's work on any batch.
    """
    started = time.monotonic()
    if store.batch_counts(stream, batch_id) is not None:
        return None
    with snapshots.at(store.pin_batch(stream, batch_id)) as snapshot:
        matched = match_rows(frame, snapshot, publication)
        counts = store.commit_batch(stream, batch_id, make_results(matched, snapshot, source), default_deliveries)
        by_query = _count_by_query(matched, snapshot)
    return BatchReport(
        read=counts.read,
        matched=counts.matched,
        notifications=counts.notifications,
        dead=matched.rows.num_rows - matched.rows["error"].null_count,
        seconds=time.monotonic() - started,
        by_query=by_query,
        match_us=matched.match_us,
        timed=matched.timed,
        unpublished=matched.unpublished,
    )


def match_rows(frame: DataFrame, snapshot: Snapshot, publication: Publication | None = None) -> Matched:
    """Match and perhaps publish the rows of `frame` in one Spark action; return dead letters and rows with matches."""
    returned = "struct<ids: array<bigint>, us: double>"
    match = worker_column(message_columns(frame), snapshot.shipped.location, "match_ids_timed", returned)
    observed = Observation()
    unpublished = F.lit(None) if publication is None else publication.column(frame, _properties_text(frame))
    # Spark moves no filter below an observation, so each row is matched once, and every row is counted.
    wanted = (
        frame.withColumn("match", match)
        .withColumn("unpublished", unpublished.cast("string"))
        .observe(
            observed,
            F.count(F.lit(1)).alias("read"),
            F.count("match.us").alias("timed"),
            F.percentile_approx("match.us", _PERCENTILES, 1_000).alias("match_us"),
            F.count("unpublished").alias("unpublished"),
            F.max("unpublished").alias("reason"),
        )
        .filter(F.col("error").isNotNull() | (F.size("match.ids") > 0))
        .withColumn("properties", _properties_text(frame))
        .select(*_MESSAGE_COLUMNS, "error", "raw", "identity", F.col("match.ids").alias("ids"))
    )
    rows = wanted.toArrow()
    metrics = observed.get
    left = int(metrics["unpublished"])
    told = f"{left:,} of {metrics['read']:,} messages were not published: {metrics['reason']}" if left else None
    return Matched(rows, int(metrics["read"]), list(metrics["match_us"] or ()), int(metrics["timed"]), told)


def make_results(matched: Matched, snapshot: Snapshot, source: str) -> Iterator[BatchResult]:
    """Turn the rows into messages, notifications and dead letters for the store: a part for each few matches."""
    yield BatchResult(read_count=matched.read)
    for row in _rows(matched.rows):
        key = (source, row["partition"], row["offset"], row["digest"])
        if row["error"] is not None:
            yield BatchResult(dead_letters=[DeadLetter(*key, row["error"], row["raw"] or b"")])
            continue
        named = key if row["identity"] is None else (row["identity"],)
        texts = {"topic": row["topic"] or "", "properties": row["properties"] or "{}"}
        message = MessageRow(source, **{name: row[name] for name in _MESSAGE_COLUMNS} | texts)
        yield BatchResult(matched_count=1)
        for start in range(0, len(row["ids"]), _PART_MATCHES):
            queries = snapshot.records_of(row["ids"][start : start + _PART_MATCHES])
            notifications = [
                Notification(notification_id(query.key, query.version, *named), query.key, query.version, *key)
                for query in queries
            ]
            yield BatchResult([message], notifications)


def _count_by_query(matched: Matched, snapshot: Snapshot) -> Counter[str]:
    """The number of matches of each query."""
    rows = matched.rows.filter(pc.is_null(matched.rows["error"]))
    counts = pc.value_counts(pc.list_flatten(rows["ids"]))
    queries = snapshot.records_of(counts.field("values").to_pylist())
    return Counter({query.key: n for query, n in zip(queries, counts.field("counts").to_pylist(), strict=True)})


def _properties_text(frame: DataFrame) -> Column:
    """The properties as JSON text."""
    if isinstance(frame.schema["properties"].dataType, StringType):
        return F.col("properties")
    return F.to_json("properties", _TIME_FORMAT)


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=_PART_ROWS):
        yield from batch.to_pylist()
