"""Runs the steps of a network protocol one at a time, each until its end or until another thread interrupts it.

`ServerChannel` is the base of the channels that talk to a server."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress

from tamis.notify.channels.channel import ChannelError


class InterruptibleLoop:
    """An event loop of its own, used from one thread, but for `interrupt`."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._under_way: asyncio.Task[None] | None = None

    def run(self, work: Coroutine[None, None, object]) -> None:
        """Run one step to its end, or until `interrupt`.

        Raises:
            ChannelError: it was interrupted.
        """
        try:
            self._runner.run(self._interruptible(work))
        except asyncio.CancelledError as error:
            raise ChannelError("the pipeline was stopped while the server did not answer") from error

    def interrupt(self) -> None:
        """Interrupt, from another thread, the step in progress."""
        task = self._under_way
        if task is not None:
            with suppress(RuntimeError):  # the loop was just closed: nothing is under way
                task.get_loop().call_soon_threadsafe(task.cancel)

    def close(self, last: Coroutine[None, None, object]) -> None:
        """Run a last step, and end the loop."""
        self._runner.run(last)
        self._runner.close()

    async def _interruptible(self, work: Coroutine[None, None, object]) -> None:
        self._under_way = asyncio.current_task()
        try:
            await work
        finally:
            self._under_way = None


class ServerChannel:
    """The common part of channels that talk to a server: an event loop from `open` to `close`."""

    _loop: InterruptibleLoop | None = None

    def interrupt(self) -> None:
        """Interrupt the delivery in progress, which may then arrive twice."""
        if (loop := self._loop) is not None:
            loop.interrupt()

    def close(self) -> None:
        """Close the connection."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close(self._disconnect())

    def _run(self, work: Coroutine[None, None, object]) -> None:
        assert self._loop is not None, "open comes first"  # noqa: S101 - for the type checker
        self._loop.run(work)

    def _run_first(self, connect: Coroutine[None, None, object]) -> None:
        self._loop = InterruptibleLoop()
        try:
            self._run(connect)
        except ChannelError:
            self.close()
            raise

    async def _disconnect(self) -> None:
        raise NotImplementedError
