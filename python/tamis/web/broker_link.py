"""Asks the broker over its control socket: one JSON object per line, one question at a time.

However many HTTP requests there are, the broker gets one question at a time, and its answers have bounded size."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

ANSWER_S = 5.0
"""Maximum time for an answer; then the broker counts as unreachable."""
ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""Maximum length of an answer; a page of rows takes far less."""
WAITING_MAX = 100
"""Maximum number of questions that wait; further ones are refused."""
FRESH_S = 0.5
"""Time for which an overview is reused: health checks, scrapers and people ask for the same."""


class BrokerGoneError(Exception):
    """The control socket cannot be reached, or does not answer in time."""


class BrokerBusyError(Exception):
    """Too many questions are waiting."""


class RefusedError(Exception):
    """The broker refused the question; the text has its reason."""


class BrokerLink:
    """A connection to a broker's control socket, opened when it is needed, and opened again after an error."""

    def __init__(self, socket_path: Path) -> None:
        self._path = socket_path
        self._turn = asyncio.Lock()
        self._waiting_count = 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._overview_turn = asyncio.Lock()
        self._overview: dict[str, Any] = {}
        self._overview_s = -FRESH_S

    async def overview(self) -> dict[str, Any]:
        """Return ``about``, ``health`` and ``metrics`` of the broker, not older than `FRESH_S`.

        Raises:
            BrokerGoneError, BrokerBusyError: see `ask`.
        """
        async with self._overview_turn:
            if monotonic() - self._overview_s >= FRESH_S:
                self._overview = await self.ask("overview")
                self._overview_s = monotonic()
            return self._overview

    async def ask(self, op: str, **parameters: Any) -> Any:
        """Return the answer to one question.

        Raises:
            BrokerGoneError: there is no answer.
            BrokerBusyError: `WAITING_MAX` questions are waiting.
            RefusedError: the broker refused the question.
        """
        if self._waiting_count >= WAITING_MAX:
            raise BrokerBusyError
        self._waiting_count += 1
        try:
            async with self._turn:
                answer = await self._exchange({"op": op, **parameters})
        finally:
            self._waiting_count -= 1
        if not answer.get("ok"):
            raise RefusedError(str(answer.get("error")))
        return answer.get("result")

    async def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = json.loads(await self._line(json.dumps(request).encode() + b"\n"))
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            self.close()
            raise BrokerGoneError from error
        except BaseException:
            self.close()  # cancelled: the answer would be taken for that to the next question
            raise
        if not isinstance(answer, dict):
            raise BrokerGoneError
        return answer

    async def _line(self, request: bytes) -> bytes:
        if self._reader is None or self._writer is None or self._reader.at_eof():
            self.close()
            self._reader, self._writer = await asyncio.open_unix_connection(self._path, limit=ANSWER_BYTES_MAX)
        self._writer.write(request)
        await self._writer.drain()
        return await self._reader.readuntil(b"\n")

    def close(self) -> None:
        """Close the socket; the next question opens another."""
        if self._writer is not None:
            with suppress(OSError, RuntimeError):
                self._writer.close()
        self._reader = self._writer = None
