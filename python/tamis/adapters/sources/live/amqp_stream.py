"""Reads a stream of any AMQP 0-9-1 broker that has them, by offset: each message once, whoever else reads it.

The offset of the last message is kept in the spool with the message, so nothing depends on what the broker knows of its
readers. Messages that retention removed before they were read become one dead letter with their offsets.

Source: RabbitMQ's documentation of streams over AMQP 0-9-1 (the argument and the header `x-stream-offset`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from tamis.adapters.rows import digest_of
from tamis.adapters.sources.live.amqp import FIRST_WAIT_S, OFFSET, AmqpSource, receive
from tamis.adapters.sources.live.spool import Item, Spool

TEST_S: Final = 5.0
"""The time that a test waits for messages."""
_MISSED: Final = "x-stream-missed"  # tamis's count of what was removed; the offsets say it, too


class AmqpStreamSource(AmqpSource):
    """The messages of one stream."""

    type: ClassVar[str] = "amqp_stream"
    reads_streams: ClassVar[bool] = True

    def _begin(self, spool: Spool) -> dict[str, Any]:
        """Return the arguments of a consumer that begins behind the last message in the spool.

        Where there was none yet, a later run that begins with ``next`` begins at the second of the first look.
        """
        if (last := spool.state("offset")) is not None:
            return {OFFSET: last + 1}
        if self.options.starting_offset == "first":
            return {OFFSET: "first"}
        if (began := spool.state("began")) is not None:
            return {OFFSET: datetime.fromtimestamp(began, UTC)}
        with spool.transaction():
            spool.set_state("began", int(self._clock()))
        return {OFFSET: "next"}

    def _add(self, spool: Spool, arrived: list[tuple[Any, Any, bytes]]) -> None:
        last = spool.state("offset")
        for method, properties, body in arrived:
            offset = properties.headers[OFFSET]
            if last is not None and offset <= last:
                continue  # brokers may begin before the offset that they are asked for
            if last is not None and offset > last + 1:
                spool.add([self._gap(last + 1, offset - 1)])
            key = digest_of(json.dumps(["amqp stream", self.options.queue, offset, method.routing_key]).encode() + body)
            spool.add([self._item(key, method, properties, body)])
            last = offset
        if last is not None:
            spool.set_state("offset", last)

    def _item(self, key: str, method: Any, properties: Any, body: bytes) -> Item:
        headers = dict(properties.headers)
        offset = headers.pop(OFFSET)
        headers.pop(_MISSED, None)
        properties.headers = headers | {"offset": offset}
        return super()._item(key, method, properties, body)

    def _gap(self, first: int, last: int) -> Item:
        """Return the dead letter of messages that did not come."""
        key = digest_of(json.dumps(["amqp stream", self.options.queue, "gap", first, last]).encode())
        reason = f"messages {first:,} to {last:,} did not come: the stream has them no longer"
        return Item(key, self._place(), b"", error=reason)

    def _get(self, channel: Any, count: int) -> Iterator[tuple[Any, Any, bytes]]:
        """Yield up to `count` messages from the first on; a consumer is the only way to read a stream."""
        found: list[tuple[Any, Any, bytes]] = []
        channel.basic_qos(prefetch_count=count)
        channel.basic_consume(
            self.options.queue, lambda _, *message: found.append(message), arguments={OFFSET: "first"}
        )
        receive(channel.connection, found, count, TEST_S, FIRST_WAIT_S)
        if found:
            self._check_kind(found[0][1])
        yield from found
