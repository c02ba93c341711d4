"""The adapter of queues on a real broker: a message is acknowledged after the commit, and known when it comes again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tamis.adapters.adapter import Adapter
from tamis.adapters.rows import Row
from tamis.adapters.sources.live.amqp import AmqpOptions, AmqpSource
from tamis.errors import AdapterError
from tests.adapters.live_reader import Reader, readers

from .conftest import RunningBroker

Channel = Any
Open = Callable[..., Reader]


@pytest.fixture
def queue(channel: Channel) -> str:
    return str(channel.queue_declare("", auto_delete=False).method.queue)


@pytest.fixture
def opened(broker: RunningBroker, queue: str, tmp_path: Path) -> Iterator[Open]:
    with readers(AmqpSource, tmp_path) as make:
        yield lambda **options: make(**{"url": broker.url, "queue": queue} | options)


def _publish(channel: Channel, queue: str, *bodies: object, **properties: Any) -> None:
    for body in bodies:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        channel.basic_publish("", queue, content, pika.BasicProperties(**properties))


def _numbers(rows: list[Row]) -> list[int]:
    return [json.loads(str(row.properties))["n"] for row in rows]


def _left(channel: Channel, queue: str, count: int) -> int:
    """Return the messages in a queue that nobody has, once there are `count` or a while has passed."""
    until = time.monotonic() + 10
    while (left := channel.queue_declare(queue, passive=True).method.message_count) != count:
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return int(left)


def test_a_message_has_its_headers_properties_and_body(channel: Channel, queue: str, opened: Open) -> None:
    _publish(channel, queue, {"n": 1}, headers={"price": 9}, priority=3, timestamp=1_700_000_000)
    _publish(channel, queue, b"plain \xff")
    first, second = opened().at_least(2)
    assert json.loads(str(first.properties)) == {
        "price": 9,
        "priority": 3,
        "timestamp": "2023-11-14T22:13:20+00:00",
        "exchange": "",
        "redelivered": False,
        "n": 1,
    }
    assert first.topic == queue
    assert json.loads(str(second.properties))["body"] == "cGxhaW4g/w=="


def test_a_message_is_acknowledged_only_after_it_was_processed(channel: Channel, queue: str, opened: Open) -> None:
    _publish(channel, queue, {"n": 1}, {"n": 2})
    reader = opened()
    assert _numbers(reader.at_least(2)) == [1, 2]
    reader.source.close()  # before the next question, which says that the batch was committed
    assert _left(channel, queue, 2) == 2
    reader.open()
    assert reader.at_least(0) == []
    for _ in range(5):
        assert reader.later(1) == []  # they came again, and are known
    reader.source.close()
    assert _left(channel, queue, 0) == 0


def test_equal_messages_are_two_unless_they_have_one_message_id(channel: Channel, queue: str, opened: Open) -> None:
    _publish(channel, queue, {"n": 1}, {"n": 1})
    _publish(channel, queue, {"n": 2}, {"n": 2}, message_id="two")
    _publish(channel, queue, {"n": 3})
    assert _numbers(opened().at_least(4)) == [1, 1, 2, 3]


def test_the_broker_keeps_what_is_over_max_messages(channel: Channel, queue: str, opened: Open) -> None:
    _publish(channel, queue, *({"n": n} for n in range(5)))
    reader = opened(max_messages=2)
    assert _numbers(reader.at_least(2)) == [0, 1]
    assert _left(channel, queue, 3) == 3
    assert _numbers(reader.at_least(3)) == [2, 3, 4]


def test_who_wants_everything_gets_it_in_one_question(channel: Channel, queue: str, opened: Open) -> None:
    channel.confirm_delivery()
    _publish(channel, queue, *({"n": n, "pad": "x" * 10_000} for n in range(2_000)))
    reader = opened()
    reader.source.wait_until_settled()
    assert len(reader.next()) == 2_000


def test_a_connection_that_ended_is_made_anew(channel: Channel, queue: str, opened: Open) -> None:
    reader = opened()
    assert reader.next() == []
    reader.source._connection.close()  # type: ignore[attr-defined]
    _publish(channel, queue, {"n": 1})
    assert _numbers(reader.at_least(1)) == [1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue": "nowhere"}, "no queue 'nowhere'"),
        ({"url": "amqp://127.0.0.1:1/"}, "refused"),
        ({"password_env": "WRONG"}, "ACCESS_REFUSED"),
    ],
)
def test_a_failure_says_why(opened: Open, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], said: str) -> None:
    monkeypatch.setenv("WRONG", "guest:wrong")
    with pytest.raises(AdapterError) as error:
        opened(**options).next()
    assert said.lower() in str(error.value).lower()
    assert "the next try is at" in str(error.value)


def test_a_test_of_the_adapter_leaves_the_messages(
    broker: RunningBroker, channel: Channel, queue: str, tmp_path: Path
) -> None:
    _publish(channel, queue, {"n": 1}, {"n": 2})
    health = Adapter("orders", "amqp", url=broker.url, queue=queue, spool=str(tmp_path / "spool")).test()
    assert (health.readable, health.sampled, health.reason) == (True, 2, None)
    assert _left(channel, queue, 2) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "http://x"}, "begins with amqp:// or amqps://"),
        ({"url": "amqp://a:b@x/"}, "without a password"),
        ({"url": "amqp://x/", "password_env": "NOT_SET"}, "the environment variable NOT_SET is not set"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(AdapterError) as error:
        AmqpSource(AmqpOptions(queue="q", **options)).check()  # type: ignore[arg-type]
    assert said in str(error.value)
