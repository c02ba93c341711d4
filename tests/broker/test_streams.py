"""Queues of type stream are logs that are read from any offset, by query, any number of times."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from tests.broker.conftest import StartBroker

STREAM = {"x-queue-type": "stream"}


def publish(channel: BlockingChannel, numbers: range) -> None:
    channel.queue_declare("prices", durable=True, arguments=STREAM)
    channel.confirm_delivery()
    for number in numbers:
        properties = pika.BasicProperties(headers={"price": number}, delivery_mode=2)
        channel.basic_publish("", "prices", str(number).encode(), properties)


def read(channel: BlockingChannel, count: int, arguments: dict[str, Any]) -> list[tuple[int, bytes]]:
    """Return (offset, body) of the next messages."""
    channel.basic_qos(prefetch_count=2)
    found = []
    for method, properties, body in channel.consume("prices", arguments=arguments, inactivity_timeout=10):
        assert method is not None, f"only {found} within 10 s"
        found.append((properties.headers["x-stream-offset"], body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_a_stream_is_read_from_any_place_as_often_as_one_likes(start_broker: StartBroker) -> None:
    broker = start_broker()
    connection = broker.connect()
    publish(connection.channel(), range(1, 21))
    for _ in range(2):
        everything = read(connection.channel(), 20, {"x-stream-offset": "first"})
        assert everything == [(number, str(number).encode()) for number in range(1, 21)]
    assert read(connection.channel(), 2, {"x-stream-offset": 19}) == [(19, b"19"), (20, b"20")]
    assert read(connection.channel(), 1, {"x-stream-offset": "last"}) == [(20, b"20")]


def test_a_reader_gets_what_its_query_is_true_of(start_broker: StartBroker) -> None:
    connection = start_broker().connect()
    publish(connection.channel(), range(1, 101))
    arguments = {"x-stream-offset": "first", "x-query": "price > 97"}
    assert [body for _, body in read(connection.channel(), 3, arguments)] == [b"98", b"99", b"100"]
    with pytest.raises(ChannelClosedByBroker, match="expected"):
        read(connection.channel(), 1, {"x-query": "price >> 3"})


def test_numbers_go_on_after_kill_9(start_broker: StartBroker) -> None:
    broker = start_broker()
    publish(broker.connect().channel(), range(1, 11))
    broker.kill()
    broker.start()
    connection = broker.connect()
    publish(connection.channel(), range(11, 13))
    everything = read(connection.channel(), 12, {"x-stream-offset": "first"})
    assert everything == [(number, str(number).encode()) for number in range(1, 13)]


def test_a_stream_without_history_gives_no_number_twice(start_broker: StartBroker) -> None:
    broker = start_broker()
    numbers: list[int] = []
    for _ in range(3):
        connection = broker.connect()
        channel = connection.channel()
        channel.queue_declare("prices", durable=True, arguments={**STREAM, "x-max-length-bytes": 0})
        channel.basic_qos(prefetch_count=10)
        got: list[int] = []
        channel.basic_consume(
            "prices",
            lambda _channel, _method, properties, _body, got=got: got.append(properties.headers["x-stream-offset"]),
        )
        sender = broker.connect().channel()
        sender.confirm_delivery()
        for number in range(3):
            sender.basic_publish("", "prices", str(number).encode())
        while len(got) < 3:
            connection.process_data_events(5)
        numbers += got
        broker.kill()
        broker.start()
    assert numbers == sorted(set(numbers)), numbers
    assert len(numbers) == 9


def test_retention_by_bytes_lets_the_oldest_go(start_broker: StartBroker) -> None:
    connection = start_broker().connect()
    channel = connection.channel()
    arguments = {**STREAM, "x-max-length-bytes": 200_000, "x-stream-max-segment-size-bytes": 65_536}
    channel.queue_declare("short", durable=True, arguments=arguments)
    channel.confirm_delivery()
    for _ in range(100):
        channel.basic_publish("", "short", b"x" * 10_000, pika.BasicProperties(delivery_mode=2))
    kept = channel.queue_declare("short", passive=True).method.message_count
    assert 10 <= kept < 50


def test_a_reader_without_credit_and_a_get_are_refused(start_broker: StartBroker) -> None:
    broker = start_broker()
    publish(broker.connect().channel(), range(1, 2))
    channel = broker.connect().channel()
    with pytest.raises(ChannelClosedByBroker, match="prefetch count is not set"):
        next(channel.consume("prices"))
    channel = broker.connect().channel()
    with pytest.raises((ChannelClosedByBroker, ConnectionClosedByBroker), match="NOT_IMPLEMENTED"):
        channel.basic_get("prices")


def test_a_named_reader_resumes_where_it_was_also_after_kill_9(start_broker: StartBroker) -> None:
    broker = start_broker()
    publish(broker.connect().channel(), range(1, 21))
    named = {"x-stream-offset": "first", "x-stream-reader": "audit"}
    first = broker.connect()
    assert [number for number, _ in read(first.channel(), 5, named)] == [1, 2, 3, 4, 5]
    first.close()
    assert [number for number, _ in read(broker.connect().channel(), 3, named)] == [6, 7, 8]
    broker.kill()
    broker.start()
    again = [number for number, _ in read(broker.connect().channel(), 12, named)]
    # Places are recorded when a reader goes; what was acknowledged just before the crash may come again.
    assert again == list(range(again[0], again[0] + 12))
    assert 6 <= again[0] <= 9


def test_one_consumer_at_a_time_reads_under_a_name(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    publish(channel, range(1, 4))
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("prices", lambda *_: None, arguments={"x-stream-reader": "audit"})
    with pytest.raises(ChannelClosedByBroker, match="read by another consumer"):
        read(broker.connect().channel(), 1, {"x-stream-reader": "audit"})


def test_a_reader_may_do_without_acknowledgements(start_broker: StartBroker) -> None:
    broker = start_broker()
    publish(broker.connect().channel(), range(1, 201))
    channel, found = broker.connect().channel(), []
    for method, properties, _ in channel.consume("prices", auto_ack=True, arguments={"x-stream-offset": "first"}):
        assert method is not None
        found.append(properties.headers["x-stream-offset"])
        if len(found) == 200:
            break
    assert found == list(range(1, 201))
