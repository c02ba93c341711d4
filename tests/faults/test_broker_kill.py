"""Confirmed messages survive kill -9, in order, and are redelivered.

`TAMIS_LONG=1 pytest tests/faults/test_broker_kill.py` is the long form; TAMIS_SEED repeats a run."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from pamqp import commands

from tests.faults.amqp import Client, Consumer, Ledger, Publisher
from tests.faults.broker_process import BrokerProcess
from tests.faults.paths import Paths
from tests.faults.promises import LONG, times
from tests.faults.stream_reader import Reading, StreamReader, read_on

pytestmark = pytest.mark.serial

KILLS = times("TAMIS_KILLS", 3, 100)
TAKEN_AGAIN = times("TAMIS_TAKEN_AGAIN", 5, 50)
SEED = int(os.environ.get("TAMIS_SEED", random.SystemRandom().randrange(2**32)))
QUEUE = "work"
AGAIN_S_MAX = 1.0
"""The time in which unacknowledged messages come again."""
SMALL_SEGMENTS = "[journal]\nsegment_bytes = 1048576\n"


def declare(port: int) -> None:
    client = Client(port)
    client.call(commands.Queue.Declare(queue=QUEUE, durable=True), "Queue.DeclareOk")
    client.close()


def ended_under_load(
    broker: BrokerProcess, paths: Paths, name: str, after_s: float, size: int = 200, *, cleanly: bool = False
) -> None:
    """Publish in all ways, with those who take; end the broker after `after_s`: with SIGTERM if `cleanly`."""
    threads = paths.start(broker.port, name, size)
    time.sleep(after_s)
    assert not cleanly or broker.stop() == 0
    broker.kill()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
        assert not isinstance(getattr(thread, "error", None), AssertionError), thread.error


@pytest.mark.timeout(120 + 30 * KILLS)
def test_what_was_confirmed_is_there_after_kill_9(tmp_path: Path) -> None:
    print(f"TAMIS_SEED={SEED} TAMIS_KILLS={KILLS}")
    chance, paths = random.Random(SEED), Paths()
    broker = BrokerProcess(tmp_path / "data", SMALL_SEGMENTS)
    for round_ in range(KILLS):
        with broker.start():
            after_s = chance.uniform(0.1, 3.0 if LONG else 1.0)
            # A start after a clean stop trusts what the stop has written: now and then there is one in between.
            ended_under_load(broker, paths, f"r{round_}", after_s, cleanly=round_ % 5 == 1)
    with broker.start():
        paths.drain(broker)
        assert broker.stop() == 0
    print(paths)
    assert not paths.wrong()
    assert all(ledger.confirmed for ledger in paths.ledgers.values()), (
        "nothing was confirmed on a path: the run is void"
    )


def test_control_a_broker_that_confirms_what_it_received_is_caught(tmp_path: Path) -> None:
    print(f"TAMIS_SEED={SEED}")
    chance = random.Random(SEED)
    for round_ in range(40):  # on a fast disk many kills lose nothing
        paths = Paths()
        broker = BrokerProcess(tmp_path / f"data{round_}", '[journal]\nconfirm = "received"\n')
        with broker.start():
            # Large messages: the disk is always behind.
            ended_under_load(broker, paths, f"r{round_}", chance.uniform(0.3, 0.8), size=20_000)
        with broker.start():
            paths.drain(broker)
        if wrong := paths.wrong():
            print(f"caught by kill {round_ + 1}: {wrong}")
            return
    pytest.fail("forty kills lost nothing that was confirmed before it was written: the test cannot tell")


def resumed(data: Path, name: str, start: str) -> list[str]:
    """Kill a broker whose stream is half read; return what is wrong when its reader has come back and read on."""
    reading, stream = Reading(), {number: str(number) for number in range(1, 201)}
    broker = BrokerProcess(data, SMALL_SEGMENTS)
    with broker.start():
        client = Client(broker.port)
        declare_stream = commands.Queue.Declare(queue="log", durable=True, arguments={"x-queue-type": "stream"})
        client.call(declare_stream, "Queue.DeclareOk")
        client.call(commands.Confirm.Select(), "Confirm.SelectOk")
        for body in stream.values():
            client.publish("", "log", body.encode())
        while client.wait("Basic.Ack").delivery_tag < len(stream):
            pass
        reader = StreamReader(broker.port, "log", reading, name=name)
        while len(reading.seen) < len(stream) // 2:
            reader.take(1.0)
        broker.kill()
        reader.close()
    with broker.start():
        read_on(broker.port, "log", reading, stream, name=name, start=start)
    return reading.wrong(stream)


def test_a_named_reader_goes_on_after_kill_9_and_misses_nothing(tmp_path: Path) -> None:
    assert not resumed(tmp_path / "data", "audit", "first")


def test_control_a_reader_without_a_name_misses_what_came_before_and_is_caught(tmp_path: Path) -> None:
    (wrong,) = resumed(tmp_path / "data", "", "next")
    assert "never came" in wrong


def test_control_a_reader_without_a_name_gets_all_again_unmarked_and_is_caught(tmp_path: Path) -> None:
    (wrong,) = resumed(tmp_path / "data", "", "first")
    assert "came again without a mark" in wrong


def inversions(seen: list[tuple[int, bool]]) -> list[tuple[int, int]]:
    """Return the numbers that came after a higher one without being flagged as redelivered, each with that one."""
    highest, found = 0, []
    for number, redelivered in seen:
        if number <= highest and not redelivered:
            found.append((number, highest))
        highest = max(highest, number)
    return found


def consumed(port: int, ledger: Ledger, consumers: int) -> list[tuple[int, bool]]:
    """Return the numbers of one publisher and their flags as `consumers` side by side take them, four times in turn."""
    publisher = Publisher(port, QUEUE, "p", ledger)
    publisher.start()
    seen: list[tuple[int, bool]] = []
    for _ in range(4):  # they return repeatedly, with unacknowledged messages
        side_by_side = [Consumer(port, QUEUE, ledger, prefetch=50, ack_every=7) for _ in range(consumers)]
        for consumer in side_by_side:
            consumer.start()
        time.sleep(0.3)
        for consumer in side_by_side:
            consumer.stop()
            numbers = [int(body.split("-")[1]) for body in consumer.bodies]
            seen += zip(numbers, consumer.redelivered, strict=True)
    publisher.stop()
    assert publisher.error is None
    return seen


def test_one_publisher_and_one_consumer_keep_their_order(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SMALL_SEGMENTS) as broker:
        declare(broker.port)
        seen = consumed(broker.port, Ledger(), consumers=1)
    assert len(seen) > 100
    assert not inversions(seen)


def test_control_two_consumers_do_not_keep_the_order_and_are_caught(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SMALL_SEGMENTS) as broker:
        declare(broker.port)
        assert inversions(consumed(broker.port, Ledger(), consumers=2))


def taken_again(port: int, rounds: int, *, no_ack: bool) -> list[tuple[float, list[str], list[bool]]]:
    """Let consumers take a hundred messages and leave, one after the other.

    Returns:
        For each how long it took in seconds, the messages, and their flags."""
    client, found = Client(port), []
    for number in range(100):
        client.publish("", QUEUE, str(number).encode(), delivery_mode=2)
    for _ in range(rounds):
        consumer = Consumer(port, QUEUE, Ledger(), prefetch=100, ack_every=0, no_ack=no_ack)
        began = time.monotonic()
        consumer.start()
        while len(consumer.bodies) < 100 and time.monotonic() < began + AGAIN_S_MAX:
            time.sleep(0.01)
        took_s = time.monotonic() - began
        consumer.stop()
        found.append((took_s, consumer.bodies, consumer.redelivered))
    return found


def test_what_a_consumer_left_unacknowledged_comes_again_and_says_so(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SMALL_SEGMENTS) as broker:
        declare(broker.port)
        found = taken_again(broker.port, TAKEN_AGAIN, no_ack=False)
    print(f"longest {max(took_s for took_s, _, _ in found):.3f} s")
    for round_, (took_s, bodies, redelivered) in enumerate(found):
        assert bodies == [str(number) for number in range(100)], f"round {round_}: {len(bodies)} in {took_s:.1f} s"
        assert all(redelivered) == (round_ > 0)


def test_control_what_needs_no_acknowledgement_does_not_come_again_and_is_caught(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SMALL_SEGMENTS) as broker:
        declare(broker.port)
        (_, first, _), (_, second, _) = taken_again(broker.port, 2, no_ack=True)
    assert (len(first), second) == (100, [])
