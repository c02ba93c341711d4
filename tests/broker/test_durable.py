"""Confirmed messages survive kill -9, and acknowledged ones do not return."""

from __future__ import annotations

import re

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.broker.conftest import StartBroker
from tests.broker.test_pika import get, get_all

PERSISTENT, TRANSIENT = pika.BasicProperties(delivery_mode=2), pika.BasicProperties(delivery_mode=1)


def declare(channel: BlockingChannel) -> None:
    channel.exchange_declare("orders", "topic", durable=True)
    channel.queue_declare("expensive", durable=True, arguments={"x-max-length": 1000})
    channel.queue_bind("expensive", "orders", "#", {"x-query": "price > 10"})
    channel.queue_declare("all", durable=True)
    channel.queue_bind("all", "orders", "#")
    channel.queue_declare("passing", durable=False)
    channel.queue_bind("passing", "orders", "#")


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_confirmed_messages_and_definitions_survive(start_broker: StartBroker, how: str) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    declare(channel)
    channel.confirm_delivery()
    for price in (5, 15, 25):
        properties = pika.BasicProperties(delivery_mode=2, headers={"price": price}, message_id=str(price))
        channel.basic_publish("orders", "new", str(price).encode() * 1000, properties)
        channel.basic_publish("orders", "new", b"transient", TRANSIENT)
    assert get(channel, "all") == b"5" * 1000
    channel.basic_qos(prefetch_count=1)  # answered after the ack, which may wait for its journal
    broker.kill() if how == "kill" else broker.stop()
    broker.start()
    channel = broker.connect().channel()
    assert get_all(channel, "expensive") == [b"15" * 1000, b"25" * 1000]
    left = get_all(channel, "all")
    assert left[-2:] == [b"15" * 1000, b"25" * 1000]
    assert b"transient" not in left
    if how == "stop":
        assert len(left) == 2, "what was acknowledged does not come again after a good stop"
    with pytest.raises(ChannelClosedByBroker, match="no queue 'passing'"):
        channel.queue_declare("passing", passive=True)


def test_definitions_go_on_working_after_a_restart(start_broker: StartBroker) -> None:
    broker = start_broker()
    declare(broker.connect().channel())
    broker.kill()
    broker.start()
    channel = broker.connect().channel()
    declare_again = channel.queue_declare("expensive", durable=True, arguments={"x-max-length": 1000})
    assert declare_again.method.message_count == 0
    for price in (5, 15):
        channel.basic_publish("orders", "new", str(price).encode(), pika.BasicProperties(headers={"price": price}))
    assert get_all(channel, "expensive") == [b"15"]
    with pytest.raises(ChannelClosedByBroker, match="PRECONDITION_FAILED"):
        channel.exchange_declare("orders", "fanout", durable=True)


def test_what_was_deleted_stays_away(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    declare(channel)
    channel.basic_publish("orders", "new", b"x", PERSISTENT)
    channel.queue_delete("all")
    channel.queue_unbind("expensive", "orders", "#", {"x-query": "price > 10"})
    broker.stop()
    broker.start()
    channel = broker.connect().channel()
    channel.basic_publish("orders", "new", b"y", pika.BasicProperties(headers={"price": 99}))
    assert get_all(channel, "expensive") == []
    with pytest.raises(ChannelClosedByBroker, match="no queue 'all'"):
        channel.queue_declare("all", passive=True)


def test_redelivered_messages_are_flagged_after_a_crash(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("work", durable=True)
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", "work", str(number).encode(), PERSISTENT)
    for _ in range(3):
        channel.basic_get("work")
    broker.kill()
    broker.start()
    channel = broker.connect().channel()
    assert get_all(channel, "work") == [str(number).encode() for number in range(10)]


def test_what_is_damaged_on_disk_is_told_in_words_and_the_rest_is_there(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("work", durable=True)
    channel.confirm_delivery()
    bodies = [f"message {number}".encode() * 100 for number in range(10)]
    for body in bodies:
        channel.basic_publish("", "work", body, PERSISTENT)
    broker.kill()
    segments = (broker.data / "journal").glob("*.segment")
    (segment,) = (path for path in segments if bodies[4] in path.read_bytes())
    with segment.open("r+b") as file:
        file.seek(segment.read_bytes().index(bodies[4]))
        file.write(b"rot")
    broker.start()
    damage = broker.wait_for_log("journal damaged")
    assert re.fullmatch(r"segment 1, byte \d+, \d+ bytes: no records any more: record \d+ is lost", damage["what"]), (
        damage
    )
    assert get_all(broker.connect().channel(), "work") == bodies[:4] + bodies[5:]


def test_a_purge_that_was_answered_stays_purged_after_a_kill(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("work", durable=True)
    for _ in range(20_000):
        channel.basic_publish("", "work", b"x", PERSISTENT)
    channel.confirm_delivery()
    channel.basic_publish("", "work", b"x", PERSISTENT)  # confirmed, so what came before it is on disk
    held, _, _ = channel.basic_get("work")
    assert held is not None
    assert channel.queue_purge("work").method.message_count == 20_000
    broker.kill()
    broker.start()
    channel = broker.connect().channel()
    assert channel.queue_declare("work", passive=True).method.message_count == 1, "what somebody has is not purged"


def test_a_queue_that_was_deleted_stays_deleted_after_a_kill(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("work", durable=True)
    channel.confirm_delivery()
    for _ in range(100):
        channel.basic_publish("", "work", b"x", PERSISTENT)
    assert channel.queue_delete("work").method.message_count == 100
    broker.kill()
    broker.start()
    channel = broker.connect().channel()
    assert channel.queue_declare("work", durable=True).method.message_count == 0


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_the_queues_of_a_user_count_after_a_restart(start_broker: StartBroker, how: str) -> None:
    broker = start_broker(config="[limits]\nqueues_per_user = 3\n")
    channel = broker.connect().channel()
    for name in ("one", "two", "three"):
        channel.queue_declare(name, durable=True)
    broker.kill() if how == "kill" else broker.stop()
    broker.start()
    with pytest.raises(ChannelClosedByBroker, match=r"queue limit \(3\) of user 'guest' is reached"):
        broker.connect().channel().queue_declare("four", durable=True)
    channel = broker.connect().channel()
    channel.queue_delete("two")
    channel.queue_declare("four", durable=True)
