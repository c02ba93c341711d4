"""The client for programs without asyncio: the same names, with plain calls and loops.

    with tamis.client.blocking.connect(identity="ann") as client:
        for message in client.mailbox().messages():
            print(message.sender, message.body)

An event loop in a thread of its own does the work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from tamis.client import client as asynchronous
from tamis.client.mailbox import Mailbox
from tamis.client.message import Body, ReceivedMessage
from tamis.client.service import TIMEOUT_S, Service
from tamis.client.stream import QueryBody, Start, Stream
from tamis.closing import Closing

T = TypeVar("T")


def connect(url: str = "amqp://guest:guest@127.0.0.1/", *, identity: str | None = None) -> BlockingClient:
    """Connect to a broker: as `tamis.client.connect`."""
    loop = _LoopThread()
    try:
        return BlockingClient(loop, loop.run(asynchronous.connect(url, identity=identity)))
    except BaseException:
        loop.stop()
        raise


class _LoopThread:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tamis.client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` in the loop, and return its result."""
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result()
        except BaseException:
            done.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield what an iterator of the loop yields."""

        async def following() -> T:
            return await anext(items)

        async def end() -> None:
            if hasattr(items, "aclose"):
                await items.aclose()

        try:
            while True:
                try:
                    yield self.run(following())
                except StopAsyncIteration:
                    return
        finally:
            if self._loop.is_running():  # the client may have been closed before
                self.run(end())

    def _run(self) -> None:
        self._loop.run_forever()
        if left := asyncio.all_tasks(self._loop):
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(left))
        self._loop.close()

    def stop(self) -> None:
        """End the loop, what still runs in it, and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BlockingClient(Closing):
    """A connection, as `tamis.client.Client`."""

    def __init__(self, loop: _LoopThread, client: asynchronous.Client) -> None:
        self._loop = loop
        self._client = client

    def stream(self, name: str, *, max_bytes: int | None = None, max_age: str | None = None) -> BlockingStream:
        """Return the stream `name`, as `Client.stream`."""
        return BlockingStream(self._loop, self._client.stream(name, max_bytes=max_bytes, max_age=max_age))

    def mailbox(self, address: str | None = None) -> BlockingMailbox:
        """Return the mailbox of a client; None: this client's own."""
        return BlockingMailbox(self._loop, self._client.mailbox(address))

    def service(self, name: str) -> BlockingService:
        """Return the service `name`."""
        return BlockingService(self._loop, self._client.service(name))

    def reply(
        self, message: ReceivedMessage, body: Body, headers: Mapping[str, Any] | None = None, *, more: bool = False
    ) -> bool:
        """Send a reply to a message, as `ReceivedMessage.reply`."""
        return self._loop.run(message.reply(body, headers, more=more))

    def ack(self, message: ReceivedMessage) -> None:
        """Acknowledge a message now, as `ReceivedMessage.ack`."""
        self._loop.run(message.ack())

    def reject(self, message: ReceivedMessage, *, requeue: bool = False) -> None:
        """Give a message back, or drop it, as `ReceivedMessage.reject`."""
        self._loop.run(message.reject(requeue=requeue))

    def close(self) -> None:
        """Close the connection, and end its thread."""
        self._loop.run(self._client.close())
        self._loop.stop()


class BlockingStream:
    """A stream, as `tamis.client.Stream`."""

    def __init__(self, loop: _LoopThread, stream: Stream) -> None:
        self._loop = loop
        self._stream = stream

    def publish(
        self,
        body: Body,
        headers: Mapping[str, Any] | None = None,
        *,
        exchange: str | None = None,
        topic: str = "",
        timeout_s: float | None = None,
        resend: bool = True,
    ) -> None:
        """Add a message, as `Stream.publish`."""
        self._loop.run(
            self._stream.publish(body, headers, exchange=exchange, topic=topic, timeout_s=timeout_s, resend=resend)
        )

    def count(self) -> int:
        """Return the number of messages that the stream keeps."""
        return self._loop.run(self._stream.count())

    def bind(self, exchange: str, key: str = "#") -> None:
        """Let the stream have what is published to an exchange, as `Stream.bind`."""
        self._loop.run(self._stream.bind(exchange, key))

    def subscribe(
        self,
        query: str | Sequence[str] | None = None,
        *,
        language: str = "selector",
        query_body: QueryBody | None = None,
        query_key: str | None = None,
        start: Start = "next",
        name: str | None = None,
        credit: int | None = 100,
    ) -> Iterator[ReceivedMessage]:
        """Yield messages, as `Stream.subscribe`."""
        messages = self._stream.subscribe(
            query,
            language=language,
            query_body=query_body,
            query_key=query_key,
            start=start,
            name=name,
            credit=credit,
        )
        return self._loop.iterate(messages)


class BlockingMailbox:
    """A mailbox, as `tamis.client.Mailbox`."""

    def __init__(self, loop: _LoopThread, mailbox: Mailbox) -> None:
        self._loop = loop
        self._mailbox = mailbox

    def send(
        self,
        body: Body,
        headers: Mapping[str, Any] | None = None,
        *,
        correlation_id: str | None = None,
        expires_s: float | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Send a message, as `Mailbox.send`."""
        self._loop.run(
            self._mailbox.send(body, headers, correlation_id=correlation_id, expires_s=expires_s, timeout_s=timeout_s)
        )

    def messages(self, *, credit: int = 100) -> Iterator[ReceivedMessage]:
        """Yield the messages of the client's own mailbox, as `Mailbox.messages`."""
        return self._loop.iterate(self._mailbox.messages(credit=credit))


class BlockingService:
    """A service, as `tamis.client.Service`."""

    def __init__(self, loop: _LoopThread, service: Service) -> None:
        self._loop = loop
        self._service = service

    def request(
        self, body: Body, headers: Mapping[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> ReceivedMessage:
        """Request something, and return the last reply, as `Service.request`."""
        return self._loop.run(self._service.request(body, headers, timeout_s=timeout_s))

    def replies(
        self, body: Body, headers: Mapping[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> Iterator[ReceivedMessage]:
        """Request something, and yield every reply until the last, as `Service.replies`."""
        return self._loop.iterate(self._service.replies(body, headers, timeout_s=timeout_s))

    def send(
        self,
        body: Body,
        headers: Mapping[str, Any] | None = None,
        *,
        correlation_id: str | None = None,
        expires_s: float | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Request something without waiting for it, as `Service.send`."""
        self._loop.run(
            self._service.send(body, headers, correlation_id=correlation_id, expires_s=expires_s, timeout_s=timeout_s)
        )

    def offer(self, *, credit: int = 1) -> Iterator[ReceivedMessage]:
        """Work for the service, as `Service.offer`."""
        return self._loop.iterate(self._service.offer(credit=credit))
