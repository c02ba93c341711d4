"""Messages and queues expire when their time is up, also after a restart and after many years."""

from __future__ import annotations

import statistics
import time
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.broker.conftest import RunningBroker, StartBroker
from tests.broker.test_dead_letters import next_message
from tests.broker.test_pika import get_all

LEVELS = 28
"""The delay queues of Celery's native delayed delivery: 2^0 to 2^27 seconds."""
TEN_YEARS_MS = 315_360_000_000


def count(channel: BlockingChannel, queue: str) -> int:
    """Return the number of messages that are ready in a queue."""
    number = channel.queue_declare(queue, passive=True).method.message_count
    assert isinstance(number, int)
    return number


def wait_until_empty(channel: BlockingChannel, queue: str) -> None:
    """Wait until a queue has no ready message."""
    until = time.monotonic() + 20
    while count(channel, queue):
        assert time.monotonic() < until, f"{queue} still has messages"
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_expiration_goes_on_over_a_restart_and_ends_in_the_dead_letter_queue(
    start_broker: StartBroker, how: str
) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("wait", durable=True, arguments=arguments)
    channel.confirm_delivery()
    for number in range(3):
        properties = pika.BasicProperties(delivery_mode=2, expiration="1500")
        channel.basic_publish("", "wait", str(number).encode(), properties)
    channel.basic_publish("", "wait", b"for ever", pika.BasicProperties(delivery_mode=2))
    broker.kill() if how == "kill" else broker.stop()
    broker.start()
    channel = broker.connect().channel()
    dead = [next_message(channel, "dead", auto_ack=True) for _ in range(3)]
    assert [body for _, _, body in dead] == [b"0", b"1", b"2"]
    assert {properties.headers["x-death"][0]["reason"] for _, properties, _ in dead} == {"expired"}
    assert (count(channel, "wait"), count(channel, "dead")) == (1, 0)
    assert get_all(channel, "wait") == [b"for ever"]


def test_a_message_that_a_restart_brought_back_is_dead_lettered_when_it_is_rejected(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("wait", durable=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", "wait", b"x", pika.BasicProperties(delivery_mode=2, expiration="5000"))
    broker.kill()
    broker.start()
    channel = broker.connect().channel()
    method, _, _ = channel.basic_get("wait")
    time.sleep(5.2)  # its time is up while somebody has it
    channel.basic_nack(method.delivery_tag, requeue=False)
    assert next_message(channel, "dead", auto_ack=True)[2] == b"x"


def test_basic_get_never_gives_what_is_past_its_time(start_broker: StartBroker) -> None:
    channel = start_broker().connect().channel()
    channel.queue_declare("work")
    for _ in range(30_000):
        channel.basic_publish("", "work", b"late", pika.BasicProperties(expiration="1"))
    channel.basic_publish("", "work", b"for ever")
    time.sleep(0.01)
    _, _, body = channel.basic_get("work", auto_ack=True)
    assert body == b"for ever"
    assert channel.basic_get("work")[0] is None


def delayed(channel: BlockingChannel, queue_type: str) -> None:
    """Declare what kombu declares for Celery's native delayed delivery, and a queue `tasks` behind it."""
    key = "1.#"
    for level in reversed(range(LEVELS)):
        name, next_name = f"celery_delayed_{level}", f"celery_delayed_{level - 1}"
        channel.exchange_declare(name, "topic", durable=True)
        arguments: dict[str, Any] = {
            "x-queue-type": queue_type,
            "x-overflow": "reject-publish",
            "x-message-ttl": 2**level * 1000,
            "x-dead-letter-exchange": next_name if level else "celery_delayed_delivery",
        }
        if queue_type == "quorum":
            arguments["x-dead-letter-strategy"] = "at-least-once"
        channel.queue_declare(name, durable=True, arguments=arguments)
        channel.queue_bind(name, name, key)
        key = "*." + key
    key = "0.#"
    for level in reversed(range(1, LEVELS)):
        channel.exchange_bind(f"celery_delayed_{level - 1}", f"celery_delayed_{level}", key)
        key = "*." + key
    channel.exchange_declare("celery_delayed_delivery", "topic", durable=True)
    channel.exchange_bind("celery_delayed_delivery", "celery_delayed_0", key)
    channel.exchange_declare("tasks", "topic", durable=True)
    channel.exchange_bind("tasks", "celery_delayed_delivery", "#.tasks")
    channel.queue_declare("tasks", durable=True)
    channel.queue_bind("tasks", "tasks", "#.tasks")


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_a_task_comes_after_its_countdown_as_celery_delays_it(start_broker: StartBroker, queue_type: str) -> None:
    channel = start_broker().connect().channel()
    delayed(channel, queue_type)
    channel.confirm_delivery()
    countdown_s = 3  # one second in level 0 after two seconds in level 1
    key = ".".join(f"{countdown_s:0{LEVELS}b}") + ".tasks"
    begun = time.monotonic()
    channel.basic_publish(f"celery_delayed_{LEVELS - 1}", key, b"task", pika.BasicProperties(delivery_mode=2))
    assert count(channel, "celery_delayed_1") == 1
    assert next_message(channel, "tasks", auto_ack=True)[2] == b"task"
    assert time.monotonic() - begun >= countdown_s


def test_times_to_live_up_to_ten_years_are_taken_and_longer_ones_are_refused_with_the_range(
    broker: RunningBroker,
) -> None:
    channel = broker.connect().channel()
    arguments = {"x-message-ttl": TEN_YEARS_MS, "x-expires": TEN_YEARS_MS}
    channel.queue_declare("ten years", exclusive=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", "ten years", b"x", pika.BasicProperties(expiration=str(TEN_YEARS_MS)))
    assert count(channel, "ten years") == 1
    for argument in ("x-message-ttl", "x-expires"):
        with pytest.raises(ChannelClosedByBroker, match=f"between [01] and {TEN_YEARS_MS} milliseconds"):
            broker.connect().channel().queue_declare("", exclusive=True, arguments={argument: TEN_YEARS_MS + 1})
    with pytest.raises(ChannelClosedByBroker, match=f"between 0 and {TEN_YEARS_MS}"):
        channel.basic_publish("", "ten years", b"x", pika.BasicProperties(expiration=str(TEN_YEARS_MS + 1)))


@pytest.mark.serial
def test_a_ladder_of_two_steps_of_a_millisecond_takes_far_less_than_a_tick(start_broker: StartBroker) -> None:
    channel = start_broker().connect().channel()
    channel.queue_declare("end")
    for queue, next_queue in (("first", "second"), ("second", "end")):
        arguments = {"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": next_queue}
        channel.queue_declare(queue, arguments=arguments)
    times_ms = []
    for _ in range(20):
        begun = time.monotonic()
        channel.basic_publish("", "first", b"x")
        while channel.basic_get("end", auto_ack=True)[0] is None:
            assert time.monotonic() - begun < 20
        times_ms.append((time.monotonic() - begun) * 1000)
        time.sleep(0.005)
    assert 2 <= statistics.median(times_ms) < 50, times_ms


@pytest.mark.serial
def test_an_unused_queue_goes_soon_after_its_time(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    late_ms = []
    for number in range(5):
        channel.queue_declare(f"q{number}", arguments={"x-expires": 100})
        begun = time.monotonic()
        while broker.ask("queues")["total_count"]:
            assert time.monotonic() - begun < 20
        late_ms.append((time.monotonic() - begun) * 1000 - 100)
    assert statistics.median(late_ms) < 50, late_ms
