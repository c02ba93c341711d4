"""Confirmed messages survive kill -9, in order, and are redelivered.

`TAMIS_KILLS=100 pytest tests/faults/test_broker_kill.py` is the long form; TAMIS_SEED repeats a run."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from pamqp import commands

from tests.faults.amqp import Client, Consumer, Ledger, Publisher, drain
from tests.faults.broker_process import BrokerProcess

pytestmark = pytest.mark.serial

KILLS = int(os.environ.get("TAMIS_KILLS", "3"))
SEED = int(os.environ.get("TAMIS_SEED", random.SystemRandom().randrange(2**32)))
QUEUE = "work"
SMALL_SEGMENTS = "[journal]\nsegment_bytes = 1048576\n"


def declare(port: int) -> None:
    client = Client(port)
    client.call(commands.Queue.Declare(queue=QUEUE, durable=True), "Queue.DeclareOk")
    client.close()


def killed_under_load(broker: BrokerProcess, ledger: Ledger, round_: int, after_s: float, size: int = 200) -> None:
    """Run two publishers and a consumer that acknowledges, and kill the broker after `after_s`."""
    publishers = [Publisher(broker.port, QUEUE, f"r{round_}p{number}", ledger, size=size) for number in range(2)]
    consumer = Consumer(broker.port, QUEUE, ledger)
    for thread in (*publishers, consumer):
        thread.start()
    time.sleep(after_s)
    broker.kill()
    for thread in (*publishers, consumer):
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.timeout(120 + 30 * KILLS)
def test_what_was_confirmed_is_there_after_kill_9(tmp_path: Path) -> None:
    print(f"TAMIS_SEED={SEED} TAMIS_KILLS={KILLS}")
    chance, ledger = random.Random(SEED), Ledger()
    broker = BrokerProcess(tmp_path / "data", SMALL_SEGMENTS)
    for round_ in range(KILLS):
        with broker.start():
            declare(broker.port)
            killed_under_load(broker, ledger, round_, chance.uniform(0.1, 3.0 if KILLS > 10 else 1.0))
    with broker.start():
        left = drain(broker.port, QUEUE, ledger)
        assert broker.stop() == 0
    counts = f"{len(ledger.attempted)} attempted, {len(ledger.confirmed)} confirmed"
    print(f"{counts}, {left} left, {ledger.duplicates} doubled")
    assert ledger.confirmed, "nothing was confirmed: the run is void"
    assert not ledger.lost
    assert not ledger.phantoms


def test_control_a_broker_that_confirms_what_it_received_is_caught(tmp_path: Path) -> None:
    print(f"TAMIS_SEED={SEED}")
    chance = random.Random(SEED)
    for round_ in range(20):
        ledger = Ledger()
        broker = BrokerProcess(tmp_path / f"data{round_}", '[journal]\nconfirm = "received"\n')
        with broker.start():
            declare(broker.port)
            # Large messages: the disk is always behind.
            killed_under_load(broker, ledger, round_, chance.uniform(0.3, 0.8), size=50_000)
        with broker.start():
            drain(broker.port, QUEUE, ledger)
        if ledger.lost:
            print(f"caught by kill {round_ + 1}: {len(ledger.lost)} of {len(ledger.confirmed)} lost")
            return
    pytest.fail("twenty kills lost nothing that was confirmed before it was written: the test cannot tell")


def test_one_publisher_and_one_consumer_keep_their_order(tmp_path: Path) -> None:
    ledger = Ledger()
    with BrokerProcess(tmp_path / "data", SMALL_SEGMENTS) as broker:
        declare(broker.port)
        publisher = Publisher(broker.port, QUEUE, "p", ledger)
        publisher.start()
        seen: list[tuple[int, bool]] = []
        for _ in range(4):  # the consumer returns repeatedly, with unacknowledged messages
            consumer = Consumer(broker.port, QUEUE, ledger, prefetch=50, ack_every=7)
            consumer.start()
            time.sleep(0.3)
            consumer.stop()
            numbers = [int(body.split("-")[1]) for body in consumer.bodies]
            seen += list(zip(numbers, consumer.redelivered, strict=True))
        publisher.stop()
        assert publisher.error is None
    assert len(seen) > 100
    highest = 0
    for number, redelivered in seen:
        assert number > highest or redelivered, f"{number} came after {highest}"
        highest = max(highest, number)


def test_what_a_consumer_left_unacknowledged_comes_again_and_says_so(tmp_path: Path) -> None:
    rounds = 50 if KILLS > 10 else 5
    with BrokerProcess(tmp_path / "data", SMALL_SEGMENTS) as broker:
        declare(broker.port)
        client = Client(broker.port)
        for number in range(100):
            client.publish("", QUEUE, str(number).encode(), delivery_mode=2)
        for round_ in range(rounds):
            ledger = Ledger()
            consumer = Consumer(broker.port, QUEUE, ledger, prefetch=100, ack_every=0)
            consumer.start()
            began = time.monotonic()
            while len(consumer.bodies) < 100 and time.monotonic() < began + 10:
                time.sleep(0.01)
            took_s = time.monotonic() - began
            consumer.stop()
            assert consumer.bodies == [str(number) for number in range(100)]
            assert all(consumer.redelivered) == (round_ > 0)
            assert took_s < 5.0, f"round {round_}: {took_s:.1f} s"
