"""The pipeline: adapters, matched on Spark, into the outbox, and from there to whoever asked.

One streaming query an adapter; each micro-batch is `tamis.spark.batch`. This file starts them, watches them, and stops
them so that nothing is lost: a batch is in the store as a whole or comes again, the same."""

from __future__ import annotations

import fcntl
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tamis.errors import AdapterError, TamisError
from tamis.notify.engine import NotificationEngine
from tamis.spark.batch import process_batch
from tamis.spark.deliveries import DeliveryThread
from tamis.spark.progress import Progress, RunSummary, Tally
from tamis.spark.sessions import close_session, session
from tamis.spark.snapshots import Snapshots
from tamis.spark.streams import Stream
from tamis.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tamis.pipeline_config import AdapterConfig, PipelineConfig

PROGRESS_INTERVAL_S = 0.2
"""The least time between two reports of progress."""

_CONTROL_INTERVAL_S = 1.0  # how soon `tamis adapter stop` is followed
_RETRY_S = (5.0, 15.0, 60.0, 300.0)  # after how long a failed adapter is started again; the last one from then on

OnProgress = Callable[[Progress], None]


def run_pipeline(config_path: str | Path, once: bool = False, progress: OnProgress | None = None) -> RunSummary:
    """Run the pipeline of a ``pipeline.toml``: open its store, bring in its queries, and run until the end.

    Args:
        config_path: the file.
        once: end when all that there is now has been read and delivered; else run until SIGINT or SIGTERM.
        progress: called at most five times a second, in the thread of the caller.

    Raises:
        ConfigError: the file, or its file of queries, cannot be used.
        StoreError: the store cannot be used.
        JavaNotFoundError: Spark has no Java.
        TamisError: another run uses the same folders, or the disk is full.
    """
    from tamis.pipeline_config import PipelineConfig

    config = PipelineConfig.load(config_path)
    with Store.open(config.pipeline.store) as store:
        if config.queries.file is not None:
            store.import_queries(config.queries.file)
        return Pipeline(config, store).run(once, progress)


class Pipeline:
    """A configured pipeline over an open store.

    Args:
        config: what to read, and where to deliver.
        store: with the queries; results go there.
        spark: a session to use and leave running; without it `run` starts one and ends it.
    """

    def __init__(self, config: PipelineConfig, store: Store, spark: SparkSession | None = None) -> None:
        self._config, self._store, self._spark = config, store, spark
        self._stop = threading.Event()
        self._stopped_by: str | None = None

    def stop(self, reason: str = "stop") -> None:
        """End `run`, from any thread: batches in progress are finished first. Calling it again does nothing."""
        if not self._stop.is_set():
            self._stopped_by = reason
            self._stop.set()

    def run(self, once: bool = False, progress: OnProgress | None = None) -> RunSummary:
        """Read, match and deliver, until all is read (`once`), or until SIGINT, SIGTERM or `stop`.

        In the main thread the two signals are taken over meanwhile; a second SIGINT interrupts at once.

        Returns:
            What was done. An adapter that failed is in ``failed``; the others went on.

        Raises:
            StoreError: the store cannot be written; what was committed stays, the rest comes again at the next run.
            TamisError: as `run_pipeline`.
        """
        work = self._config.pipeline.work
        try:
            work.mkdir(parents=True, exist_ok=True)
            with _alone(work / "lock"), self._signals() as take_signals:
                spark = self._spark or session(f"tamis {self._config.pipeline.name}", log_path=work / "spark.log")
                take_signals()  # Spark's start has put its own handler there
                try:
                    return self._run(spark, once, progress)
                finally:
                    if self._spark is None:
                        close_session(spark)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            raise TamisError(f"{place}cannot be written or read: {error.strerror or error}") from error

    def _run(self, spark: SparkSession, once: bool, progress: OnProgress | None) -> RunSummary:
        tally = Tally()
        deliveries = DeliveryThread(NotificationEngine(self._store, self._config.deliveries), tally)
        snapshots = Snapshots(self._store, self._config.pipeline.work)
        adapters = [
            _RunningAdapter(spark, self._config, adapter, self._store, snapshots, tally, deliveries, once)
            for adapter in self._config.adapters
        ]
        deliveries.start()
        try:
            self._watch(adapters, tally, deliveries, once, progress)
        finally:
            for adapter in adapters:
                adapter.stop()
            deliveries.close(drain=once and not self._stop.is_set())
        if deliveries.failure is not None:
            raise deliveries.failure
        if progress is not None:
            progress(tally.progress({adapter.name: adapter.state for adapter in adapters}))
        failed = {adapter.name: adapter.error for adapter in adapters if adapter.error is not None}
        return tally.summary(failed, self._store.counts().deliveries_pending, self._stopped_by)

    def _watch(
        self,
        adapters: list[_RunningAdapter],
        tally: Tally,
        deliveries: DeliveryThread,
        once: bool,
        progress: OnProgress | None,
    ) -> None:
        """Until the end of the run: follow what is asked of the adapters, and tell how far all is."""
        control_at = 0.0
        while not self._stop.is_set() and deliveries.failure is None:
            if (now := time.monotonic()) >= control_at:
                control_at = now + _CONTROL_INTERVAL_S
                wanted = {state.name: state.desired for state in self._store.adapter_states(_names(adapters))}
                for adapter in adapters:
                    adapter.follow(wanted[adapter.name])
            for adapter in adapters:
                adapter.check()
            if progress is not None:
                progress(tally.progress({adapter.name: adapter.state for adapter in adapters}))
            if once and not any(adapter.state == "running" for adapter in adapters):
                return
            self._stop.wait(PROGRESS_INTERVAL_S)

    @contextmanager
    def _signals(self) -> Iterator[Callable[[], None]]:
        """SIGINT and SIGTERM stop the run. Gives a function that takes them over again; puts back what was there."""
        if threading.current_thread() is not threading.main_thread():
            yield lambda: None
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def take() -> None:
            for number in before:
                signal.signal(number, self._on_signal)

        take()
        try:
            yield take
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.stop(signal.Signals(number).name)


