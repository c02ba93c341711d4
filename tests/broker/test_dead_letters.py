"""Messages that a queue drops go to its dead-letter exchange, with the reason."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pika
import pytest
from pamqp import commands
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from tests.broker.conftest import StartBroker
from tests.faults.amqp import Client

DURABLE = pika.BasicProperties(delivery_mode=2)


def declare(channel: BlockingChannel, **arguments: object) -> None:
    """Declare `work`, whose dead letters go through the exchange `dead` into the queue `buried`."""
    channel.exchange_declare("dead", "topic", durable=True)
    channel.queue_declare("buried", durable=True)
    channel.queue_bind("buried", "dead", "#")
    channel.queue_declare("work", durable=True, arguments={"x-dead-letter-exchange": "dead", **arguments})


def buried(channel: BlockingChannel) -> tuple[str, dict[str, object], bytes]:
    """Return the routing key, headers and body of the next dead letter."""
    method, properties, body = next_message(channel, "buried", auto_ack=True)
    assert properties.expiration is None
    return method.routing_key, properties.headers, body


def next_message(
    channel: BlockingChannel, queue: str, auto_ack: bool = False
) -> tuple[Any, pika.BasicProperties, bytes]:
    """Return the next message of a queue; a dead letter may arrive after the answer to the call after its rejection."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        method, properties, body = channel.basic_get(queue, auto_ack=auto_ack)
        if method is not None:
            return method, properties, body
        time.sleep(0.02)
    raise AssertionError(f"nothing came into {queue}")


def test_a_rejected_message_goes_there_with_its_story(start_broker: StartBroker) -> None:
    channel = start_broker().connect().channel()
    declare(channel)
    for _ in range(2):
        channel.basic_publish("", "work", b"unwanted", pika.BasicProperties(headers={"price": 7}))
        method, _, _ = channel.basic_get("work")
        channel.basic_reject(method.delivery_tag, requeue=False)
        key, headers, body = buried(channel)
        assert (key, body, headers["price"]) == ("work", b"unwanted", 7)
        (death,) = headers["x-death"]
        assert (death["queue"], death["reason"], death["count"]) == ("work", "rejected", 1)
        assert (death["exchange"], death["routing-keys"]) == ("", ["work"])
        assert headers["x-first-death-reason"] == "rejected"


def test_an_expired_message_and_the_oldest_of_a_full_queue_go_there(start_broker: StartBroker) -> None:
    channel = start_broker().connect().channel()
    declare(channel, **{"x-max-length": 1, "x-dead-letter-routing-key": "full.or.late"})
    channel.basic_publish("", "work", b"first")
    channel.basic_publish("", "work", b"second", pika.BasicProperties(expiration="50"))
    key, headers, body = buried(channel)
    assert (key, body, headers["x-death"][0]["reason"]) == ("full.or.late", b"first", "maxlen")
    key, headers, body = buried(channel)
    assert (key, body, headers["x-death"][0]["reason"]) == ("full.or.late", b"second", "expired")
    assert headers["x-death"][0]["original-expiration"] == "50"


def test_a_message_that_only_expires_does_not_go_round_for_ever(start_broker: StartBroker) -> None:
    channel = start_broker().connect().channel()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "round", "x-message-ttl": 10}
    channel.queue_declare("round", arguments=arguments)
    channel.basic_publish("", "round", b"x")
    until = time.monotonic() + 10
    while channel.queue_declare("round", passive=True).method.message_count and time.monotonic() < until:
        time.sleep(0.05)
    assert channel.queue_declare("round", passive=True).method.message_count == 0


def test_a_message_that_is_rejected_goes_round_as_often_as_it_is(start_broker: StartBroker) -> None:
    channel = start_broker().connect().channel()
    channel.queue_declare("round", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "round"})
    channel.basic_publish("", "round", b"x")
    for count in range(4):
        method, properties, _ = next_message(channel, "round")
        assert count == 0 or properties.headers["x-death"][0]["count"] == count
        channel.basic_nack(method.delivery_tag, requeue=False)


def test_a_dead_letter_survives_kill_9(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    declare(channel)
    channel.confirm_delivery()
    channel.basic_publish("", "work", b"kept", DURABLE)
    method, _, _ = channel.basic_get("work")
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.basic_publish("", "work", b"later", DURABLE)  # confirmed, so what came before it is on disk
    broker.kill()
    broker.start()
    channel = broker.connect().channel()
    assert buried(channel)[2] == b"kept"
    method, _, body = channel.basic_get("work")
    assert body == b"later"


def test_letters_reach_an_internal_exchange(start_broker: StartBroker) -> None:
    channel = start_broker().connect().channel()
    channel.exchange_declare("inner", "fanout", internal=True)
    channel.queue_declare("buried")
    channel.queue_bind("buried", "inner")
    channel.queue_declare("work", arguments={"x-dead-letter-exchange": "inner"})
    channel.basic_publish("", "work", b"x")
    method, _, _ = channel.basic_get("work")
    channel.basic_reject(method.delivery_tag, requeue=False)
    assert buried(channel)[2] == b"x"


def test_a_cycle_behind_a_rejection_ends(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    for queue, other, ttl in (("work", "b", {}), ("b", "c", {"x-message-ttl": 20}), ("c", "b", {"x-message-ttl": 20})):
        to = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": other}
        channel.queue_declare(queue, arguments=to | ttl)
    channel.basic_publish("", "work", b"x")
    method, _, _ = channel.basic_get("work")
    channel.basic_reject(method.delivery_tag, requeue=False)
    until = time.monotonic() + 10
    while broker.ask("overview")["metrics"]["messages"] and time.monotonic() < until:
        time.sleep(0.05)
    metrics = broker.ask("overview")["metrics"]
    assert (metrics["messages"], metrics["letters"], metrics["letters_unroutable"]) == (0, 2, 1)


def test_what_a_full_queue_refuses_goes_there_when_it_is_declared_so(start_broker: StartBroker) -> None:
    channel = start_broker().connect().channel()
    declare(channel, **{"x-max-length": 1, "x-overflow": "reject-publish-dlx"})
    channel.confirm_delivery()
    channel.basic_publish("", "work", b"kept")
    with pytest.raises(NackError):
        channel.basic_publish("", "work", b"refused")
    assert buried(channel)[2] == b"refused"
    assert next_message(channel, "work")[2] == b"kept"


def test_a_deletion_is_answered_before_consumers_are_cancelled(start_broker: StartBroker) -> None:
    with closing(Client(start_broker().port)) as client:
        for durable in (False, True):
            client.call(commands.Queue.Declare(queue="work", durable=durable), "Queue.DeclareOk")
            client.call(commands.Basic.Consume(queue="work"), "Basic.ConsumeOk")
            client.send(commands.Queue.Delete(queue="work"))
            names: list[str] = []
            until = time.monotonic() + 10
            while len(names) < 2 and time.monotonic() < until:
                names += [value.name for value in client.frames(1)]
            assert names == ["Queue.DeleteOk", "Basic.Cancel"]
