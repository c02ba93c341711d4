"""A stream with fast readers, a slow one that holds nobody up, and a late one that catches up."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import tamis.client
from tamis.client import Stream

MESSAGES = 200
FAST_READERS = 3


async def nothing() -> None:
    """Read on at once."""


async def read(stream: Stream, name: str, start: str, credit: int, pause: Callable[[], Awaitable[None]]) -> None:
    """Read all messages, and wait for `pause` after each."""
    numbers = []
    async with aclosing(stream.subscribe(start=start, credit=credit)) as messages:
        while len(numbers) < MESSAGES:
            numbers.append((await anext(messages)).number)
            await pause()
    print(f"{name}: {len(numbers)} messages, in order and without a gap: {numbers == list(range(1, MESSAGES + 1))}")


async def main(url: str) -> None:
    """Publish for all of them."""
    async with await tamis.client.connect(url) as client:
        stream, are_fast_done = client.stream("prices"), asyncio.Event()
        fast = [asyncio.create_task(read(stream, "fast", "first", 100, nothing)) for _ in range(FAST_READERS)]

        async def pause() -> None:  # as slow as can be: it takes one message, and waits until the others have them all
            await are_fast_done.wait()

        slow = asyncio.create_task(read(stream, "slow", "first", 1, pause))
        for price in range(MESSAGES // 2):
            await stream.publish(str(price).encode())
        late = asyncio.create_task(read(stream, "late", "first", 100, nothing))
        for price in range(MESSAGES // 2, MESSAGES):
            await stream.publish(str(price).encode())
        await asyncio.gather(*fast, late)
        print("the fast and the late readers have everything, and the slow one has one message")
        are_fast_done.set()
        await slow


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1/"))