class _RunningAdapter:
    """An adapter of a run: its stream, or why there is none."""

    def __init__(
        self,
        spark: SparkSession,
        config: PipelineConfig,
        adapter: AdapterConfig,
        store: Store,
        snapshots: Snapshots,
        tally: Tally,
        deliveries: DeliveryThread,
        once: bool,
    ) -> None:
        self.name = adapter.name
        self.state = "stopped"
        self.error: str | None = None
        self._spark, self._config, self._adapter = spark, config, adapter
        self._store, self._snapshots, self._tally, self._deliveries = store, snapshots, tally, deliveries
        self._once = once
        self._stream: Stream | None = None
        self._failures = 0
        self._retry_at = 0.0

    def follow(self, desired: str) -> None:
        """Start or stop the stream as the store's `desired` state asks, and start a failed one again after a while."""
        if desired != "running":
            if self.state in ("running", "failed") or self._stream is not None:
                self.stop()
            self._become("paused" if desired == "paused" else "stopped")
        elif self.state in ("stopped", "paused") or (self._may_retry() and time.monotonic() >= self._retry_at):
            self._start()

    def check(self) -> None:
        """See whether the stream has ended by itself, and why.

        Raises:
            TamisError, OSError: what makes going on useless, such as a store that cannot be written.
        """
        if self._stream is None or self._stream.active:
            return
        failure, self._stream = self._stream.failure(), None
        if failure is None:
            self._become("finished")
        elif isinstance(failure, AdapterError):
            self._fail(str(failure))
        else:
            raise failure

    def stop(self) -> None:
        """Stop the stream, if there is one, between two batches."""
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.stop()
            self._become("stopped")

    def _start(self) -> None:
        from pyspark.errors import PySparkException

        from tamis.spark.streams import reason

        interval_ms = max(self._adapter.poll_interval_ms, self._config.pipeline.interval_ms)
        try:
            self._stream = Stream(
                self._spark,
                f"tamis.{self._adapter.type}",
                source_options(self._adapter),
                self._config.pipeline.checkpoints / self.name,
                self._process,
                None if self._once else interval_ms,
            )
        except PySparkException as error:
            self._fail(reason(error))
        else:
            self._become("running")

    def _process(self, checkpoint_id: str, frame: DataFrame, batch_id: int) -> None:
        stream = f"{self._config.pipeline.name}/{self.name}@{checkpoint_id}"
        report = process_batch(
            self._store, self._snapshots, stream, self.name, self._config.default_deliveries, frame, batch_id
        )
        if report is not None:
            self._tally.add_batch(report)
            self._deliveries.wake()
            self._store.report_adapter(self.name, "running", read_count=report.read, dead_count=report.dead)
        self._failures = 0

    def _may_retry(self) -> bool:
        return self.state == "failed" and not self._once

    def _fail(self, error: str) -> None:
        self._retry_at = time.monotonic() + _RETRY_S[min(self._failures, len(_RETRY_S) - 1)]
        self._failures += 1
        self._become("failed", error)

    def _become(self, state: str, error: str | None = None) -> None:
        if (state, error) != (self.state, self.error):
            self.state, self.error = state, error
            self._store.report_adapter(self.name, state, error=error)


def source_options(adapter: AdapterConfig) -> dict[str, str]:
    """The options of the adapter's Spark format."""
    options = {
        "path": str(adapter.path),
        "topic": adapter.topic or adapter.name,
        "stop_words": adapter.stop_words,
        "max_messages": str(adapter.max_messages),
    }
    return options if adapter.body_field is None else options | {"body_field": adapter.body_field}


def _names(adapters: list[_RunningAdapter]) -> list[str]:
    return [adapter.name for adapter in adapters]


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, which the system lets go of however this process ends.

    Raises:
        TamisError: another process holds it.
    """
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TamisError(f"{path}: another run of this pipeline is using {path.parent}; end it first") from error
        yield
