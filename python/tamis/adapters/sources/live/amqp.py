"""Reads a queue of any AMQP 0-9-1 broker; a message is acknowledged when the batch that it is in has been committed.

Until then the broker keeps it, and delivers it again after a crash. A message with a `message_id` is known by it. One
without is known as long as it waits to be processed: that is when a broker delivers again.

Source: AMQP 0-9-1 specification, sections 1.8.3.12 (basic.deliver) and 1.8.3.13 (basic.ack)."""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from tamis.adapters.json_row import JsonRowOptions, body_members
from tamis.adapters.options import option
from tamis.adapters.rows import digest_of
from tamis.adapters.sources.live.source import LiveOptions, LiveSource, LookError, secret
from tamis.adapters.sources.live.spool import Item, Spool
from tamis.errors import AdapterError

WAIT_S: Final = 0.05
"""The time for which a look waits for further messages."""
FIRST_WAIT_S: Final = 0.5
"""The time for which the first look of a connection waits for the first one."""
LOOK_S_MAX: Final = 1.0
"""The maximum time of a look at a queue to which messages come all the time."""
PREFETCH_MAX: Final = 65_535
OFFSET: Final = "x-stream-offset"
"""The header of a message of a stream with its number, and the argument that says where a consumer begins."""
TIMEOUT_S: Final = 30.0
_PROPERTIES: Final = (
    *("content_type", "content_encoding", "priority", "correlation_id", "reply_to", "expiration", "message_id"),
    *("type", "user_id", "app_id"),
)


@dataclass(frozen=True, kw_only=True)
class AmqpOptions(LiveOptions, JsonRowOptions):
    """The options of a queue.

    Attributes:
        url: the broker, as in ``amqps://host/vhost``; without a password.
        queue: the name of the queue, which must exist.
        password_env: the environment variable with ``user:password``; None is ``guest:guest``.
        password_file: a file with ``user:password``.
    """

    url: str = option("", required="the address of a broker, as in amqp://localhost/")
    queue: str = option("", required="the name of a queue")
    password_env: str | None = option(None)
    password_file: str | None = option(None, is_path=True)


