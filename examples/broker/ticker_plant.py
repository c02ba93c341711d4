"""A ticker plant: it reads trades from one stream, and writes a bar for each minute to another.

A bar says how far the trades were read when it was written. A plant that starts again looks at the last bar and goes on
there, so that a crash makes neither a gap nor a double."""

import asyncio
import json
import sys
from contextlib import aclosing

import tamis.client
from tamis.client import Client


async def last_bar(client: Client) -> dict[str, int]:
    """Return the last bar that was written, or one before all minutes."""
    last = {"minute": -1, "next": 1}
    async with aclosing(client.stream("bars").subscribe(start="first")) as bars:
        while True:
            try:
                last = json.loads((await asyncio.wait_for(anext(bars), 0.5)).body)
            except TimeoutError:
                return last


async def plant(client: Client, minutes: int) -> None:
    """Write bars until so many are written; the last minute is complete when a trade of the next one comes."""
    last = await last_bar(client)
    prices: list[int] = []
    minute = last["minute"] + 1
    async with aclosing(client.stream("trades").subscribe(start=last["next"])) as trades:
        async for trade in trades:
            values = json.loads(trade.body)
            if values["minute"] > minute:
                bar = {"minute": minute, "low": min(prices), "high": max(prices), "next": trade.number}
                await client.stream("bars").publish(json.dumps(bar).encode())
                prices, minute, minutes = [], values["minute"], minutes - 1
                if minutes == 0:
                    return
            prices.append(values["price"])


async def main(url: str) -> None:
    """Let a plant crash, and another go on."""
    async with await tamis.client.connect(url) as client:
        for number in range(60):
            await client.stream("trades").publish(json.dumps({"minute": number // 10, "price": number}).encode())
        crashed = asyncio.create_task(plant(client, 100))
        await asyncio.sleep(1)
        crashed.cancel()
        for number in range(60, 101):
            await client.stream("trades").publish(json.dumps({"minute": number // 10, "price": number}).encode())
        await plant(client, 5)
        found = []
        async with aclosing(client.stream("bars").subscribe(start="first")) as bars:
            async for bar in bars:
                found.append(json.loads(bar.body))
                if len(found) == 10:
                    break
        print("minutes:", [bar["minute"] for bar in found])
        print("lows:", [bar["low"] for bar in found])


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1/"))
