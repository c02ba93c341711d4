"""Malicious queries and topics are refused with 406 or matched in time, and a bystander does not notice."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.broker.conftest import RunningBroker, StartBroker
from tests.faults.promises import LONG

REFUSED = {
    "deep parentheses": "(" * 30_000 + "a" + ")" * 30_000,
    "deep NOT": "NOT " * 15_000 + "a",
    "too many values": f"a IN ({','.join(map(str, range(10_001)))})",
    "look-ahead": "REGEX(body, '(?=a)')",
    "a huge repetition": "REGEX(body, '((a{1000}){1000}){1000}')",
    "hundreds of large expressions": " OR ".join([r"REGEX(body, '\w{9}')"] * 900),
    "one large expression": r"REGEX(body, '\w{20}')",
    "tens of thousands of needles": f"body LIKE '{'%ab' * 20_000}'",
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


# ---- what is bound, and large messages ----

SLACK = 1 if LONG else 10
"""Factor on the promises, 10 ms to refuse and 20 ms to hold the loop, beside other tests; `make faults` uses 1."""
REFUSED_S_MAX, STALL_S_MAX = 0.010 * SLACK, 0.020 * SLACK
LARGE = 15 * 1024 * 1024
UNLIMITED = """
[limits]
query_body_bytes = 100000000
query_body_values = 100000000
query_match_ms = 60000
"""
"""As if there were no bounds: the control of the tests that stay within them."""


def cpu_s(broker: RunningBroker) -> float:
    """Return the CPU time of the broker's process so far."""
    stat = Path(f"/proc/{broker.process.pid}/stat").read_text()
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def longest_stall(broker: RunningBroker) -> tuple[float, str]:
    """Return the longest stall of the event loop, in seconds, and its cause."""
    time.sleep(0.3)  # a tick notes the stall
    about = broker.ask("about")
    return about["stall_s_max"], about["stall_s_max_cause"]


@pytest.mark.serial
@pytest.mark.parametrize("query", list(REFUSED.values())[-3:], ids=list(REFUSED)[-3:])
def test_an_expensive_query_is_refused_soon_with_its_price(broker: RunningBroker, query: str) -> None:
    seconds = []
    for _ in range(5):
        channel = broker.connect().channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        began = cpu_s(broker)
        with pytest.raises(ChannelClosedByBroker) as refused:
            channel.queue_bind(queue, "amq.headers", arguments={"x-query": query, "x-query-body": "text"})
        seconds.append(cpu_s(broker) - began)
        assert "bytes when compiled" in refused.value.reply_text
        channel.connection.close()
    assert min(seconds) <= REFUSED_S_MAX


def bombs(kind: str) -> list[str]:
    """Return ten queries of hundreds of predicates of one kind, of which no two are the same."""
    one = {
        "NEAR": lambda i: f"NEAR(body, 'a', 'b', {i + 1})",
        "LIKE": lambda i: f"body LIKE '%a_b%c{i}%'",
        "REGEX": lambda i: f"REGEX(body, '[ab]*a[ab]{{12}}c{i}')",
        "CONTAINS": lambda i: f"CONTAINS(body, 'a a a b{i}')",
        "JSON": lambda i: f"body.a.x{i} = {i}",
    }[kind]
    count = 60 if kind == "REGEX" else 900
    return [" OR ".join(one(query * 1000 + i) for i in range(count)) for query in range(10)]


