"""A ticker plant: it reads trades from one stream, and writes a bar for each minute to another.

A bar says how far the trades were read when it was written. Whenever the plant starts, and whenever it does not know
whether its last bar was stored, it reads the last bar that is there and goes on behind it. So neither its own crash nor
the broker's makes a gap or a double."""

import asyncio
import json
import sys
from contextlib import aclosing

import tamis.client
from tamis.client import Stream, UnconfirmedError


async def last_bar(bars: Stream) -> dict[str, int]:
    """Return the last bar that was written, or one before all minutes."""
    if await bars.count() == 0:
        return {"minute": -1, "next": 1}
    async with aclosing(bars.subscribe(start="last")) as last:
        return dict(json.loads((await anext(last)).body))


async def write_bars(trades: Stream, bars: Stream) -> None:
    """Write a bar when a trade of the next minute comes, for ever."""
    last = await last_bar(bars)
    minute, prices = last["minute"] + 1, []
    async with aclosing(trades.subscribe(start=last["next"])) as following:
        async for trade in following:
            values = json.loads(trade.body)
            if values["minute"] > minute:
                bar = {"minute": minute, "low": min(prices), "high": max(prices), "trades": len(prices)}
                await bars.publish(json.dumps({**bar, "next": trade.number}).encode(), resend=False)
                minute, prices = values["minute"], []
            prices.append(values["price"])


async def main(url: str) -> None:
    """Write bars until it is stopped."""
    async with await tamis.client.connect(url) as client:
        while True:
            try:
                await write_bars(client.stream("trades"), client.stream("bars"))
            except UnconfirmedError as error:
                print(f"reading the last bar again: {error}", file=sys.stderr)


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1/"))
