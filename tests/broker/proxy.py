"""A network between clients and a broker that can be slow, and can break on one side alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

CHUNK_BYTES = 4096
Pair = tuple[asyncio.StreamWriter, asyncio.StreamWriter]


class Proxy:
    """Passes bytes between clients and a broker.

    Attributes:
        port: where clients connect.
        bytes_per_s: how many bytes a connection passes in each direction; None: any.
    """

    def __init__(self, broker_port: int) -> None:
        self.port = 0
        self.bytes_per_s: float | None = None
        self._broker_port = broker_port
        self._pairs: list[Pair] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def url(self, user: str = "guest:guest") -> str:
        """Return the broker's URL by way of this network."""
        return f"amqp://{user}@127.0.0.1:{self.port}/"

    def cut_off_clients(self) -> list[asyncio.StreamWriter]:
        """Break the clients' side of all connections; return the broker's sides, which it takes for alive."""
        pairs, self._pairs = self._pairs, []
        for client, _ in pairs:
            client.transport.abort()
        return [broker for _, broker in pairs]

    def cut(self) -> None:
        """Break all connections, on both sides."""
        for broker in self.cut_off_clients():
            broker.transport.abort()

    async def _accept(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker_port)
        self._pairs.append((to_client, to_broker))
        for source, target in ((from_client, to_broker), (from_broker, to_client)):
            task = asyncio.create_task(self._pass_on(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                if self.bytes_per_s is not None:
                    await asyncio.sleep(len(data) / self.bytes_per_s)
                target.write(data)
                await target.drain()
            if any(target in pair for pair in self._pairs):  # else it was cut off, and the other side stays
                target.close()


@asynccontextmanager
async def proxy_to(broker_port: int) -> AsyncIterator[Proxy]:
    """Open a network to a broker, and break it at the end."""
    proxy = Proxy(broker_port)
    server = await asyncio.start_server(proxy._accept, "127.0.0.1", 0, limit=CHUNK_BYTES)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        for task in list(proxy._tasks):
            task.cancel()
        await asyncio.gather(*proxy._tasks, return_exceptions=True)