class AmqpSource(LiveSource):
    """The messages of one queue."""

    Options = AmqpOptions
    options: AmqpOptions
    type: ClassVar[str] = "amqp"
    packages = ("pika",)
    properties = "json"
    reads_streams: ClassVar[bool] = False
    """Whether it reads queues that are streams, and only those."""

    def __init__(self, options: AmqpOptions) -> None:
        super().__init__(options)
        self._connection: Any = None
        self._channel: Any = None
        self._arrived: list[tuple[Any, Any, bytes]] = []
        self._unacknowledged: deque[tuple[int, int]] = deque()  # number in the spool, delivery tag; both ascend
        self._prefetch = min(PREFETCH_MAX, options.max_messages)
        self._before: dict[str, int] = {}  # digest -> number of the waiting messages of an earlier connection

    def check(self) -> None:
        """Check the options and the secret, without a connection.

        Raises:
            AdapterError: one cannot be used.
        """
        super().check()
        if not self.reads_streams and self.options.starting_offset != "first":
            raise AdapterError("starting_offset: a queue has one place to begin; only a stream has offsets")
        self._parameters()

    def look(self, spool: Spool) -> bool:
        """Implement `LiveSource.look`: the delivered messages, of at most `max_messages` unacknowledged ones."""
        try:
            wait_s = WAIT_S if self._is_connected() else FIRST_WAIT_S
            self._connect(spool)
            has_more = receive(self._connection, self._arrived, self._prefetch, wait_s)
            self._store(spool)
        except AdapterError:
            raise
        except Exception as error:
            self._drop()
            raise LookError(f"{_shown(self.options.url)}: {_reason(error)}") from error
        return has_more

    def look_for(self, count: int) -> Iterator[Item]:
        """Implement `LiveSource.look_for`; the messages go back to the queue."""
        self.check()
        try:
            connection = _pika().BlockingConnection(self._parameters())
            channel = connection.channel()
            items = [self._item(uuid.uuid4().hex, *message) for message in self._get(channel, count)]
            connection.close()
        except AdapterError:
            raise
        except Exception as error:
            raise LookError(f"{_shown(self.options.url)}: {_reason(error)}") from error
        return iter(items)

    def _get(self, channel: Any, count: int) -> Iterator[tuple[Any, Any, bytes]]:
        """Yield up to `count` messages, which go back to the queue when the connection is closed."""
        for _ in range(count):
            method, properties, body = channel.basic_get(self.options.queue)
            if method is None:
                return
            yield method, properties, body

    def processed(self, number: int) -> bool:
        """Implement `LiveSource.processed`: acknowledge them; without a connection they wait, and come again."""
        if not self._is_connected():
            return False
        tag = None
        while self._unacknowledged and self._unacknowledged[0][0] <= number:
            tag = self._unacknowledged.popleft()[1]
        if tag is not None:
            try:
                self._channel.basic_ack(tag, multiple=True)
                self._connection.process_data_events(time_limit=0)
            except Exception:  # noqa: BLE001 - the next look connects again, and tells why if it cannot
                self._drop()
                return False
        return True

    def close(self) -> None:
        """Implement `LiveSource.close`, with the connection; the broker keeps what is not acknowledged."""
        self._drop()
        super().close()

    def _connect(self, spool: Spool) -> None:
        if self._is_connected():
            return
        pika = _pika()
        self._drop()
        arguments = self._begin(spool)
        self._connection = pika.BlockingConnection(self._parameters())
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=self._prefetch)
        self._channel.basic_consume(self.options.queue, self._on_message, arguments=arguments)

    def _begin(self, spool: Spool) -> dict[str, Any]:
        """Note which messages wait, for when they come again; return the arguments of the consumer."""
        counts: dict[str, int] = defaultdict(int)
        for _, key in spool.waiting():
            counts[key.partition(":")[0]] += 1
        self._before = counts
        return {}

    def _is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open and self._channel.is_open

    def _on_message(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._arrived.append((method, properties, body))

    def _store(self, spool: Spool) -> None:
        arrived, self._arrived = self._arrived, []
        if arrived:
            self._check_kind(arrived[0][1])
        with spool.transaction():
            self._add(spool, arrived)
        last = spool.newest()
        self._unacknowledged.extend((last, method.delivery_tag) for method, _, _ in arrived)
        if last == 0 or self.reads_streams:
            self.processed(last)  # every message was known before, or is in the spool with its offset

    def _check_kind(self, properties: Any) -> None:
        """Check by the first message that the queue is a stream, or is none."""
        if (OFFSET in (properties.headers or {})) != self.reads_streams:
            name = self.options.queue
            said = "is not a stream: use type = 'amqp'" if self.reads_streams else "is a stream: use 'amqp_stream'"
            self._drop()
            raise AdapterError(f"queue: '{name}' {said}")

    def _add(self, spool: Spool, arrived: list[tuple[Any, Any, bytes]]) -> None:
        """Add the messages that are new. Only within a transaction."""
        for method, properties, body in arrived:
            if (key := self._key(method, properties, body)) is not None:
                spool.add([self._item(key, method, properties, body)])

    def _key(self, method: Any, properties: Any, body: bytes) -> str | None:
        """Return the name of a message; None if it waits already."""
        place = [self.options.queue, method.exchange, method.routing_key]
        if properties.message_id:
            return digest_of(json.dumps(["amqp", *place, properties.message_id]).encode())
        digest = digest_of(json.dumps(place).encode() + body)
        if method.redelivered and self._before.get(digest, 0) > 0:
            self._before[digest] -= 1
            return None
        return f"{digest}:{uuid.uuid4().hex}"

    def _item(self, key: str, method: Any, properties: Any, body: bytes) -> Item:
        """Return the message as a JSON object of headers, properties and body. Members of the body take precedence."""
        names = {name: getattr(properties, name, None) for name in _PROPERTIES}
        members = {**(properties.headers or {}), **{name: value for name, value in names.items() if value is not None}}
        if properties.timestamp is not None:
            with suppress(ValueError, OverflowError, OSError):
                members["timestamp"] = datetime.fromtimestamp(properties.timestamp, UTC).isoformat()
        members |= {"exchange": method.exchange, "redelivered": bool(method.redelivered)}
        members |= body_members(body)
        content = json.dumps(members, ensure_ascii=False, default=str).encode("utf-8", "replace")
        return Item(key, self._place(), content, method.routing_key or None)

    def _place(self) -> str:
        """Return the broker and the queue, for people."""
        return f"{_shown(self.options.url)} {self.options.queue}"

    def _drop(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        self._arrived, self._unacknowledged = [], deque()
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _parameters(self) -> Any:
        pika, url = _pika(), self.options.url
        parts = urlsplit(url)
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
            raise AdapterError(f"url: expected an address that begins with amqp:// or amqps://, not '{_shown(url)}'")
        if parts.password:
            raise AdapterError("url: expected an address without a password; use password_env or password_file")
        try:
            parameters = pika.URLParameters(url if parts.path else f"{url}/")
        except (ValueError, TypeError) as error:
            raise AdapterError(f"url: {error}") from error
        login = secret(self.options.password_env, self.options.password_file, "password")
        if login is not None:
            user, sign, password = login.partition(":")
            if not sign:
                raise AdapterError("password_env or password_file: expected user:password there")
            parameters.credentials = pika.PlainCredentials(user, password)
        parameters.socket_timeout = parameters.blocked_connection_timeout = TIMEOUT_S
        parameters.stack_timeout = TIMEOUT_S
        return parameters


def receive(connection: Any, arrived: list[Any], count_max: int, first_wait_s: float, wait_s: float = WAIT_S) -> bool:
    """Let messages arrive until there are `count_max`, or none comes for a while. Return whether there may be more.

    Args:
        connection: the connection of pika.
        arrived: where its callback puts them.
        count_max: how many there may be.
        first_wait_s: the time for which the first is waited for.
        wait_s: the time for which each further one is waited for.
    """
    now = time.monotonic()
    until, end = now + first_wait_s, now + max(first_wait_s, LOOK_S_MAX)
    while len(arrived) < count_max and now < until:
        count = len(arrived)
        connection.process_data_events(time_limit=until - now)
        now = time.monotonic()
        if len(arrived) > count:
            if now >= end:
                return True
            until = now + wait_s
    return len(arrived) >= count_max


def _pika() -> Any:
    try:
        import pika
    except ImportError as error:
        raise AdapterError("expected the package pika; pip install 'tamis[adapters]'") from error
    return pika


def _shown(url: str) -> str:
    """Return an address without a password."""
    parts = urlsplit(url)
    return url if parts.password is None else url.replace(f":{parts.password}@", "@")


def _reason(error: Exception) -> str:
    """Return one line for a user from an error of pika, which may have its text in its cause."""
    while not str(error) and error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    text = getattr(error, "reply_text", "") or str(error) or repr(error)
    return str(text).splitlines()[0]
