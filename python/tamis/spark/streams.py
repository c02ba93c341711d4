"""Runs one adapter as a streaming query: starts it, watches it, and stops it between two batches.

Spark's checkpoint keeps the offsets of the adapter, and the pipeline processes the batches."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from tamis.adapters.manager import reason
from tamis.errors import AdapterError

STOP_S_MAX = 15.0
"""Maximum time for a batch in progress to finish when its stream is stopped; then it is abandoned and replayed."""

OnBatch = Callable[[str, DataFrame, int], None]


class StreamStoppedError(Exception):
    """Ends a batch that has not begun, because its stream is being stopped. It never leaves this module."""


class PollTimes(StreamingQueryListener):
    """Knows when each stream of a session last looked for new messages. Spark calls it from a thread of its own."""

    def __init__(self) -> None:
        self._times: dict[str, datetime] = {}

    def of(self, stream: AdapterStream) -> datetime | None:
        """Return when a stream looked last, UTC; None if it did not yet."""
        return self._times.get(stream.run_id)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802, D102 - Spark's name
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802, D102 - Spark's name
        self._note(str(event.progress.runId), event.progress.timestamp)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802, D102 - Spark's name
        self._note(str(event.runId), event.timestamp)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802, D102 - Spark's name
        pass

    def _note(self, run_id: str, timestamp: str) -> None:
        self._times[run_id] = datetime.fromisoformat(timestamp).astimezone(UTC)


class AdapterStream:
    """A streaming query from a DataFrame to a function of batches; the adapter manager starts and stops it.

    Args:
        frame: the streaming DataFrame.
        checkpoint: the folder of the stream's offsets.
        on_batch: called with the id of the checkpoint, the rows and the number of the batch. An exception ends the
            stream; when it is started again, the batch is processed again with the same rows.
        interval_ms: minimum time between the starts of two batches; None ends the stream when it has read everything
            that existed at its start.
    """

    def __init__(self, frame: DataFrame, checkpoint: Path, on_batch: OnBatch, interval_ms: int | None) -> None:
        self._checkpoint, self._on_batch = checkpoint, on_batch
        self._gate = threading.Lock()  # held while a batch is processed
        self._stopping = threading.Event()
        _forget_torn_start(checkpoint)
        writer = frame.writeStream.foreachBatch(self._process).option("checkpointLocation", str(checkpoint))
        timed = (
            writer.trigger(availableNow=True)
            if interval_ms is None
            else writer.trigger(processingTime=f"{interval_ms} milliseconds")
        )
        self._query: StreamingQuery = timed.start()
        self.run_id, self.interval_ms = str(self._query.runId), interval_ms

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name, which the manager asks for
        """Whether the stream still runs. Cost: a call to Java, 1 ms."""
        return bool(self._query.isActive)

    def exception(self) -> AdapterError | None:
        """Return why the stream ended by itself, in one line; None if it did not fail."""
        error = None if self._stopping.is_set() else self._query.exception()
        return None if error is None else AdapterError(reason(error))

    def stop(self) -> None:
        """Stop after the batch in progress; one that takes longer than `STOP_S_MAX` is abandoned and replayed later.

        Raises:
            AdapterError: Spark did not stop it.
        """
        self._stopping.set()
        if self._gate.acquire(timeout=STOP_S_MAX):
            self._gate.release()
        try:
            self._query.stop()
        except PySparkException as error:
            raise AdapterError(f"Spark did not stop the stream: {reason(error)}") from error

    def _process(self, frame: DataFrame, batch_id: int) -> None:
        """Process a batch; Spark calls this. Only an exception tells Spark that the batch is not done."""
        if self._stopping.is_set():
            raise StreamStoppedError
        with self._gate:
            self._on_batch(checkpoint_id(self._checkpoint), frame, batch_id)


def _forget_torn_start(checkpoint: Path) -> None:
    """Remove what a kill left of the very first batch; Spark refuses it as the checkpoint of something else.

    Spark writes the offsets of a batch to a hidden file, and then renames it. Nothing is removed if a batch was begun.
    """
    offsets = checkpoint / "offsets"
    names = [path.name for path in offsets.iterdir()] if offsets.is_dir() else []
    if all(name.startswith(".") for name in names):
        for name in names:
            (offsets / name).unlink(missing_ok=True)


def checkpoint_id(checkpoint: Path) -> str:
    """Return the id that Spark gave the checkpoint; one that is deleted and created again has another id.

    Raises:
        AdapterError: it cannot be read.
    """
    path = checkpoint / "metadata"
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError) as error:
        raise AdapterError(
            f"{checkpoint}: the checkpoint is damaged: {error}; remove the folder to read everything again"
        ) from error
