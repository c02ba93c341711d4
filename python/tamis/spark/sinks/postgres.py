"""The sink for a store on a PostgreSQL server: executors copy what matched, and the driver commits the batch.

The driver sees counts, never rows."""

from __future__ import annotations

import logging

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tamis.adapters.manager import reason
from tamis.errors import StoreError, StoreLostError
from tamis.spark.matching.operator import in_worker
from tamis.spark.sinks.names import summed
from tamis.spark.sinks.sink import Batch, Matching, Written
from tamis.spark.snapshots import Snapshot
from tamis.store import BatchCounts, Store
from tamis.store.staging import Staging

_TRIES = 3
_LOST, _STORE = "ServerLostError", "tamis.errors.StoreError: "

_log = logging.getLogger("tamis.spark")


class PostgresSink:
    """Writes to `store`, which is on a server that the executors reach by the same URL."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.drop_staging()  # tables or files that a killed run has left

    def write(self, batch: Batch, frame: DataFrame, snapshot: Snapshot) -> Written:
        """Match and copy in one Spark action, then commit: see `Sink`. A server that goes away is waited for."""
        for attempt in range(1, _TRIES + 1):
            staging = self._store.begin_staging()
            try:
                return self._write(batch, frame, snapshot, staging)
            except (PySparkException, StoreLostError) as error:
                if isinstance(error, PySparkException) and _LOST not in str(error):
                    raise _told(error) from error
                what = str(error) if isinstance(error, StoreError) else f"{self._store.path}: a task lost the server"
                _log.warning("%s; the batch is written again (try %d)", what, attempt)
                lost = error
            finally:
                self._drop(staging)
        raise StoreError(
            f"{self._store.path}: the server was lost {_TRIES} times while one batch was written"
        ) from lost

    def _write(self, batch: Batch, frame: DataFrame, snapshot: Snapshot, staging: Staging) -> Written:
        seen = batch.seen_kept > 0
        matching = Matching(frame, snapshot, batch.publication, seen=seen)
        function = in_worker(
            snapshot.state,
            "copy_rows",
            {
                "conninfo": self._store.conninfo(),
                "place": str(self._store.path),
                "staging": staging,
                "source": batch.source,
                "seen": seen,
            },
            "tamis.spark.sinks.postgres_worker",
        )
        rows = matching.rows.mapInArrow(function, "kind string, key string, count bigint").toArrow().to_pylist()
        totals, by_query = summed(rows)
        staged = BatchCounts(matching.read, totals["matched"], by_query.total(), totals["dead"])
        counts = self._store.commit_staged(
            batch.stream, batch.number, staging, batch.source, staged, batch.default_deliveries, batch.seen_kept
        )
        return matching.written(counts, totals["dead"], by_query)

    def _drop(self, staging: Staging) -> None:
        try:
            self._store.drop_staging(staging)
        except StoreError as error:
            _log.warning("%s; the next run drops its staging tables", error)


def _told(error: PySparkException) -> Exception:
    """Return what a task could not write, as the store's error; another error as it is."""
    return StoreError(reason(error)) if _STORE in str(error) else error
