"""Reads an adapter's messages again, for queries that came later.

It goes around the adapter's checkpoint: what the pipeline reads next does not change. A message that a query has
matched before makes no second notification, because that has the same id."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from tamis.adapters.adapter import Adapter
from tamis.adapters.datasource import data_sources
from tamis.adapters.message_time import TIME_FIELDS, time_of
from tamis.adapters.rows import Row, arrow_batches
from tamis.adapters.sources.journal import JournalSource
from tamis.adapters.sources.live.source import LiveSource
from tamis.adapters.sources.source import Slice, Source, offset_of
from tamis.errors import AdapterError
from tamis.spark.batch import process_batch
from tamis.spark.lease import alone_in, held_lease
from tamis.spark.sessions import close_session, session
from tamis.spark.sinks.home import sink_of
from tamis.spark.sinks.sink import Batch
from tamis.spark.snapshots import Snapshots
from tamis.store import QueryRecord, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tamis.config.pipeline import PipelineConfig

BATCH_ROWS = 5_000
"""Number of messages of a batch."""


@dataclass
class BackfillSummary:
    """The result of a backfill.

    Attributes:
        read: number of messages that were read.
        older: number of those that were left out because they are older than asked.
        dead: number of those that cannot be read.
        matched: number of those that a query matched.
        notifications: number of notifications that are new.
    """

    read: int = 0
    older: int = 0
    dead: int = 0
    matched: int = 0
    notifications: int = 0


def backfill(
    config: PipelineConfig,
    store: Store,
    name: str,
    since: datetime | None = None,
    keys: Collection[str] = (),
    progress: Callable[[int, int], object] = lambda done, total: None,
    spark: SparkSession | None = None,
) -> BackfillSummary:
    """Match again the messages that an adapter of files has now, and add what is new to the outbox.

    Messages without a time are matched, whatever `since` says.

    Args:
        config: the pipeline, which must not run meanwhile.
        store: its store.
        name: the name of the adapter.
        since: the oldest message to match; None: all.
        keys: only these queries; none: all that are active.
        progress: called with the bytes that are done, and all.
        spark: a session to use and leave running; without it, one is started on this machine, and ended.

    Raises:
        AdapterError: there is no such adapter, its messages cannot be read again, there is no such query, or the
            notifications are in Delta tables.
        StoreError: the pipeline runs; or the store cannot be written.
        TamisError: Spark did not start.
    """
    if config.pipeline.notifications is not None:
        raise AdapterError(
            "[pipeline] notifications: tables cannot be filled again, because they would have each notification twice; "
            "give the pipeline a store alone, or read into new tables with another pipeline"
        )
    adapter = _adapter(config, name)
    source = adapter.source()
    source.check()
    active = {record.key for record in store.list_queries() if record.spec().is_active()}
    for key in keys:
        if key not in active:
            raise AdapterError(f"no active query has the key '{key}'")
    work = config.pipeline.work
    work.mkdir(parents=True, exist_ok=True)
    with held_lease(store, config.path), alone_in(work):
        used = spark or session(f"tamis backfill {name}", folder=work)
        try:
            stream = f"{config.pipeline.name}/{name}@backfill-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
            run = _Backfill(
                store,
                Snapshots(_Only(store, keys), work, shards=0 if keys else config.queries.shards),
                adapter,
                source,
                used,
                stream,
            )
            return run.run(since, config.default_deliveries, progress)
        finally:
            if spark is None:
                close_session(used)


def _adapter(config: PipelineConfig, name: str) -> Adapter:
    for adapter in config.adapters:
        if adapter.name == name:
            made = Adapter.from_config(adapter, config.pipeline.work)
            if isinstance(made.source(), LiveSource | JournalSource):
                raise AdapterError(f"adapter '{name}': only files can be read again, not type '{adapter.type}'")
            return made
    known = ", ".join(adapter.name for adapter in config.adapters) or "none"
    raise AdapterError(f"no adapter is named '{name}'; there are: {known}")


class _Only:
    """All queries of a store, or some of them."""

    def __init__(self, store: Store, keys: Collection[str]) -> None:
        self._store, self._keys = store, keys

    def queries_at(self, revision: int) -> list[QueryRecord]:
        return self._store.queries_of(self._keys, revision) if self._keys else self._store.queries_at(revision)

    def each_query_at(self, revision: int) -> Iterator[QueryRecord]:
        return iter(self.queries_at(revision)) if self._keys else self._store.each_query_at(revision)

    def queries_of(self, keys: Collection[str], revision: int) -> list[QueryRecord]:
        return self._store.queries_of(self._wanted(keys), revision)

    def changed_keys(self, revision: int, other: int) -> Collection[str]:
        return self._wanted(self._store.changed_keys(revision, other))

    def hierarchies_at(self, revision: int) -> Mapping[str, Mapping[str, str | None]]:
        return self._store.hierarchies_at(revision)

    def _wanted(self, keys: Collection[str]) -> Collection[str]:
        return set(keys).intersection(self._keys) if self._keys else keys


class _Backfill:
    """One backfill."""

    def __init__(
        self, store: Store, snapshots: Snapshots, adapter: Adapter, source: Source, spark: SparkSession, stream: str
    ) -> None:
        self._store, self._snapshots, self._adapter, self._source = store, snapshots, adapter, source
        self._spark, self._stream, self._sink = spark, stream, sink_of(store, None)
        (data_source,) = (it for it in data_sources() if it.name() == adapter.format)
        self._schema = data_source(adapter.options()).schema()
        self._summary = BackfillSummary()

    def run(
        self, since: datetime | None, deliveries: tuple[str, ...], progress: Callable[[int, int], object]
    ) -> BackfillSummary:
        start = offset_of({})
        slices = self._source.plan(start, self._source.latest(start, None, settled=True))
        before, total = self._store.counts().notifications, sum(map(_size, slices))
        progress(0, total)
        for number, rows in enumerate(_batches(self._wanted(slices, since))):
            self._process(number, [row for row, _ in rows], deliveries)
            progress(rows[-1][1], total)
        progress(total, total)
        self._summary.notifications = self._store.counts().notifications - before
        return self._summary

    def _wanted(self, slices: Iterable[Slice], since: datetime | None) -> Iterator[tuple[Row, int]]:
        """Yield the rows to match, each with the bytes that were done before its slice."""
        done = 0
        for part in slices:
            for row in self._source.read(part):
                self._summary.read += 1
                if since is not None and _is_older(row, since):
                    self._summary.older += 1
                else:
                    yield row, done
            done += _size(part)

    def _process(self, number: int, rows: list[Row], deliveries: tuple[str, ...]) -> None:
        schema = to_arrow_schema(self._schema, timezone="UTC")
        frame = self._spark.createDataFrame(pa.Table.from_batches(arrow_batches(rows, schema)), self._schema)
        batch = Batch(self._stream, number, self._adapter.name, deliveries)
        report = process_batch(self._store, self._snapshots, self._sink, batch, frame)
        if report is not None:
            self._summary.dead += report.dead
            self._summary.matched += report.matched


def _batches(rows: Iterator[tuple[Row, int]]) -> Iterator[list[tuple[Row, int]]]:
    waiting: list[tuple[Row, int]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == BATCH_ROWS:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _size(part: Slice) -> int:
    return sum(piece.end - piece.start for piece in part.ranges)


def _is_older(row: Row, since: datetime) -> bool:
    properties: Any = row.properties
    if isinstance(properties, str):
        properties = json.loads(properties)
    at = time_of(properties, TIME_FIELDS) if isinstance(properties, dict) else None
    return at is not None and at < since.timestamp()
