"""The adapter of streams over AMQP, on a real broker: each message once by its offset, over restarts and retention."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tamis.adapters.adapter import Adapter
from tamis.adapters.rows import Row
from tamis.adapters.sources.live.amqp import AmqpSource
from tamis.adapters.sources.live.amqp_stream import AmqpStreamSource
from tamis.errors import AdapterError
from tests.adapters.live_reader import Reader, readers

from .conftest import RunningBroker

Channel = Any
Open = Callable[..., Reader]
LOG = "log"


@pytest.fixture(autouse=True)
def stream(channel: Channel) -> None:
    """Make a stream whose oldest messages go when it has more than a few of 50 kB."""
    arguments = {
        "x-queue-type": "stream",
        "x-max-length-bytes": 400_000,
        "x-stream-max-segment-size-bytes": 200_000,
    }
    channel.queue_delete(LOG)  # that of the test before
    channel.queue_declare(LOG, durable=True, arguments=arguments)
    channel.confirm_delivery()


@pytest.fixture
def opened(broker: RunningBroker, tmp_path: Path) -> Iterator[Open]:
    with readers(AmqpStreamSource, tmp_path) as make:
        yield lambda **options: make(**{"url": broker.url, "queue": LOG} | options)


def _publish(channel: Channel, *numbers: int, pad: int = 0) -> None:
    for number in numbers:
        body = json.dumps({"n": number, "pad": "x" * pad}).encode()
        channel.basic_publish("", LOG, body, pika.BasicProperties(headers={"price": number}))


def _none(reader: Reader) -> bool:
    return not any(reader.later(1) for _ in range(5))


def _numbers(rows: list[Row]) -> list[int]:
    return [json.loads(str(row.properties))["n"] for row in rows]


def test_each_message_comes_once_over_restarts(channel: Channel, opened: Open) -> None:
    _publish(channel, 1, 1, 2)
    reader = opened(max_messages=2)
    assert _numbers(reader.at_least(2)) == [1, 1], "equal bodies are two messages"
    reader.restart()
    _publish(channel, 3)
    assert _numbers(reader.at_least(2)) == [2, 3]
    reader.source._connection.close()  # type: ignore[attr-defined]
    _publish(channel, 4)
    assert _numbers(reader.at_least(1)) == [4]
    reader.restart()
    assert _none(reader)
    assert _numbers(opened().at_least(5)) == [1, 1, 2, 3, 4], "another adapter reads it from the beginning"


def test_a_message_has_its_offset_and_its_headers(channel: Channel, opened: Open) -> None:
    _publish(channel, 7)
    (row,) = opened().at_least(1)
    properties = json.loads(str(row.properties))
    assert (row.topic, properties["offset"], properties["price"], properties["n"]) == (LOG, 1, 7, 7)
    assert not [name for name in properties if name.startswith("x-stream")]


def test_what_retention_removed_is_one_dead_letter_with_its_offsets(channel: Channel, opened: Open) -> None:
    reader = opened()
    _publish(channel, 1)
    assert _numbers(reader.at_least(1)) == [1]
    reader.source.close()
    _publish(channel, *range(2, 30), pad=50_000)
    reader.open()
    gap, *rows = reader.at_least(2)
    while _numbers(rows)[-1] < 29:
        rows += reader.at_least(1)
    numbers = _numbers(rows)
    assert gap.error == f"messages 2 to {numbers[0] - 1:,} did not come: the stream has them no longer"
    assert numbers == list(range(numbers[0], 30))
    assert 2 < numbers[0] < 30


def test_with_next_only_what_comes_after_the_first_look_is_read(channel: Channel, opened: Open) -> None:
    _publish(channel, 1)
    reader = opened(starting_offset="next")
    reader.now = time.time() + 1  # the second of the first message is over
    assert _none(reader)
    reader.source.close()
    time.sleep(2)
    _publish(channel, 2)
    reader.open()
    assert _numbers(reader.at_least(1)) == [2], "also what came while nobody looked"


def test_who_wants_everything_gets_it_in_one_question(channel: Channel, opened: Open) -> None:
    _publish(channel, *range(25))
    reader = opened(max_messages=4)
    reader.source.wait_until_settled()
    assert _numbers(reader.next()) == list(range(25))


def test_a_stream_and_a_queue_are_told_apart(
    broker: RunningBroker, channel: Channel, opened: Open, tmp_path: Path
) -> None:
    queue = str(channel.queue_declare("", auto_delete=False).method.queue)
    channel.basic_publish("", queue, b"x")
    with pytest.raises(AdapterError, match=f"(?i)'{queue}' is not a stream|x-stream-offset"):
        opened(queue=queue).at_least(1)
    with readers(AmqpSource, tmp_path / "queues") as make:
        reader = make(url=broker.url, queue=LOG)
        assert _none(reader)  # a consumer begins behind the last message
        _publish(channel, 1)
        with pytest.raises(AdapterError, match="'log' is a stream: use 'amqp_stream'"):
            reader.at_least(1)
        with pytest.raises(AdapterError, match="starting_offset: a queue has one place to begin"):
            make(url=broker.url, queue=LOG, starting_offset="next").source.check()


def test_a_test_of_the_adapter_reads_the_first_messages(
    broker: RunningBroker, channel: Channel, tmp_path: Path
) -> None:
    _publish(channel, 1, 2)
    health = Adapter("log", "amqp_stream", url=broker.url, queue=LOG, spool=str(tmp_path / "spool")).test()
    assert (health.readable, health.sampled, health.reason) == (True, 2, None)
