"""Malicious queries and topics are refused with 406 or matched in time, and a bystander does not notice."""

from __future__ import annotations

import time

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.broker.conftest import RunningBroker

REFUSED = {
    "deep parentheses": "(" * 30_000 + "a" + ")" * 30_000,
    "deep NOT": "NOT " * 15_000 + "a",
    "too many values": f"a IN ({','.join(map(str, range(10_001)))})",
    "look-ahead": "REGEX(body, '(?=a)')",
    "a huge repetition": "REGEX(body, '((a{1000}){1000}){1000}')",
}
TAKEN = {
    "nested repetition": "REGEX(word, '^(a+)+$')",
    "many wildcards": f"word LIKE '{'%a' * 1_000}'",
    "alternatives": "REGEX(word, '(a|a|a)*b')",
}


@pytest.mark.parametrize("query", REFUSED.values(), ids=REFUSED.keys())
def test_a_bomb_is_refused_when_it_is_bound(broker: RunningBroker, channel: BlockingChannel, query: str) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    with pytest.raises(ChannelClosedByBroker, match="PRECONDITION_FAILED"):
        channel.queue_bind(queue, "amq.headers", arguments={"x-query": query})
    assert channel.connection.channel().queue_declare("", exclusive=True)


@pytest.mark.parametrize("query", TAKEN.values(), ids=TAKEN.keys())
def test_a_bomb_that_is_bound_is_matched_in_time(channel: BlockingChannel, query: str) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.exchange_declare("bombs", "x-query", auto_delete=True)
    channel.queue_bind(queue, "bombs", arguments={"x-query": query})
    channel.confirm_delivery()
    began = time.monotonic()
    for _ in range(20):
        properties = pika.BasicProperties(headers={"word": "a" * 5_000 + "!"})
        channel.basic_publish("bombs", "", b"", properties)
    assert time.monotonic() - began < 10, "a backtracking one takes for ever"


def test_many_hashes_in_a_topic_are_matched_in_time(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.topic", ".".join(["#.a"] * 60) + ".z")
    channel.confirm_delivery()
    began = time.monotonic()
    for number in range(20):
        channel.basic_publish("amq.topic", ".".join(["a"] * 100) + f".y{number}", b"")
    assert time.monotonic() - began < 10
    assert channel.queue_declare(queue, passive=True).method.message_count == 0
