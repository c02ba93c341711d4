"""Publishers are told the truth about each message, also when some are refused and others wait for the disk."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

from pamqp import commands

from tests.broker.conftest import StartBroker
from tests.faults.amqp import Client


def told(client: Client, count: int, timeout_s: float = 20) -> Iterator[tuple[int, int, bool]]:
    """Return (first, last, acked) of each ack and nack until all of `count` messages are told.

    A range begins behind the last number that was told, as clients do that trust the last word (amqp091-go)."""
    states: dict[int, bool] = {}
    until = time.monotonic() + timeout_s
    while len(states) < count and time.monotonic() < until:
        for value in client.frames(1):
            if value.name in {"Basic.Ack", "Basic.Nack"}:
                untold = (number for number in range(1, value.delivery_tag) if number not in states)
                first = next(untold, value.delivery_tag) if value.multiple else value.delivery_tag
                states.update(dict.fromkeys(range(first, value.delivery_tag + 1), value.name == "Basic.Ack"))
                yield first, value.delivery_tag, value.name == "Basic.Ack"
    assert len(states) == count, f"{len(states)} of {count} were told"


def test_as_many_messages_are_acked_as_are_kept(start_broker: StartBroker) -> None:
    broker = start_broker()
    with closing(Client(broker.port)) as client:
        arguments = {"x-max-length": 10, "x-overflow": "reject-publish"}
        client.call(commands.Queue.Declare(queue="small", durable=True, arguments=arguments), "Queue.DeclareOk")
        client.call(commands.Confirm.Select(), "Confirm.SelectOk")
        for number in range(100):
            client.publish("", "small", str(number).encode(), delivery_mode=2)
        acked: set[int] = set()
        nacked: set[int] = set()
        for first, last, is_ack in told(client, 100):
            (acked if is_ack else nacked).update(range(first, last + 1))
        left = client.call(commands.Queue.Declare(queue="small", passive=True), "Queue.DeclareOk")
        assert left.message_count == 10
    assert (acked, nacked) == (set(range(1, 11)), set(range(11, 101)))


def test_no_range_covers_a_message_of_the_other_kind(start_broker: StartBroker) -> None:
    broker = start_broker()
    with closing(Client(broker.port)) as client:
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        client.call(commands.Queue.Declare(queue="small", durable=True, arguments=arguments), "Queue.DeclareOk")
        client.call(commands.Queue.Declare(queue="large", durable=True), "Queue.DeclareOk")
        client.publish("", "small", b"full", delivery_mode=2)
        client.call(commands.Confirm.Select(), "Confirm.SelectOk")
        queues = [("large", "small", "large", "large")[number % 4] for number in range(400)]
        for queue in queues:
            client.publish("", queue, b"x" * 1000, delivery_mode=2)
        for first, last, is_ack in told(client, len(queues)):
            expected = {"large"} if is_ack else {"small"}
            assert set(queues[first - 1 : last]) == expected, (first, last)
