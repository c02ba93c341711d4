"""Runs a pipeline: messages from adapters are matched on Spark, put into the outbox, and delivered.

The adapter manager keeps one streaming query per adapter; `tamis.spark.batch` processes each micro-batch. This file
connects the parts of a run, and ends it so that nothing is lost: a batch is in the store as a whole, or it is read
again unchanged."""

from __future__ import annotations

import functools
import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.adapters.adapter import Adapter
from tamis.adapters.http_thread import HttpThread
from tamis.adapters.manager import LOOK_INTERVAL_S, AdapterManager
from tamis.config.apply import apply_config
from tamis.errors import StoreUnavailableError, TamisError
from tamis.notify.engine import NotificationEngine
from tamis.notify.unsubscribe import Links, application
from tamis.spark.batch import process_batch
from tamis.spark.deliveries import DeliveryThreads
from tamis.spark.lease import HeldLease, alone_in, held_lease
from tamis.spark.matching.shipping import ship
from tamis.spark.progress import Progress, RunSummary, RunTally
from tamis.spark.publishing import Publication
from tamis.spark.sessions import close_session, session
from tamis.spark.sinks.home import sink_of
from tamis.spark.sinks.sink import Batch
from tamis.spark.snapshots import Snapshots
from tamis.spark.stop_signals import StopSignals
from tamis.spark.streams import AdapterStream, PollTimes
from tamis.store import Store
from tamis.store.records import Poll

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tamis.config.pipeline import PipelineConfig

PROGRESS_INTERVAL_S = 0.2
"""Minimum time between two reports of progress."""

_log = logging.getLogger("tamis.spark")

OnProgress = Callable[[Progress], None]


def run_pipeline(
    config_path: str | Path, once: bool = False, progress: OnProgress | None = None, *, master: str | None = None
) -> RunSummary:
    """Run the pipeline of a ``pipeline.toml`` over its store until the end.

    Args:
        config_path: the file.
        once: end when everything that exists now has been read and delivered; else run until SIGINT or SIGTERM.
        progress: called at most five times per second, in the thread of the caller.
        master: where Spark runs, instead of what the file says.

    Raises:
        ConfigError: the master, the file, or its file of queries, cannot be used.
        StoreError: the store cannot be used.
        JavaNotFoundError: there is no Java for Spark.
        TamisError: another run uses the same store or folders, or the disk is full.
    """
    from tamis.config.pipeline import PipelineConfig

    config = PipelineConfig.load(config_path)
    if master is not None:
        config = config.with_master(master)
    with Store.open(config.pipeline.store) as store:
        return Pipeline(config, store).run(once, progress)


class Pipeline:
    """A configured pipeline over an open store.

    Args:
        config: what to read, and where to deliver.
        store: holds the queries and takes the results.
        spark: a session to use and leave running; without it `run` starts one and stops it.
    """

    def __init__(self, config: PipelineConfig, store: Store, spark: SparkSession | None = None) -> None:
        self._config, self._store, self._spark = config, store, spark
        self._stop = threading.Event()
        self._stopped_by: str | None = None

    def stop(self, reason: str = "stop") -> None:
        """End `run` after the batches in progress, from any thread. Calling it again does nothing."""
        if not self._stop.is_set():
            self._stopped_by = reason
            self._stop.set()

    def run(self, once: bool = False, progress: OnProgress | None = None) -> RunSummary:
        """Apply the files to the store; then read, match and deliver.

        It runs until everything is read (`once`), or until SIGINT, SIGTERM or `stop`.

        In the main thread it handles the two signals meanwhile; a second SIGINT interrupts at once.

        Returns:
            The summary of the run. An adapter that failed is in ``failed``; the others went on.

        Raises:
            ConfigError: a file of queries or hierarchies cannot be used, or a query names a delivery that is not there.
            StoreError: another pipeline runs over the store; or the store cannot be written: what was committed stays,
                and the next run reads the others again.
            TamisError: see `run_pipeline`; or Spark's Java process has ended.
        """
        work = self._config.pipeline.work
        try:
            work.mkdir(parents=True, exist_ok=True)
            with (
                held_lease(self._store, self._config.path) as lease,
                alone_in(work),
                StopSignals(self.stop) as signals,
            ):
                apply_config(self._config, self._store)
                self._store.fan_out()  # tables or files that a killed run has left
                self._store.keep_seen(self._config.pipeline.seen_messages)
                spark = self._spark or self._session(work)
                signals.take()  # Spark's start has installed its own handler
                try:
                    return self._run(spark, lease, once, progress)
                finally:
                    if self._spark is None:
                        close_session(spark)
        except ConnectionError as error:  # to Java: a store and a delivery explain theirs
            raise TamisError(
                "Spark's Java process has ended, killed or short of memory; start the pipeline again: it goes on with "
                "the batch that was not done"
            ) from error
        except OSError as error:
            path = f"{error.filename}: " if error.filename else ""
            raise TamisError(f"{path}cannot be written or read: {error.strerror or error}") from error

    def _run(self, spark: SparkSession, lease: HeldLease, once: bool, progress: OnProgress | None) -> RunSummary:
        run = _Run(self._config, self._store, spark, once)
        try:
            run.start()
            lease.polls = run.polls
            while not self._stop.is_set() and run.look():
                lease.check()
                run.report(progress)
                self._stop.wait(PROGRESS_INTERVAL_S)
        finally:
            run.close(drain=once and not self._stop.is_set(), stop=self._stop)
        run.report(progress)
        return run.summary(self._stopped_by)

    def _session(self, work: Path) -> SparkSession:
        name, where = f"tamis {self._config.pipeline.name}", self._config.spark
        return session(
            name, master=where.master, host=where.host, python=where.python, folder=work, options=where.texts()
        )


