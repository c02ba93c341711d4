"""The adapter manager (the PNNL paper, section 3.2): starts, stops and pauses one streaming query per adapter.

The command line writes the desired state of each adapter into the store; the manager looks there twice per second and
follows. An adapter that fails does not stop the others: its reason is reported, and it is started again later."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from tamis.adapters.adapter import Adapter, AdapterHealth
from tamis.errors import AdapterError, TamisError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Desire = Literal["running", "paused", "stopped"]

LOOK_INTERVAL_S: Final = 0.5
RETRY_S: Final = (1.0, 5.0, 15.0, 60.0, 300.0)
"""Time until a failed adapter is started again: the first time, the second time, ...; the last value repeats. Up to a
third is added, so that many adapters do not come back at the same moment."""
ONCE_TRIES: Final = 3
"""Number of times that a run that ends by itself starts an adapter that fails."""
LATE_TRIES: Final = 20
"""The same for one whose Python did not start in time: on a busy machine that says nothing about the adapter."""
HEALTHY_S: Final = 60.0
"""An adapter that has run for this time begins again with the first of `RETRY_S` if it fails."""
_LATE = "Python worker failed to connect back"
"""What Spark says of a Python worker that did not start in time, ten seconds."""


class RunningQuery(Protocol):
    """The part of a streaming query that the manager uses."""

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether it runs."""

    def exception(self) -> Exception | None:
        """Return the error that ended it, or None."""

    def stop(self) -> None:
        """End it; the checkpoint keeps its offsets."""


