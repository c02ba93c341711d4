"""Tests the link to the control socket with sockets that answer well, late, or with nonsense."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tamis.web import broker_link
from tamis.web.broker_link import BrokerBusyError, BrokerGoneError, BrokerLink, RefusedError

Answer = Callable[[dict[str, Any]], Awaitable[bytes]]


async def with_broker(path: Path, answer: Answer, work: Callable[[BrokerLink], Awaitable[None]]) -> None:
    """Run `work` with a link to a socket on which `answer` answers."""

    serving = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        with suppress(ConnectionError):
            while line := await reader.readline():
                writer.write(await answer(json.loads(line)))
                await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_unix_server(serve, path)
    link = BrokerLink(path)
    try:
        await work(link)
    finally:
        link.close()
        server.close()
        await asyncio.gather(*serving)
        await asyncio.sleep(0)  # let the link notice its own end


def ok(result: object) -> bytes:
    return json.dumps({"ok": True, "result": result}).encode() + b"\n"


def test_questions_are_answered_one_at_a_time(tmp_path: Path) -> None:
    under_way, most = 0, 0

    async def answer(request: dict[str, Any]) -> bytes:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        return ok(request)

    async def work(link: BrokerLink) -> None:
        answers = await asyncio.gather(*(link.ask("queues", offset=number) for number in range(50)))
        assert answers == [{"op": "queues", "offset": number} for number in range(50)]

    asyncio.run(with_broker(tmp_path / "s", answer, work))
    assert most == 1


def test_an_overview_is_asked_for_once_however_many_want_it(tmp_path: Path) -> None:
    asked = []

    async def answer(request: dict[str, Any]) -> bytes:
        asked.append(request)
        return ok({"health": {}})

    async def work(link: BrokerLink) -> None:
        for _ in range(20):
            assert await link.overview() == {"health": {}}

    asyncio.run(with_broker(tmp_path / "s", answer, work))
    assert asked == [{"op": "overview"}]


def test_overviews_that_are_wanted_together_are_one_question(tmp_path: Path) -> None:
    asked = []

    async def answer(request: dict[str, Any]) -> bytes:
        asked.append(request)
        await asyncio.sleep(0.01)
        return ok({})

    async def work(link: BrokerLink) -> None:
        await asyncio.gather(*(link.overview() for _ in range(200)))

    asyncio.run(with_broker(tmp_path / "s", answer, work))
    assert asked == [{"op": "overview"}]


def test_a_broker_that_is_not_there_or_speaks_nonsense_counts_as_gone(tmp_path: Path) -> None:
    async def nothing() -> None:
        with pytest.raises(BrokerGoneError):
            await BrokerLink(tmp_path / "none").ask("queues")

    asyncio.run(nothing())
    for nonsense in (b"nonsense\n", b"[]\n", b"\xff\n"):

        async def answer(_: dict[str, Any], answer: bytes = nonsense) -> bytes:
            return answer

        async def work(link: BrokerLink) -> None:
            with pytest.raises(BrokerGoneError):
                await link.ask("queues")

        asyncio.run(with_broker(tmp_path / "s", answer, work))


def test_after_a_late_answer_the_next_question_gets_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_link, "ANSWER_S", 0.05)

    async def answer(request: dict[str, Any]) -> bytes:
        await asyncio.sleep(0.1 if request["op"] == "slow" else 0)
        return ok(request["op"])

    async def work(link: BrokerLink) -> None:
        with pytest.raises(BrokerGoneError):
            await link.ask("slow")
        assert await link.ask("quick") == "quick"
        asking = asyncio.create_task(link.ask("slow"))
        await asyncio.sleep(0.01)
        asking.cancel()
        assert await link.ask("quick") == "quick"

    asyncio.run(with_broker(tmp_path / "s", answer, work))


def test_too_many_questions_are_refused_and_then_there_is_room_again(tmp_path: Path) -> None:
    async def answer(request: dict[str, Any]) -> bytes:
        await asyncio.sleep(0.0005)
        return ok(request["number"])

    async def work(link: BrokerLink) -> None:
        asked = (link.ask("queues", number=number) for number in range(broker_link.WAITING_MAX + 10))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(it) for it in answers[-10:]] == [BrokerBusyError] * 10
        assert answers[:-10] == list(range(broker_link.WAITING_MAX))
        assert await link.ask("queues", number=7) == 7

    asyncio.run(with_broker(tmp_path / "s", answer, work))


def test_what_the_broker_refuses_is_told_with_its_reason(tmp_path: Path) -> None:
    async def answer(_: dict[str, Any]) -> bytes:
        return b'{"ok": false, "error": "no such operation"}\n'

    async def work(link: BrokerLink) -> None:
        with pytest.raises(RefusedError, match="no such operation"):
            await link.ask("nothing")

    asyncio.run(with_broker(tmp_path / "s", answer, work))
