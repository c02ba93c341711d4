"""A ticker plant and its broker are killed again and again: it writes every bar, and none of them twice."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aio_pika", reason="the client is not installed: pip install 'tamis[client]'")

import tamis.client
from tamis.client import Stream
from tests.broker.conftest import RunningBroker
from tests.faults.promises import times

PLANT = Path(__file__).resolve().parents[2] / "examples" / "broker" / "ticker_plant.py"
KILLS = times("TAMIS_PLANT_KILLS", 4, 50)
TRADES_PER_MINUTE = 5
LIMIT_S = 120 + 20 * KILLS


def naive_bars(trades: list[dict[str, int]]) -> list[dict[str, int]]:
    """Return the bars of all minutes but the last, which is not complete."""
    prices: dict[int, list[int]] = {}
    for trade in trades:
        prices.setdefault(trade["minute"], []).append(trade["price"])
    bars = [
        {"minute": minute, "low": min(these), "high": max(these), "trades": len(these)}
        for minute, these in sorted(prices.items())
    ]
    return bars[:-1]


async def contents(stream: Stream) -> list[dict[str, Any]]:
    """Return all that a stream has."""
    count = await stream.count()
    found: list[dict[str, Any]] = []
    async with aclosing(stream.subscribe(start="first")) as messages:
        while len(found) < count:
            found.append(json.loads((await anext(messages)).body))
    return found


async def publish_trades(trades: Stream, seed: int, stopping: asyncio.Event) -> None:
    """Publish trades until told to stop, and then one of a later minute."""
    generator, number = random.Random(seed), 0
    while not stopping.is_set() or number % TRADES_PER_MINUTE:
        trade = {"minute": number // TRADES_PER_MINUTE, "price": generator.randrange(100)}
        await trades.publish(json.dumps(trade).encode())
        number += 1
        await asyncio.sleep(0.005)
    await trades.publish(json.dumps({"minute": number // TRADES_PER_MINUTE, "price": 0}).encode())


def start(plant: Path, broker: RunningBroker) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(plant), f"amqp://guest:guest@127.0.0.1:{broker.port}/"])


async def grows(stream: Stream) -> None:
    """Wait until a stream has more than it has now."""
    count = await stream.count()
    while await stream.count() == count:
        await asyncio.sleep(0.05)


async def run_plant(plant: Path, broker: RunningBroker, kills: int, seed: int) -> tuple[list[Any], list[Any]]:
    """Kill a plant and its broker by turns; return the bars that there are, and those that there should be."""
    generator, process = random.Random(seed), start(plant, broker)
    try:
        async with await tamis.client.connect(f"amqp://guest:guest@127.0.0.1:{broker.port}/") as client:
            trades, bars, stopping = client.stream("trades"), client.stream("bars"), asyncio.Event()
            publishing = asyncio.create_task(publish_trades(trades, seed, stopping))
            for number in range(kills):
                await grows(bars)
                await asyncio.sleep(generator.uniform(0, 0.3))
                if number % 2:
                    broker.kill()
                    await asyncio.to_thread(broker.start)
                else:
                    process.kill()
                    process.wait()
                    process = start(plant, broker)
            await grows(bars)
            stopping.set()
            await publishing
            expected = naive_bars(await contents(trades))
            while await bars.count() < len(expected):
                await asyncio.sleep(0.05)
            return [{key: bar[key] for key in bar if key != "next"} for bar in await contents(bars)], expected
    finally:
        process.kill()
        process.wait()


def bars_of(plant: Path, folder: Path, kills: int) -> tuple[list[Any], list[Any]]:
    """Do as `run_plant`, with a broker of its own, in bounded time."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    broker = RunningBroker(folder)
    try:
        return asyncio.run(asyncio.wait_for(run_plant(plant, broker, kills, seed), LIMIT_S))
    finally:
        broker.kill()


@pytest.mark.timeout(60 + LIMIT_S)
def test_a_plant_that_is_killed_and_loses_its_broker_writes_every_bar_once(tmp_path: Path) -> None:
    found, expected = bars_of(PLANT, tmp_path, KILLS)
    assert found == expected
    assert [bar["minute"] for bar in found] == list(range(len(found)))


def test_control_a_plant_that_begins_at_the_beginning_is_caught(tmp_path: Path) -> None:
    source = PLANT.read_text(encoding="utf-8")
    forgetful = tmp_path / "forgetful.py"
    forgetful.write_text(source.replace("if await bars.count() == 0:", "if True:"), encoding="utf-8")
    assert forgetful.read_text(encoding="utf-8") != source
    (tmp_path / "broker").mkdir()
    found, expected = bars_of(forgetful, tmp_path / "broker", 1)
    assert found != expected
