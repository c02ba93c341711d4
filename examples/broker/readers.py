"""A stream with a late reader that catches up, and a slow one that holds nobody up."""

import asyncio
import sys
from contextlib import aclosing

import tamis.client
from tamis.client import Stream

MESSAGES = 200


async def read(stream: Stream, name: str, start: str, pause_s: float, credit: int, first: asyncio.Event) -> None:
    """Read all messages, with a pause after each."""
    numbers = []
    async with aclosing(stream.subscribe(start=start, credit=credit)) as messages:
        async for message in messages:
            numbers.append(message.number)
            first.set()
            await asyncio.sleep(pause_s)
            if len(numbers) == MESSAGES:
                break
    print(f"{name}: {len(numbers)} messages, in order and without a gap: {numbers == list(range(1, MESSAGES + 1))}")


async def main(url: str) -> None:
    """Publish for a late and a slow reader."""
    async with await tamis.client.connect(url) as client:
        stream, begun = client.stream("prices"), asyncio.Event()
        for price in range(MESSAGES // 2):
            await stream.publish(str(price).encode())
        # It begins late, reads what has been, and goes on with what comes.
        late = asyncio.create_task(read(stream, "late", "first", 0, 100, begun))
        slow = asyncio.create_task(read(stream, "slow", "first", 0.01, 1, begun))
        await begun.wait()
        for price in range(MESSAGES // 2, MESSAGES):
            await stream.publish(str(price).encode())
        await late
        await slow


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1/"))
