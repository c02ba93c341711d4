"""A stream that is replayed twice has the same matches both times, which are those of the slow definition."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands

import tamis
from tests.broker.conftest import RunningBroker
from tests.faults.amqp import Client
from tests.faults.promises import times

MESSAGES = times("TAMIS_REPLAY_MESSAGES", 5_000, 1_000_000)
QUERIES = ["price >= 0", "price > 90 AND region = 'EU'", "price BETWEEN 10 AND 12 OR region = 'US'", "price * 2 = 10"]
REGIONS = ("EU", "US", "AS")
LIMIT_S = 60 + MESSAGES / 2_000
WINDOW = 5_000
"""Maximum number of unconfirmed messages."""
KINDS = 300
"""The number of different headers, of which each message has some."""


def publish(broker: RunningBroker, seed: int) -> list[dict[str, Any]]:
    """Fill the stream; return the headers of its messages."""
    generator = random.Random(seed)
    kinds: list[dict[str, Any]] = [
        {"price": generator.randrange(100), "region": generator.choice(REGIONS)} for _ in range(KINDS)
    ]
    client = Client(broker.port, timeout_s=60)
    published: list[dict[str, Any]] = []
    arguments: dict[str, Any] = {"x-queue-type": "stream"}
    client.call(commands.Queue.Declare(queue="s", durable=True, arguments=arguments), "Queue.DeclareOk")
    client.call(commands.Confirm.Select(), "Confirm.SelectOk")
    confirmed = 0
    for number in range(MESSAGES):
        published.append(generator.choice(kinds))
        client.publish("", "s", str(number).encode(), headers=published[-1])
        while confirmed < number - WINDOW:
            confirmed = client.wait("Basic.Ack", 60).delivery_tag
    while confirmed < MESSAGES:
        confirmed = client.wait("Basic.Ack", 60).delivery_tag
    client.close()
    return published


def replay(broker: RunningBroker, query: str, count: int) -> list[int]:
    """Return the numbers of the messages that satisfy a query, and see that no more than `count` come."""
    client = Client(broker.port)
    found: list[int] = []
    arguments: dict[str, Any] = {"x-stream-offset": "first", "x-query": query}
    client.call(commands.Basic.Consume(queue="s", no_ack=True, arguments=arguments), "Basic.ConsumeOk")
    until = time.monotonic() + LIMIT_S
    while len(found) < count:
        assert time.monotonic() < until, f"{len(found)} of {count} came"
        found += [int(body) for _, body in client.deliveries(1)]
    found += [int(body) for _, body in client.deliveries(0.3)]
    client.close()
    return found


@pytest.mark.timeout(120 + 10 * LIMIT_S)
def test_a_stream_that_is_replayed_twice_matches_the_same_messages_both_times(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    broker = RunningBroker(tmp_path)
    try:
        published = publish(broker, seed)
        for text in QUERIES:
            query = tamis.selector(text)
            expected = [number for number, headers in enumerate(published) if query.evaluate(headers) is True]
            assert replay(broker, text, len(expected)) == expected
            if text == QUERIES[1]:
                broker.kill()
                broker.start()
            assert replay(broker, text, len(expected)) == expected
    finally:
        broker.kill()


def test_control_a_replay_of_another_query_is_caught(tmp_path: Path) -> None:
    broker = RunningBroker(tmp_path)
    try:
        published = publish(broker, 1)
        expected = [number for number, headers in enumerate(published) if headers["price"] > 90]
        assert replay(broker, "price > 89", len(expected)) != expected
    finally:
        broker.kill()
