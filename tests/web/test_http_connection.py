"""Silent, slow and unread HTTP connections end in time, and however many there are, health is answered."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the server is not installed: pip install 'tamis[server]'")

import uvicorn

from tamis import http_connection
from tamis.http_connection import HttpConnections
from tamis.web import routes
from tamis.web.web_server import WebServer
from tests.web.test_routes import FakeLink, Open

GET_HEALTH = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
Work = Callable[[int], Awaitable[None]]


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "HEAD_S", 0.5)
    monkeypatch.setattr(http_connection, "ANSWER_S", 0.5)


def serve(work: Work, app: Any = None, count_max: int = 50) -> None:
    """Run `work` beside a server, with its port."""

    async def run() -> None:
        config = uvicorn.Config(
            app or routes.application(FakeLink(), Open()),
            lifespan="off",
            ws="none",
            log_config=None,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=1,
        )
        server = WebServer(config, HttpConnections(count_max))
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(server._serve([listening]))
                while not server.started:
                    await asyncio.sleep(0.01)
                await work(port)
                server.should_exit = True
                await serving

    asyncio.run(asyncio.wait_for(run(), 60))


async def get(port: int, request: bytes = GET_HEALTH) -> int:
    """Return the status of one answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


async def seconds_until_end(reader: asyncio.StreamReader) -> float:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    with contextlib.suppress(ConnectionError):
        while await reader.read(65536):
            pass
    return loop.time() - begun


def test_a_connection_that_says_nothing_is_closed() -> None:
    async def work(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert 0.3 < await seconds_until_end(reader) < 10
        writer.close()

    serve(work)


def test_a_head_of_one_byte_at_a_time_is_not_waited_for() -> None:
    async def work(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        ending = asyncio.create_task(seconds_until_end(reader))
        for byte in GET_HEALTH * 100:
            if ending.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)
        assert await ending < 10
        writer.close()

    serve(work)


def test_a_connection_is_kept_for_the_next_request_and_then_closed() -> None:
    async def work(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(GET_HEALTH)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            await reader.readuntil(b'{"status":"ok"}')
            await asyncio.sleep(0.2)
        assert await seconds_until_end(reader) < 10
        writer.close()

    serve(work)


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def work(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /health HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n")
        assert await seconds_until_end(reader) < 10
        writer.close()

    serve(work)


async def endless(scope: Any, receive: Any, send: Any) -> None:
    """Answer with more bytes than any buffer holds."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(1000):
        await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def test_an_answer_that_is_not_taken_ends() -> None:
    async def work(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(GET_HEALTH)
        await asyncio.sleep(2)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        taken = 0
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(1 << 20):
                taken += len(piece)
        assert taken < 1000 * 100_000
        writer.close()

    serve(work, endless)


def test_the_connection_that_has_waited_longest_makes_room() -> None:
    async def work(port: int) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        for _ in range(5):
            assert await get(port) == 200
        assert await asyncio.wait_for(silent[0][0].read(), 0.3) == b""
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(silent[-1][0].read(), 0.01)
        for _, writer in silent:
            writer.close()

    serve(work)


class SlowLink(FakeLink):
    """A broker that takes its time for lists."""

    async def ask(self, op: str, **parameters: Any) -> Any:
        await asyncio.sleep(0.4)
        return await super().ask(op, **parameters)


def test_requests_in_progress_are_bounded_and_health_and_metrics_are_not_among_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "REQUESTS_MAX", 5)

    async def work(port: int) -> None:
        lists = [asyncio.create_task(get(port, GET_HEALTH.replace(b"/health", b"/api/queues"))) for _ in range(8)]
        await asyncio.sleep(0.2)
        assert await get(port) == 200
        assert await get(port, GET_HEALTH.replace(b"/health", b"/metrics")) == 200
        assert sorted([await asked for asked in lists]) == [200] * 5 + [503] * 3
        assert await get(port, GET_HEALTH.replace(b"/health", b"/api/queues")) == 200

    serve(work, routes.application(SlowLink(), Open()))
