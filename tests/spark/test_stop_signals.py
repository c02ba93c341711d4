"""A signal stops a run whatever the main thread does at that moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from tamis.spark.stop_signals import NUMBERS, StopSignals


@pytest.fixture
def limited() -> Iterator[None]:
    """End a test that hangs, with an error."""

    def too_long(*_: object) -> None:
        raise TimeoutError("the handler of the signal waits for a lock that its own thread holds")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.usefixtures("limited")
def test_a_signal_while_the_main_thread_holds_the_lock_of_what_it_sets(number: signal.Signals) -> None:
    lock, stopped, reasons = threading.Lock(), threading.Event(), []

    def stop(reason: str) -> None:
        with lock:  # as Event.set takes the lock that Event.wait holds for a moment
            reasons.append(reason)
            stopped.set()

    with StopSignals(stop):
        with lock:
            signal.raise_signal(number)
        assert stopped.wait(5)
    assert reasons == [number.name]


def test_a_second_sigint_interrupts_and_a_second_sigterm_does_not() -> None:
    reasons: list[str] = []
    with StopSignals(reasons.append):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert reasons == ["SIGTERM"]


def test_the_handlers_of_before_are_restored_and_can_be_taken_back() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    reasons: list[str] = []
    with StopSignals(reasons.append) as signals:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a library does
        signals.take()
        signal.raise_signal(signal.SIGINT)
    assert reasons == ["SIGINT"]
    assert [signal.getsignal(number) for number in NUMBERS] == before


def test_another_thread_than_the_main_one_handles_no_signals() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def run() -> None:
        with StopSignals(lambda _: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
