"""The longest stall of the event loop is known, with what caused it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tamis.broker.server.ticker import SHELL, TICK, Stall, Ticker

HELD_S = 0.06


def longest(on_tick: Callable[[float], None], call: tuple[int, str], *, meanwhile: Callable[[], None]) -> Stall:
    """Return the longest stall of half a second, in which the data plane's longest call was `call`."""

    async def run() -> Stall:
        ticker = Ticker(on_tick, lambda: call)
        ticker.start()
        await asyncio.sleep(0.15)
        meanwhile()
        await asyncio.sleep(0.35)
        assert ticker.recent() == ticker.longest
        return ticker.longest

    return asyncio.run(run())


def work() -> None:
    """Use a core for 0.3 s."""
    until_s = time.thread_time() + 0.3
    while time.thread_time() < until_s:
        pass


def hold(_: float = 0.0) -> None:
    time.sleep(HELD_S)


@pytest.mark.parametrize(("call", "cause"), [((0, ""), TICK), ((50_000, "work basic.publish"), "work basic.publish")])
def test_what_a_tick_does_itself_is_a_stall_though_the_next_tick_is_in_time(call: tuple[int, str], cause: str) -> None:
    stall = longest(hold, call, meanwhile=lambda: None)
    assert stall.seconds >= HELD_S
    assert stall.cause == cause


def test_what_holds_the_loop_between_two_ticks_is_one_too() -> None:
    stall = longest(lambda _: None, (0, ""), meanwhile=lambda: time.sleep(0.25))
    assert stall.seconds >= 0.1
    assert stall.cause == SHELL


def test_a_stall_tells_work_from_waiting() -> None:
    waits = longest(lambda _: None, (0, ""), meanwhile=lambda: time.sleep(0.3))
    assert waits.cpu_s + waits.core_wait_s < waits.seconds / 2
    works = longest(lambda _: None, (0, ""), meanwhile=work)
    assert works.cpu_s >= 0.1
    assert works.cpu_s <= works.seconds


def test_a_stall_tells_how_long_it_waited_for_a_core() -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        stall = longest(lambda _: None, (0, ""), meanwhile=work)
    finally:
        busy.kill()
        busy.wait()
        os.sched_setaffinity(0, cores)
    assert stall.core_wait_s >= 0.05