BODIES = {
    # Both words, further from each other than any query allows: without one of them, the index rules the queries out.
    "NEAR": b"b " + b"c " * 10_000 + b"a " * (LARGE // 2),
    "LIKE": b"aab a_b ab" * (LARGE // 10),
    "REGEX": b"ab" * (LARGE // 2),
    "CONTAINS": b"a " * (LARGE // 2),
    "JSON": json.dumps({"a": [{"x": 1}] * 1_000_000}).encode(),
}


def bind_and_publish(broker: RunningBroker, kind: str, sizes: list[int], count: int = 10) -> None:
    """Bind `count` bombs, and publish messages of these sizes; some may be refused, which closes the channel."""
    channel = broker.connect().channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.exchange_declare("bombs", "x-query")
    mode = "json" if kind == "JSON" else "text"
    for query in bombs(kind)[:count]:
        channel.queue_bind(queue, "bombs", arguments={"x-query": query, "x-query-body": mode})
    for size in sizes:
        publisher = broker.connect().channel()
        publisher.confirm_delivery()
        body = BODIES[kind][:size] if kind != "JSON" else json.dumps({"a": [{"x": 1}] * (size // 10)}).encode()[:size]
        with suppress(ChannelClosedByBroker):
            publisher.basic_publish("bombs", "", body)
        publisher.connection.close()


@pytest.mark.serial
@pytest.mark.parametrize("kind", BODIES)
def test_no_message_holds_the_loop_whatever_is_bound(start_broker: StartBroker, kind: str) -> None:
    broker = start_broker()
    bind_and_publish(broker, kind, [LARGE, 256 * 1024, 200_000, 60_000, 10_000])
    seconds, cause = longest_stall(broker)
    assert seconds <= STALL_S_MAX, cause
    metrics = broker.ask("metrics")
    assert metrics["bodies_unread"] >= 1, "the largest is beyond query_body_bytes"


@pytest.mark.serial
@pytest.mark.parametrize(("kind", "size"), [("NEAR", LARGE // 16), ("JSON", LARGE)])
def test_without_the_bounds_a_message_holds_the_loop_and_the_metrics_say_so(
    start_broker: StartBroker, kind: str, size: int
) -> None:
    broker = start_broker(config=UNLIMITED)
    bind_and_publish(broker, kind, [size], count=1)
    seconds, cause = longest_stall(broker)
    assert seconds > STALL_S_MAX
    assert cause == "receive basic.publish"


@pytest.mark.serial
def test_clients_that_send_heartbeats_survive_a_stall(start_broker: StartBroker) -> None:
    broker = start_broker(config=UNLIMITED)
    bystanders = [broker.connect(heartbeat=1) for _ in range(10)]
    for divisor in (16, 8, 4, 2, 1):  # a fast machine needs a larger body to be held up
        bind_and_publish(broker, "NEAR", [LARGE // divisor])
        if longest_stall(broker)[0] > 2:
            break
    assert longest_stall(broker)[0] > 2, "twice the heartbeat"
    until = time.monotonic() + 3
    while time.monotonic() < until:
        for bystander in bystanders:
            bystander.process_data_events(0.05)
    assert not [event for event in broker.log() if event["event"] == "heartbeat missed"]
    assert all(bystander.is_open for bystander in bystanders)


@pytest.mark.serial
def test_a_refused_body_says_what_the_limit_is(start_broker: StartBroker) -> None:
    broker = start_broker(config='[limits]\nquery_body = "refuse"\nquery_body_bytes = 1000\n')
    channel = broker.connect().channel()
    queue = channel.queue_declare("q").method.queue
    channel.queue_bind(queue, "amq.fanout", arguments={"x-query": "CONTAINS(body, 'x')", "x-query-body": "text"})
    channel.confirm_delivery()
    channel.basic_publish("amq.fanout", "", b"x")
    with pytest.raises(ChannelClosedByBroker, match="reads bodies of at most 1000 bytes"):
        channel.basic_publish("amq.fanout", "", b"x " * 600)
    assert broker.connect().channel().queue_declare("q", passive=True).method.message_count == 1


@pytest.mark.serial
def test_tens_of_thousands_of_bindings_are_made_without_a_stall(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for number in range(30_000):
        query = {"x-query": f"n = {number}"} if number % 4 == 0 else None
        bind = pika.spec.Queue.Bind(0, queue, "amq.topic", f"a.{number}.*", True, query or {})  # type: ignore[no-untyped-call]
        channel._impl._send_method(bind)  # pika answers each; here nobody waits
        if number % 1_000 == 0:
            channel.connection.process_data_events(0)
    assert channel.queue_declare("", exclusive=True)
    seconds, cause = longest_stall(broker)
    assert seconds <= STALL_S_MAX, cause
