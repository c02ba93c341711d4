"""A confirmed message that is rejected is in its queue or in that of its dead letters, also after kill -9.

More bytes are rejected at once than the journal takes in one call, so that letters wait while the broker is killed.
`TAMIS_LONG=1 pytest tests/faults/test_broker_dead_letters.py` is the long form; TAMIS_SEED repeats a run. A broker
that settles the originals first is planted, and caught, in the core's own tests (`broker/tests/dead_letters.rs`)."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from pamqp import commands
from pamqp.body import ContentBody

from tests.faults.amqp import PAD, Client, Ledger, drain
from tests.faults.broker_process import BrokerProcess
from tests.faults.promises import times

KILLS = times("TAMIS_KILLS", 3, 100)
SEED = int(os.environ.get("TAMIS_SEED", random.SystemRandom().randrange(2**32)))
MESSAGES, BODY_BYTES = times("TAMIS_LETTERS", 2_500, 9_000), 16_000


def declare(port: int) -> None:
    client = Client(port)
    to = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.call(commands.Queue.Declare(queue="work", durable=True, arguments=to), "Queue.DeclareOk")
    client.call(commands.Queue.Declare(queue="dead", durable=True), "Queue.DeclareOk")
    client.close()


def publish_all(port: int, ledger: Ledger, round_: int) -> None:
    """Publish all messages of a round, and wait until they are confirmed."""
    client = Client(port)
    client.call(commands.Confirm.Select(), "Confirm.SelectOk")
    acked = 0
    for number in range(1, MESSAGES + 1):
        name = f"r{round_}-{number}"
        ledger.attempted.add(name)
        client.publish("", "work", name.encode().ljust(BODY_BYTES, PAD.encode()), delivery_mode=2)
        while number - acked > 500 or (number == MESSAGES and acked < MESSAGES):
            for value in client.frames(5):
                if value.name == "Basic.Ack":
                    acked = max(acked, value.delivery_tag)
    ledger.confirmed |= {f"r{round_}-{number}" for number in range(1, MESSAGES + 1)}
    client.close()


def reject_all(port: int) -> Client:
    """Take everything from `work`, and reject it with one basic.nack."""
    client = Client(port)
    count = client.call(commands.Queue.Declare(queue="work", passive=True), "Queue.DeclareOk").message_count
    client.send(commands.Basic.Consume(queue="work"))
    taken, until = 0, time.monotonic() + 60
    while taken < count and time.monotonic() < until:
        taken += sum(isinstance(value, ContentBody) for value in client.frames(5))
    assert taken == count
    client.send(commands.Basic.Nack(0, multiple=True, requeue=False))
    return client


@pytest.mark.timeout(180 + 60 * KILLS)
def test_no_confirmed_message_is_lost_between_its_queue_and_its_letters(tmp_path: Path) -> None:
    print(f"TAMIS_SEED={SEED} TAMIS_KILLS={KILLS}")
    chance, doubled = random.Random(SEED), 0
    for round_ in range(KILLS):
        ledger = Ledger()
        broker = BrokerProcess(tmp_path / f"data{round_}")
        with broker.start():
            declare(broker.port)
            publish_all(broker.port, ledger, round_)
            reject_all(broker.port)
            # Early, while letters wait; and late, when whatever was settled is on disk.
            time.sleep(chance.uniform(0.0, 0.2) if round_ % 2 else chance.uniform(1.0, 2.0))
            broker.kill()
        with broker.start():
            left = [drain(broker.port, queue, ledger) for queue in ("work", "dead")]
        print(f"round {round_}: {left[0]} left, {left[1]} letters, {ledger.duplicates} doubled")
        assert not ledger.lost
        assert not ledger.phantoms
        doubled += ledger.duplicates
    print(f"{doubled} doubled")


def test_all_letters_arrive_when_nothing_happens_and_the_loop_goes_on(tmp_path: Path) -> None:
    ledger = Ledger()
    with BrokerProcess(tmp_path / "data") as broker:
        declare(broker.port)
        publish_all(broker.port, ledger, 0)
        rejecting, bystander = reject_all(broker.port), Client(broker.port)
        longest_s, until, count = 0.0, time.monotonic() + 60, 0
        while count < MESSAGES and time.monotonic() < until:
            began = time.monotonic()
            count = bystander.call(commands.Queue.Declare(queue="dead", passive=True), "Queue.DeclareOk").message_count
            longest_s = max(longest_s, time.monotonic() - began)
        print(f"longest answer to a bystander: {longest_s * 1000:.0f} ms")
        assert count == MESSAGES
        rejecting.close()