class DesiredState(Protocol):
    """The desired state of an adapter in the store."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def desired(self) -> Desire: ...  # noqa: D102


class AdapterStore(Protocol):
    """The part of the store that the manager uses; `tamis.store.Store` has all of it."""

    def adapter_states(self, names: Sequence[str] = ()) -> Iterable[DesiredState]:
        """Return the desired state of each adapter."""

    def set_adapter_desired(self, name: str, desired: Desire) -> None:
        """Ask an adapter to run, pause or stop."""

    def report_adapter(
        self, name: str, status: str, *, error: str | None = None, read_count: int = 0, dead_count: int = 0
    ) -> None:
        """Record the status of an adapter; the counts are added to those on record."""


StartQuery = Callable[[Adapter, "DataFrame"], RunningQuery]


@dataclass(slots=True)
class _Managed:
    """An adapter and its current state."""

    adapter: Adapter
    query: RunningQuery | None = None
    status: str = "stopped"
    error: str | None = None
    failures: int = 0
    late: int = 0
    started_at: float = 0.0
    retry_at: float = 0.0


class AdapterManager:
    """Keeps each adapter in the state that the store asks for. Thread-safe.

    Args:
        spark: the session that reads.
        adapters: the adapters, with different names.
        start_query: starts the streaming query of an adapter on its DataFrame.
        store: holds the desired states and takes the reports.
        clock: returns seconds; replaced in tests.

    Raises:
        AdapterError: two adapters have the same name.
    """

    def __init__(
        self,
        spark: SparkSession,
        adapters: Iterable[Adapter],
        start_query: StartQuery,
        store: AdapterStore,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark, self._start_query, self._store, self._clock = spark, start_query, store, clock
        self._lock = threading.RLock()
        self._managed: dict[str, _Managed] = {}
        for adapter in adapters:
            if adapter.name in self._managed:
                raise AdapterError(f"two adapters are named '{adapter.name}'; expected different names")
            self._managed[adapter.name] = _Managed(adapter)

    def list(self) -> dict[str, str]:
        """Return the status of each adapter: running, failed, finished, paused or stopped."""
        with self._lock:
            return {name: managed.status for name, managed in self._managed.items()}

    def error(self, name: str) -> str | None:
        """Return why an adapter failed; None if it did not.

        Raises:
            AdapterError: there is no adapter of that name.
        """
        with self._lock:
            return self._find(name).error

    def is_done(self) -> bool:
        """Return whether no adapter runs, and each that failed had its tries: `ONCE_TRIES`, or `LATE_TRIES` if late."""
        with self._lock:
            return not any(
                managed.status == "running"
                or (managed.status == "failed" and managed.failures < ONCE_TRIES and managed.late < LATE_TRIES)
                for managed in self._managed.values()
            )

    def start(self, name: str) -> None:
        """Ask an adapter to run from where it ended."""
        self._desire(name, "running")

    def stop(self, name: str) -> None:
        """Ask an adapter to stop; it keeps its offsets."""
        self._desire(name, "stopped")

    def pause(self, name: str) -> None:
        """Ask an adapter to wait until it is started again; it keeps its offsets."""
        self._desire(name, "paused")

    def test(self, name: str) -> AdapterHealth:
        """Read a few messages of an adapter, independently of its query.

        Raises:
            AdapterError: there is no adapter of that name.
        """
        return self._find(name).adapter.test()

    def look(self) -> None:
        """Look once: find out which queries have ended, and start and stop adapters as the store asks."""
        desires = {state.name: state.desired for state in self._store.adapter_states(list(self._managed))}
        with self._lock:
            for name, managed in self._managed.items():
                self._see_whether_ended(managed)
                self._follow(managed, desires[name])

    def run(self, stop: threading.Event) -> None:
        """Look twice per second until `stop` is set; then stop all queries."""
        try:
            while not stop.is_set():
                self.look()
                stop.wait(LOOK_INTERVAL_S)
        finally:
            self.close()

    def close(self) -> None:
        """Stop all queries. The desired states stay on record for the next run."""
        with self._lock:
            for managed in self._managed.values():
                if managed.query is not None:
                    self._end(managed, "stopped")

    def _desire(self, name: str, desired: Desire) -> None:
        self._find(name)
        self._store.set_adapter_desired(name, desired)

    def _find(self, name: str) -> _Managed:
        if name not in self._managed:
            known = ", ".join(self._managed) or "none"
            raise AdapterError(f"no adapter is named '{name}'; there are: {known}")
        return self._managed[name]

    def _see_whether_ended(self, managed: _Managed) -> None:
        query = managed.query
        if query is None or query.isActive:
            return
        managed.query = None
        error = query.exception()
        if error is None:
            self._become(managed, "finished")
        else:
            self._fail(managed, reason(error))

    def _follow(self, managed: _Managed, desired: Desire) -> None:
        if desired != "running":
            if managed.query is not None:
                self._end(managed, desired)
            elif managed.status != desired:
                self._become(managed, desired)
        elif managed.status in ("stopped", "paused") or (
            managed.status == "failed" and self._clock() >= managed.retry_at
        ):
            self._begin(managed)

    def _begin(self, managed: _Managed) -> None:
        try:
            managed.query = self._start_query(managed.adapter, managed.adapter.dataframe(self._spark))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other adapters go on, and it is reported
            self._fail(managed, reason(error))
        else:
            managed.started_at = self._clock()
            self._become(managed, "running")

    def _end(self, managed: _Managed, status: str) -> None:
        query, managed.query = managed.query, None
        try:
            if query is not None:
                query.stop()
        except Exception as error:  # noqa: BLE001 - it ends with the session at the latest; the others must end too
            self._become(managed, status, reason(error))
        else:
            self._become(managed, status)
        managed.failures = managed.late = 0

    def _fail(self, managed: _Managed, error: str) -> None:
        if self._clock() - managed.started_at >= HEALTHY_S and managed.started_at:
            managed.failures = managed.late = 0
        wait_s = RETRY_S[min(managed.failures, len(RETRY_S) - 1)]
        managed.retry_at = self._clock() + wait_s * random.uniform(1.0, 4 / 3)  # noqa: S311 - no secret
        if _LATE in error:
            managed.late += 1
        else:
            managed.failures += 1
        self._become(managed, "failed", error)

    def _become(self, managed: _Managed, status: str, error: str | None = None) -> None:
        if (status, error) != (managed.status, managed.error):
            managed.status, managed.error = status, error
            self._store.report_adapter(managed.adapter.name, status, error=error)


def reason(error: BaseException) -> str:
    """Return one line for a user from an error; those of Spark hold traces of Java and Python.

    It is the error of tamis if there is one, else the innermost error of Python, else of Java, else the first line.
    """
    if isinstance(error, TamisError):
        return str(error)
    text = str(error)
    if ours := re.search(r"^\s*tamis\.[\w.]+Error: (.+)$", text, re.MULTILINE):
        return ours[1].strip()
    python = re.findall(r"^\w*(?:Error|Exception): .+$", text, re.MULTILINE)
    java = re.findall(r"^Caused by: (?:[\w.$]+: )?(.+)$", text, re.MULTILINE)
    lines = text.strip().splitlines()
    return ((python or java or lines[:1])[-1:] or [type(error).__name__])[0].strip()
