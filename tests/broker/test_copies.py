"""The headers CC and BCC give a message further routing keys; receivers see CC alone."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.broker.conftest import StartBroker

QUEUES = ("a", "b", "c", "d")


def copies(**headers: Any) -> pika.BasicProperties:
    return pika.BasicProperties(headers=headers, delivery_mode=2)


def received(channel: BlockingChannel) -> dict[str, dict[str, Any]]:
    """Return the headers of the message in each queue that has one."""
    found = {}
    for queue in QUEUES:
        method, properties, _ = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            found[queue] = properties.headers
    return found


@pytest.mark.parametrize("exchange", ["", "amq.direct", "amq.topic"])
def test_a_message_goes_by_all_of_its_keys(start_broker: StartBroker, exchange: str) -> None:
    channel = start_broker().connect().channel()
    for queue in QUEUES:
        channel.queue_declare(queue)
        if exchange:
            channel.queue_bind(queue, exchange, queue)
    for _ in range(2):
        channel.basic_publish(exchange, "a", b"x", copies(CC=["b", "a"], BCC=["c"], other=1))
        seen = {"CC": ["b", "a"], "other": 1}
        assert received(channel) == {"a": seen, "b": seen, "c": seen}
        channel.basic_publish(exchange, "a", b"x", copies(other=1))
        assert received(channel) == {"a": {"other": 1}}


def test_copies_survive_a_restart_and_dead_letters_follow_them(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("a", durable=True, arguments={"x-dead-letter-exchange": "amq.direct"})
    for queue in QUEUES[1:]:
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "amq.direct", queue)
    channel.confirm_delivery()
    channel.basic_publish("", "a", b"x", copies(CC=["b"], BCC=["c"]))
    broker.kill()
    broker.start()
    channel = broker.connect().channel()
    method, properties, _ = channel.basic_get("a")
    assert properties.headers == {"CC": ["b"]}
    channel.basic_nack(method.delivery_tag, requeue=False)
    assert received(channel) == {"b": {"CC": ["b"]}, "c": {"CC": ["b"]}}, "the originals"
    letters = received(channel)
    assert set(letters) == {"b", "c"}
    assert all("BCC" not in headers for headers in letters.values())
    assert letters["c"]["x-death"][0]["routing-keys"] == ["a", "b"]


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("value", ["a", 0, [1]])
def test_what_is_no_list_of_keys_is_refused(start_broker: StartBroker, header: str, value: object) -> None:
    channel = start_broker().connect().channel()
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.basic_publish("", "a", b"x", copies(**{header: value}))
    assert refused.value.reply_code == 406
    assert header in refused.value.reply_text


def test_a_queue_gets_one_copy_however_many_of_its_bindings_match(start_broker: StartBroker) -> None:
    channel = start_broker().connect().channel()
    channel.queue_declare("once")
    for key, query in (("#", "price > 1"), ("a.*", "price > 2"), ("a.b", "price > 3"), ("#", "price < 3")):
        channel.queue_bind("once", "amq.topic", key, {"x-query": query})
    channel.confirm_delivery()
    for price in (10, 0, 10):
        channel.basic_publish("amq.topic", "a.b", str(price).encode(), pika.BasicProperties(headers={"price": price}))
    bodies = [channel.basic_get("once", auto_ack=True)[2] for _ in range(4)]
    assert bodies == [b"10", b"0", b"10", None]
