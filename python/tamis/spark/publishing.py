"""Publishes the messages of a batch to a broker where they are read, so that its subscribers get them at once.

It is a column of the batch: a worker publishes the rows that it has, and waits until the broker has confirmed them. If
that fails, the batch fails, and is read and published again: a subscriber may get a message twice, with one id.

Source: the AMQP 0-9-1 extension "publisher confirms"; the PNNL paper, section 3.2 (adapters publish to the engine)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from tamis.config.publish import PublishConfig
from tamis.errors import AdapterError

if TYPE_CHECKING:
    from aio_pika.abc import AbstractConnection, AbstractExchange
    from pyspark.sql import Column, DataFrame

AT_ONCE: Final = 500
"""Maximum number of messages that wait for their confirms."""
HEADERS_CHARACTERS_MAX: Final = 64 * 1024
"""Maximum length of a message's headers as JSON; the largest properties are left out."""
KEY_BYTES_MAX: Final = 255
NAME_BYTES_MAX: Final = 128
LEFT_OUT: Final = "x-tamis-left-out"
"""The header that names the properties that were left out."""


@dataclass(frozen=True)
class Publication:
    """The broker to which the messages of an adapter are published.

    Attributes:
        adapter: the adapter's name.
        config: the broker and the exchange.
        password: the password to log in with; None: guest's.
    """

    adapter: str
    config: PublishConfig
    password: str | None

    def column(self, frame: DataFrame, properties: Column) -> Column:
        """Return a column with the reason why a row was not published; null if it was, or if it is a dead letter.

        Args:
            frame: rows as every adapter gives them.
            properties: the column of properties, as JSON text.
        """
        from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program uses
        from pyspark.sql.pandas.functions import arrow_udf

        publication = self

        def published(
            topic: pa.Array,
            properties: pa.Array,
            body: pa.Array,
            identity: pa.Array,
            place: pa.Array,
            error: pa.Array,
        ) -> pa.Array:
            columns = (topic, properties, body, identity, place, error)
            rows = zip(*(column.to_pylist() for column in columns), strict=True)
            return pa.array(asyncio.run(_publish(publication, list(rows))), pa.string())

        place = F.to_json(F.array(F.lit(self.adapter), "partition", F.col("offset").cast("string"), "digest"))
        udf = arrow_udf(published, "string").asNondeterministic()  # type: ignore[call-overload]
        column: Column = udf(F.col("topic"), properties, F.col("body"), F.col("identity"), place, F.col("error"))
        return column


Fields = tuple[str | None, str | None, str | None, str | None, str, str | None]
"""Topic, properties, body, identity, place and error of a row."""


async def _publish(publication: Publication, rows: Sequence[Fields]) -> list[str | None]:
    """Publish the rows that are messages; return for each why it was not.

    Raises:
        AdapterError: the broker cannot be reached, or does not confirm.
    """
    import aio_pika
    from yarl import URL

    server = URL(publication.config.url)
    name = f"{server.host}:{server.port or (5671 if server.scheme == 'amqps' else 5672)}"
    try:
        async with _Publisher(publication) as publisher:
            reasons: list[str | None] = []
            for start in range(0, len(rows), AT_ONCE):
                reasons += await publisher.publish(rows[start : start + AT_ONCE])
            return reasons
    except TimeoutError as error:
        raise AdapterError(f"publish: {name}: no answer within {publication.config.timeout_s:g} s") from error
    except (aio_pika.exceptions.AMQPError, OSError, RuntimeError) as error:
        raise AdapterError(f"publish: {name}: {' '.join(str(error).split()) or type(error).__name__}") from error


