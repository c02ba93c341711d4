"""The broker delivers what brute force computes, with many queries and with queries that change under load.

`TAMIS_QUERIES=10000 TAMIS_MESSAGES=100000 TAMIS_SEEDS=20 pytest tests/faults/test_broker_oracle.py`: the long form."""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands

import tamis
from tests.faults.amqp import Client, Ledger, Publisher
from tests.faults.broker_process import BrokerProcess
from tests.faults.promises import times

QUERIES = times("TAMIS_QUERIES", 300, 10_000)
MESSAGES = times("TAMIS_MESSAGES", 1000, 100_000)
SEEDS = times("TAMIS_SEEDS", 1, 20)
CHANGED = times("TAMIS_CHANGED", 3_000, 20_000)
"""Messages between which queries change."""
KINDS = 1_000
"""Number of different messages, since brute force evaluates QUERIES for each; further messages repeat them."""
PART = 500
SLOW_S = 20.0
"""Maximum time of a delivery; a later one counts as lost."""
SEED = int(os.environ.get("TAMIS_SEED", random.SystemRandom().randrange(2**32)))
WORDS = ["garlic", "rhubarb", "frost", "daffodils", "snow"]
KEYS = ["a", "a.b", "a.b.c", "forex.eur", "forex.usd.spot", ""]
PATTERNS = ["#", "a.*", "a.#", "*.b.#", "forex.*", "#.spot", "a"]


