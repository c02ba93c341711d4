"""Processes one micro-batch: pins the queries' revision, then lets the sink match it and write what matched.

The order makes replays exact: the revision is pinned first, so that a replay after a crash matches with the same
queries; the results count when the sink has recorded that the batch is done, so that a replay adds nothing."""

from __future__ import annotations

import time

from pyspark.sql import DataFrame

from tamis.spark.progress import BatchReport
from tamis.spark.sinks.sink import Batch, Sink
from tamis.spark.snapshots import Snapshots
from tamis.store import Store


def process_batch(store: Store, snapshots: Snapshots, sink: Sink, batch: Batch, frame: DataFrame) -> BatchReport | None:
    """Match one batch and store its results; None if the store had them already.

    Args:
        store: holds the queries, and which batches are done.
        snapshots: the snapshots of the store's queries.
        sink: where results go.
        batch: names it; the same stream and number mean the same rows before and after a crash.
        frame: rows as every adapter gives them.

    Raises:
        StoreError: the results cannot be written.
        OSError: the snapshot cannot be written.

    Cost: 0.1 to 0.3 s for Spark's work on any batch.
    """
    started = time.monotonic()
    if store.batch_counts(batch.stream, batch.number) is not None:
        return None
    with snapshots.at(store.pin_batch(batch.stream, batch.number)) as snapshot:
        written = sink.write(batch, frame, snapshot)
    return BatchReport(
        read=written.counts.read,
        matched=written.counts.matched,
        notifications=written.counts.notifications,
        dead=written.dead,
        seconds=time.monotonic() - started,
        by_query=written.by_query,
        match_us=written.match_us,
        timed=written.timed,
        unpublished=written.unpublished,
    )
