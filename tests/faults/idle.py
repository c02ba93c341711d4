"""Measures how late an idle process wakes up: what the machine, and not the broker, adds to a measured delay."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Self

SLEEP_S = 0.002


def _sleep(stopping: Event, answers: Connection) -> None:
    late: list[tuple[float, float]] = []
    began = time.monotonic()
    while not stopping.is_set():
        time.sleep(SLEEP_S)
        now = time.monotonic()
        late.append((now, now - began - SLEEP_S))
        began = now
    answers.send([pair for pair in late if pair[1] > SLEEP_S])


class IdleLoop:
    """A process that only sleeps, beside a measurement.

    Its delays are the control of a promise in time: a machine that lets it wait lets the broker wait as well."""

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        self._stopping = context.Event()
        self._answers, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_sleep, args=(self._stopping, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._late: list[tuple[float, float]] = []
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process, and keep what it measured."""
        if self._process.is_alive():
            self._stopping.set()
            self._late = self._answers.recv()
            self._process.join()

    def longest_s(self, since: float, until: float) -> float:
        """Return the longest delay of a wake-up between two times of the monotonic clock, in seconds."""
        return max((late for at, late in self._late if since <= at and at - late <= until), default=0.0)