def random_query(chance: random.Random, depth: int = 3) -> str:
    """Return a selector over properties that `random_message` has or lacks."""
    if depth and chance.random() < 0.5:
        left, right = random_query(chance, depth - 1), random_query(chance, depth - 1)
        return chance.choice([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"])
    name = chance.choice(["price", "volume", "deep.level", "absent"])
    number = chance.choice([str(chance.randrange(-3, 20)), f"{chance.randrange(40) / 4}"])
    word = chance.choice(WORDS)
    return chance.choice(
        [
            f"{name} {chance.choice(['=', '<>', '<', '<=', '>', '>='])} {number}",
            f"{name} BETWEEN {number} AND 12",
            f"word IN ('{word}', '{chance.choice(WORDS)}')",
            f"word LIKE '%{word[1:4]}%'",
            "urgent",
            f"{name} IS NULL",
            f"message_id = '{word}'",
            f"priority > {chance.randrange(10)}",
            f"TOPIC('{chance.choice(PATTERNS)}')",
            f"tags = '{word}'",
        ]
    )


def random_message(chance: random.Random) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return a routing key, headers and AMQP properties. Fractions are quarters, since the client writes 32 bits."""
    offered = {
        "price": lambda: chance.choice([chance.randrange(-3, 20), chance.randrange(40) / 4]),
        "volume": lambda: chance.randrange(20),
        "deep": lambda: {"level": chance.randrange(20)},
        "word": lambda: chance.choice(WORDS),
        "urgent": lambda: chance.random() < 0.5,
        "tags": lambda: chance.sample(WORDS, 2),
    }
    headers = {name: make() for name, make in offered.items() if chance.random() < 0.7}
    own: dict[str, Any] = {}
    if chance.random() < 0.5:
        own["message_id"] = chance.choice(WORDS)
    if chance.random() < 0.5:
        own["priority"] = chance.randrange(10)
    return chance.choice(KEYS), headers, own


def until_quiet(client: Client, quiet_s: float) -> Iterator[tuple[str, str]]:
    """Return (consumer tag, body) of all deliveries, until none has arrived for `quiet_s`."""
    until = time.monotonic() + quiet_s
    while time.monotonic() < until:
        for delivery in client.deliveries(0.01):
            until = time.monotonic() + quiet_s
            yield delivery


class Work:
    """Random queries, random messages, and the queries that each message satisfies by brute force.

    Of many queries all but a few ask for one of `shards` values first: a message that satisfies thousands would make
    this a test of the client's patience."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        shards = max(1, QUERIES // 100)
        self.texts = [random_query(chance) for _ in range(QUERIES)]
        if shards > 1:
            self.texts = [
                text if chance.random() < 0.01 else f"shard = {chance.randrange(shards)} AND ({text})"
                for text in self.texts
            ]
        queries = [tamis.selector(text) for text in self.texts]
        self.messages, self.expected = [], []
        for _ in range(min(KINDS, MESSAGES)):
            key, headers, own = random_message(chance)
            headers["shard"] = chance.randrange(shards)
            self.messages.append((key, headers, own))
            satisfied = [str(i) for i, query in enumerate(queries) if query.evaluate({**headers, **own}, topic=key)]
            self.expected.append(sorted(satisfied))


@pytest.mark.timeout(6 * 3_600)
@pytest.mark.parametrize("turn", range(SEEDS))
def test_the_broker_delivers_what_brute_force_says(tmp_path: Path, turn: int) -> None:
    seed = SEED + turn  # not the parameter: each process of a parallel run draws another
    print(f"TAMIS_SEED={seed} TAMIS_QUERIES={QUERIES} TAMIS_MESSAGES={MESSAGES}")
    work = Work(seed)
    assert any(work.expected)
    print(f"{deliver_all(tmp_path, work, work.texts):,} deliveries as expected")


def test_control_one_binding_of_another_query_is_caught(tmp_path: Path) -> None:
    print(f"TAMIS_SEED={SEED}")
    work = Work(SEED)
    satisfied = int(next(filter(None, work.expected))[0])
    bound = [*work.texts]
    bound[satisfied] = f"NOT ({bound[satisfied]})"
    with pytest.raises(AssertionError, match="message "):
        deliver_all(tmp_path, work, bound)


def deliver_all(folder: Path, work: Work, bound: list[str]) -> int:
    """Publish all messages through bindings, and compare the deliveries with brute force; return their number."""
    with BrokerProcess(folder / "data") as broker:
        client, publisher = Client(broker.port), Client(broker.port)
        client.call(commands.Exchange.Declare(exchange="e", exchange_type="x-query"), "Exchange.DeclareOk")
        for number, text in enumerate(bound):
            client.call(commands.Queue.Declare(queue=f"q{number}", exclusive=True), "Queue.DeclareOk")
            bind = commands.Queue.Bind(queue=f"q{number}", exchange="e", arguments={"x-query": text})
            client.call(bind, "Queue.BindOk")
            consume = commands.Basic.Consume(queue=f"q{number}", consumer_tag=str(number), no_ack=True)
            client.call(consume, "Basic.ConsumeOk")
        delivered = 0
        for start in range(0, MESSAGES, PART):
            numbers = range(start, min(start + PART, MESSAGES))
            for number in numbers:
                key, headers, own = work.messages[number % len(work.messages)]
                publisher.publish("e", key, str(number).encode(), headers=headers, **own)
            delivered += check_part(client, work, numbers)
        assert not list(until_quiet(client, 1.0))
    return delivered


def check_part(client: Client, work: Work, numbers: range) -> int:
    """Compare the deliveries of some messages with brute force; return their number."""
    expected = {str(number): work.expected[number % len(work.expected)] for number in numbers}
    total = sum(map(len, expected.values()))
    got: dict[str, list[str]] = defaultdict(list)
    count, until = 0, time.monotonic() + SLOW_S
    while count < total and time.monotonic() < until:
        for tag, body in client.deliveries(0.05):
            count, until = count + 1, time.monotonic() + SLOW_S
            got[body].append(tag)
    for number, tags in expected.items():
        assert sorted(got[number]) == tags, f"message {number}"
    assert set(got) <= set(expected)
    return count


def test_queries_that_change_under_load_give_each_message_one_state(tmp_path: Path) -> None:
    """A publish takes effect after earlier binds and unbinds of its channel, and before later ones."""
    print(f"TAMIS_SEED={SEED}")
    change_under_load(tmp_path, CHANGED)


def test_control_a_binding_that_is_never_made_is_caught(tmp_path: Path) -> None:
    print(f"TAMIS_SEED={SEED}")
    with pytest.raises(AssertionError, match="message "):
        change_under_load(tmp_path, CHANGED // 3, forgets="#")


def change_under_load(folder: Path, messages: int, forgets: str | None = None) -> None:
    """Change bindings between messages, and compare what comes; bindings of the pattern `forgets` are never made."""
    chance = random.Random(SEED)
    with BrokerProcess(folder / "data") as broker:
        client = Client(broker.port)
        client.call(commands.Exchange.Declare(exchange="e", exchange_type="topic"), "Exchange.DeclareOk")
        for name in ("q0", "q1", "q2", "load"):
            client.call(commands.Queue.Declare(queue=name, exclusive=name != "load"), "Queue.DeclareOk")
        for name in ("q0", "q1", "q2"):
            client.call(commands.Basic.Consume(queue=name, consumer_tag=name, no_ack=True), "Basic.ConsumeOk")
        load = Publisher(broker.port, "load", "p", Ledger(), window=2_000)
        load.start()
        bound: dict[tuple[str, str, str], tamis.Query] = {}
        expected: dict[str, set[str]] = {}
        began, number = time.monotonic(), 0
        while number < messages:
            if chance.random() < 0.5:
                text = random_query(chance, 1)
                place = (f"q{chance.randrange(3)}", chance.choice(PATTERNS), text)
                arguments = {"x-query": text}
                if place in bound:
                    del bound[place]
                    client.send(
                        commands.Queue.Unbind(queue=place[0], exchange="e", routing_key=place[1], arguments=arguments)
                    )
                else:
                    bound[place] = tamis.topic(place[1]) & tamis.selector(text)
                    if place[1] != forgets:
                        client.send(
                            commands.Queue.Bind(queue=place[0], exchange="e", routing_key=place[1], arguments=arguments)
                        )
            key, headers, own = random_message(chance)
            client.publish("e", key, str(number).encode(), headers=headers, **own)
            properties = {**headers, **own}
            expected[str(number)] = {p[0] for p, query in bound.items() if query.evaluate(properties, topic=key)}
            if len(bound) > 60:
                for place in list(bound)[:50]:
                    del bound[place]
                    arguments = {"x-query": place[2]}
                    client.send(
                        commands.Queue.Unbind(queue=place[0], exchange="e", routing_key=place[1], arguments=arguments)
                    )
            number += 1
        rate = number / (time.monotonic() - began)
        got: dict[str, list[str]] = defaultdict(list)
        for tag, body in until_quiet(client, 1.0):
            got[body].append(tag)
        load.stop()
        print(f"{rate:.0f} messages and half as many changes a second beside {len(load.confirm_times)} confirms")
        assert load.error is None
    for number_text, queues in expected.items():
        assert sorted(got[number_text]) == sorted(queues), f"message {number_text}"
