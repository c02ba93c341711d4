"""Messages that pika publishes are in the outbox of a pipeline exactly once, whatever is killed.

It uses the messages and queries of tests/spark/test_journal.py."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest

import tamis
from tests.broker.conftest import RunningBroker, StartBroker
from tests.spark.conftest import Workshop, workshop  # noqa: F401 - a fixture
from tests.spark.test_journal import QUERIES, brute_force, outbox, publication

pytestmark = pytest.mark.spark


def publish(broker: RunningBroker, numbers: range) -> None:
    """Publish with confirms, so that each message is on disk and in the stream."""
    with broker.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_bind("orders", "amq.topic", "orders.#")
        channel.confirm_delivery()
        for number in numbers:
            topic, properties, body = publication(number)
            properties["delivery_mode"] = 2
            channel.basic_publish("amq.topic", topic, body, pika.BasicProperties(**properties))


def stream_of(broker: RunningBroker) -> Path:
    (mark,) = (broker.data / "streams").rglob("mark")
    return mark.parent


def test_what_is_published_is_in_the_outbox_once(start_broker: StartBroker, workshop: Workshop) -> None:  # noqa: F811
    broker = start_broker()
    publish(broker, range(1, 31))
    workshop.store.add_queries(tamis.QuerySpec(key, text) for key, text in QUERIES.items())
    workshop.adapter("orders", "journal", stream_of(broker), max_messages=7)
    workshop.toml += 'query_body = "json"\n'
    assert workshop.run().read == 30
    assert outbox(workshop.store) == sorted(brute_force(range(1, 31)))

    publish(broker, range(31, 41))
    broker.kill()
    broker.start()
    publish(broker, range(41, 51))
    summary = workshop.run()
    assert (summary.read, summary.dead) == (20, 0)
    assert outbox(workshop.store) == sorted(brute_force(range(1, 51)))
    assert workshop.run().read == 0
