"""A transaction happens whole or not at all."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.broker.conftest import RunningBroker, StartBroker

QUEUES = ("one", "two")


def transactional(broker: RunningBroker) -> BlockingChannel:
    channel = broker.connect().channel()
    for queue in QUEUES:
        channel.queue_declare(queue)
    channel.tx_select()
    return channel


def counts(broker: RunningBroker) -> list[int]:
    channel = broker.connect().channel()
    return [channel.queue_declare(queue, passive=True).method.message_count for queue in QUEUES]


@pytest.mark.parametrize(
    ("properties", "exchange", "code"),
    [
        (pika.BasicProperties(expiration="soon"), "", 406),
        (pika.BasicProperties(user_id="somebody"), "", 406),
        (pika.BasicProperties(headers={"CC": "two"}), "", 406),
        (pika.BasicProperties(), "none", 404),
    ],
)
def test_a_message_that_is_refused_takes_the_others_with_it(
    start_broker: StartBroker, properties: pika.BasicProperties, exchange: str, code: int
) -> None:
    broker = start_broker()
    channel = transactional(broker)
    channel.basic_publish("", "one", b"good")
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.basic_publish(exchange, "two", b"bad", properties)
        channel.tx_commit()
    assert refused.value.reply_code == code
    assert counts(broker) == [0, 0]


def test_an_exchange_that_is_gone_at_the_commit_refuses_all(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = transactional(broker)
    channel.exchange_declare("logs", "fanout")
    channel.basic_publish("", "one", b"good")
    channel.basic_publish("logs", "", b"bad")
    broker.connect().channel().exchange_delete("logs")
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.tx_commit()
    assert refused.value.reply_code == 404
    assert counts(broker) == [0, 0]


def test_a_delivery_that_is_acknowledged_twice_refuses_all(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = transactional(broker)
    broker.connect().channel().basic_publish("", "one", b"x")
    method, _, _ = channel.basic_get("one")
    channel.basic_publish("", "two", b"moved")
    channel.basic_ack(method.delivery_tag)
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.basic_ack(method.delivery_tag)
        channel.tx_commit()
    assert refused.value.reply_code == 406
    assert counts(broker) == [1, 0]


def test_recover_leaves_what_the_transaction_acknowledged(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = transactional(broker)
    other = broker.connect().channel()
    for body in (b"1", b"2"):
        other.basic_publish("", "one", body)
    tags = [channel.basic_get("one")[0].delivery_tag for _ in range(2)]
    channel.basic_ack(tags[0])
    channel.basic_recover(requeue=True)
    assert counts(broker) == [1, 0]
    channel.tx_commit()
    method, _, body = channel.basic_get("one")
    assert (method.redelivered, body) == (True, b"2")
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    channel.basic_recover(requeue=True)
    assert counts(broker) == [1, 0]