class _Publisher:
    """Publishes through a connection, and connects again when the broker has closed it or its channel."""

    def __init__(self, publication: Publication) -> None:
        self._config, self._password = publication.config, publication.password
        self._connection: AbstractConnection | None = None
        self._exchange: AbstractExchange | None = None

    async def __aenter__(self) -> Self:
        """Begin; the first message connects."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Hang up."""
        await self._hang_up()

    async def _hang_up(self) -> None:
        """Close the connection; the next message connects again."""
        connection, self._connection, self._exchange = self._connection, None, None
        if connection is not None:
            await connection.close()

    async def publish(self, rows: Sequence[Fields]) -> list[str | None]:
        """Publish some rows at once. If the broker closes the channel, those that it has not confirmed go one by one.

        Returns:
            For each row why it was not published.
        """
        import aio_pika

        exchange = self._exchange or await self._open()
        async with asyncio.timeout(self._config.timeout_s):
            publishing = (_publish_one(exchange, row) for row in rows)
            outcomes = await asyncio.gather(*publishing, return_exceptions=True)
        reasons: list[str | None] = []
        for row, outcome in zip(rows, outcomes, strict=True):
            if isinstance(outcome, (aio_pika.exceptions.AMQPError, OSError, RuntimeError)):
                if self._exchange is exchange:
                    await self._hang_up()
                reasons.append(await self._publish_alone(row))
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                reasons.append(outcome)
        return reasons

    async def _publish_alone(self, row: Fields) -> str | None:
        """Publish a row; if the broker closes the channel over it, return what the broker said."""
        import aio_pika

        exchange = self._exchange or await self._open()
        try:
            async with asyncio.timeout(self._config.timeout_s):
                return await _publish_one(exchange, row)
        except aio_pika.exceptions.ChannelPreconditionFailed as error:
            await self._hang_up()
            return f"the broker does not take message {row[4]}: {' '.join(str(error).split())}"

    async def _open(self) -> AbstractExchange:
        import aio_pika
        from yarl import URL

        from tamis.client.doubles import teach

        teach()
        config, url = self._config, URL(self._config.url)
        if self._password is not None:
            url = url.with_password(self._password)
        async with asyncio.timeout(config.timeout_s):
            self._connection = await aio_pika.connect(url, timeout=config.timeout_s, ssl_context=_trusting(config))
            channel = await self._connection.channel(publisher_confirms=True)
            self._exchange = exchange = await channel.get_exchange(config.exchange, ensure=True)
        return exchange


async def _publish_one(exchange: Any, row: Fields) -> str | None:
    import aio_pika

    topic, properties, body, identity, place, error = row
    if error is not None:
        return None
    if len((topic or "").encode()) > KEY_BYTES_MAX:
        return f"its topic has more than {KEY_BYTES_MAX} bytes, which no routing key has"
    message = aio_pika.Message(
        (body or "").encode(errors="replace"),
        headers=headers_of(json.loads(properties or "{}")),
        content_type="text/plain",
        content_encoding="utf-8",
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        message_id=hashlib.sha256((identity or place).encode()).hexdigest()[:32],
        app_id="tamis",
        type="tamis.message",
    )
    try:
        await exchange.publish(message, topic or "", mandatory=False)
    except aio_pika.exceptions.DeliveryError as refused:
        raise AdapterError(f"publish: the broker refused a message for the exchange '{exchange.name}'") from refused
    return None


def headers_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a message as headers. The header `LEFT_OUT` names what does not fit.

    >>> headers_of({"price": 12, "list": None, "x" * 300: 1})
    {'price': 12, 'list': None, 'x-tamis-left-out': ['xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...']}
    """
    headers = {name: _value(value) for name, value in properties.items() if _is_name(name)}
    left_out = [name for name in properties if not _is_name(name)]
    sizes = {name: len(name) + len(json.dumps(value)) for name, value in headers.items()}
    too_much = sum(sizes.values()) - HEADERS_CHARACTERS_MAX
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if too_much <= 0:
            break
        too_much -= sizes[name]
        del headers[name]
        left_out.append(name)
    if left_out:
        headers[LEFT_OUT] = [name if len(name) <= 40 else f"{name[:40]}..." for name in left_out[:100]]
    return headers


def _is_name(name: str) -> bool:
    return 0 < len(name.encode(errors="replace")) <= NAME_BYTES_MAX and name != LEFT_OUT


def _value(value: Any) -> Any:
    """Return a value without the names that AMQP cannot hold."""
    if isinstance(value, dict):
        return {name: _value(inner) for name, inner in value.items() if _is_name(name)}
    return [_value(inner) for inner in value] if isinstance(value, list) else value


def _trusting(config: PublishConfig) -> Any:
    if not config.url.startswith("amqps:"):
        return None
    import ssl

    return ssl.create_default_context(cafile=config.ca_file)
