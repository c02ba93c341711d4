"""A service with three workers, of which one dies and one hangs: every request is answered all the same.

Start the broker with `worker_s = 1` in `[services]`: a worker that has a request for longer is taken for hung."""

import asyncio
import sys

import tamis.client
from tamis.client import Client

REQUESTS = 12


async def work(client: Client) -> None:
    """Answer requests, one after the other."""
    async for request in client.service("double").offer():
        await request.reply(str(2 * int(request.body)).encode())


async def main(url: str) -> None:
    """Send requests to three workers, of which one answers."""
    clients = [await tamis.client.connect(url) for _ in range(4)]
    requester, dying, hanging, good = clients

    died = dying.service("double").offer()
    hung = hanging.service("double").offer()
    first, second = asyncio.ensure_future(anext(died)), asyncio.ensure_future(anext(hung))
    requests = [
        asyncio.create_task(requester.service("double").request(str(number).encode())) for number in range(REQUESTS)
    ]
    await asyncio.wait([first, second])  # both have a request, and answer none
    await dying.close()
    working = asyncio.create_task(work(good))
    replies = [int((await request).body) for request in requests]
    print(f"{len(replies)} of {REQUESTS} requests answered: {sorted(replies)}")
    working.cancel()
    for client in clients:
        await client.close()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1/"))