class _Run:
    """The parts of one run and their shared state."""

    def __init__(self, config: PipelineConfig, store: Store, spark: SparkSession, once: bool) -> None:
        self._config, self._store, self._once = config, store, once
        self._tally = RunTally()
        self._sink = sink_of(store, config.pipeline.notifications)
        shards = config.queries.shards
        self._snapshots = Snapshots(store, config.pipeline.work, functools.partial(ship, spark), shards=shards)
        links = Links(it.url, it.secret()) if (it := config.unsubscribe) else None
        engine = NotificationEngine(
            store, config.deliveries, keep=config.pipeline.keep, owners=config.people, links=links
        )
        self._unsubscribe = HttpThread(application(links, store), *it.address) if it and links else None
        self._deliveries = DeliveryThreads(engine.dispatchers, self._tally)
        self._publications = {
            it.name: Publication(it.name, it.publish, it.publish.password(it.name))
            for it in config.adapters
            if it.publish
        }
        adapters = [Adapter.from_config(adapter, config.pipeline.work) for adapter in config.adapters]
        self._manager = AdapterManager(spark, adapters, self._stream, store)
        self._spark, self._poll_times = spark, PollTimes()
        self._streams: dict[str, AdapterStream] = {}
        self._fatal: Exception | None = None
        self._look_at = 0.0

    def start(self) -> None:
        """Start the deliveries; the adapters start with the first look.

        Raises:
            TamisError: the address of ``[unsubscribe]`` cannot be listened on.
        """
        if self._unsubscribe is not None and not self._unsubscribe.start():
            assert self._config.unsubscribe is not None  # noqa: S101 - for the type checker
            listen = self._config.unsubscribe.listen
            raise TamisError(f"[unsubscribe]: {listen} cannot be listened on; another program may use it")
        self._spark.streams.addListener(self._poll_times)
        self._deliveries.start()

    def polls(self) -> dict[str, Poll]:
        """Return when each adapter looked for new messages."""
        now, polls = datetime.now(UTC), {}
        for name, stream in list(self._streams.items()):
            if (at := self._poll_times.of(stream)) is not None:
                polls[name] = Poll(at, next_poll(at, stream.interval_ms, now))
        return polls

    def look(self) -> bool:
        """Let the manager follow the desired states of the adapters; return whether the run goes on.

        Raises:
            TamisError, OSError: the run cannot go on, for instance because the store cannot be written.
        """
        if failure := self._fatal or self._deliveries.failure:
            raise failure
        if time.monotonic() >= self._look_at:
            self._manage()
            self._look_at = time.monotonic() + LOOK_INTERVAL_S
        return not self._once or not self._manager.is_done()

    def _manage(self) -> None:
        try:
            self._manager.look()
        except StoreUnavailableError as error:
            _log.warning("%s; the adapters go on", error)

    def close(self, *, drain: bool, stop: threading.Event) -> None:
        """Stop the adapters, each between two batches, then the deliveries; with `drain` after everything due.

        Setting `stop` meanwhile ends the draining.
        """
        try:
            self._manager.close()
            self._spark.streams.removeListener(self._poll_times)
        finally:
            self._deliveries.close(drain=drain and self._fatal is None, stop=stop)
            if self._unsubscribe is not None:
                self._unsubscribe.stop()

    def report(self, progress: OnProgress | None) -> None:
        """Report the progress of the run."""
        if progress is not None:
            progress(self._tally.progress(self._manager.list()))

    def summary(self, stopped_by: str | None) -> RunSummary:
        """Return the summary of the run.

        Raises:
            TamisError, OSError: something failed at the very end.
        """
        if failure := self._fatal or self._deliveries.failure:
            raise failure
        errors = {name: self._manager.error(name) for name in self._manager.list()}
        failed = {name: error for name, error in errors.items() if error is not None}
        return self._tally.summary(
            failed, self._deliveries.troubles, self._store.counts().deliveries_pending, stopped_by
        )

    def _stream(self, adapter: Adapter, frame: DataFrame) -> AdapterStream:
        """Start the streaming query of an adapter, for the manager."""
        interval_ms = max(adapter.trigger_ms, self._config.pipeline.interval_ms)
        checkpoint = self._config.pipeline.checkpoints / adapter.name
        process = functools.partial(self._process, adapter.name)
        stream = AdapterStream(frame, checkpoint, process, None if self._once else interval_ms)
        self._streams[adapter.name] = stream
        return stream

    def _process(self, adapter: str, checkpoint_id: str, frame: DataFrame, batch_id: int) -> None:
        stream = f"{self._config.pipeline.name}/{adapter}@{checkpoint_id}"
        try:
            publication = self._publications.get(adapter)
            kept = self._config.pipeline.seen_messages
            batch = Batch(stream, batch_id, adapter, self._config.default_deliveries, publication, kept)
            report = process_batch(self._store, self._snapshots, self._sink, batch, frame)
            if report is None:
                return
            self._store.report_adapter(
                adapter, "running", error=report.unpublished, read_count=report.read, dead_count=report.dead
            )
        except StoreUnavailableError:
            raise  # the adapter fails with the reason, and the batch is tried again later
        except (TamisError, OSError) as error:
            self._fatal = error  # not the adapter's fault: it would only fail again
            raise
        self._tally.add_batch(report)
        self._deliveries.wake()


def next_poll(at: datetime, interval_ms: int | None, now: datetime) -> datetime | None:
    """Return when a stream that looked at `at` looks again after `now`; None if it never does."""
    if interval_ms is None:
        return None
    interval = timedelta(milliseconds=interval_ms)
    return at + interval * max(1, math.ceil((now - at) / interval))
