"""Programs of pika run unmodified against a real broker, as in RabbitMQ's tutorials."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, NackError, UnroutableError

from tests.broker.conftest import RunningBroker, StartBroker

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def name() -> str:
    return f"test.{uuid.uuid4().hex[:12]}"


def get(channel: BlockingChannel, queue: str, timeout_s: float = 10) -> bytes | None:
    """Get and acknowledge the next message of a queue; None if none arrives."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            return bytes(body)
        time.sleep(0.01)
    return None


def get_all(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Get all messages of a queue, which must have been routed already."""
    found = []
    while (body := get(channel, queue, timeout_s=0.05)) is not None:
        found.append(body)
    return found


def temporary(channel: BlockingChannel) -> str:
    """Declare a queue that the broker names, and that is deleted with the connection."""
    return str(channel.queue_declare("", exclusive=True).method.queue)


def closed_with(channel: BlockingChannel, code: int) -> Any:
    """Check that the broker closes the channel with `code` within the block."""

    class Expected:
        def __enter__(self) -> None:
            self.raised = pytest.raises(ChannelClosedByBroker)
            self.info = self.raised.__enter__()

        def __exit__(self, *error: Any) -> bool:
            handled = bool(self.raised.__exit__(*error))
            assert self.info.value.reply_code == code, self.info.value
            assert len(self.info.value.reply_text) <= 255
            assert not channel.is_open
            return handled

    return Expected()


# ---- the tutorials ----


def test_hello_world(channel: BlockingChannel) -> None:
    queue = name()
    channel.queue_declare(queue, auto_delete=True)
    channel.basic_publish("", queue, b"Hello World!")
    received = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=10):
        assert method is not None
        received.append((method.routing_key, method.exchange, method.redelivered, properties.headers, body))
        channel.basic_ack(method.delivery_tag)
        break
    channel.cancel()
    assert received == [(queue, "", False, None, b"Hello World!")]


def test_a_work_queue_gives_each_task_to_one_worker_and_a_dead_workers_to_another(broker: RunningBroker) -> None:
    queue = name()
    with broker.connect() as publisher:
        channel = publisher.channel()
        channel.queue_declare(queue, durable=True)
        for number in range(20):
            channel.basic_publish("", queue, str(number).encode(), PERSISTENT)
        first, second = broker.connect(), broker.connect()
        workers = [first.channel(), second.channel()]
        for worker in workers:
            worker.basic_qos(prefetch_count=1)
        taken = [next(worker.consume(queue, inactivity_timeout=10)) for worker in workers]
        assert sorted(int(body) for _, _, body in taken) == [0, 1]
        first.close()  # without an ack: its task goes to the other
        method = taken[1][0]
        assert method is not None
        done, redelivered = [taken[1][2]], []
        workers[1].basic_ack(method.delivery_tag)
        for method, _, body in workers[1].consume(queue, inactivity_timeout=10):
            assert method is not None
            workers[1].basic_ack(method.delivery_tag)
            done.append(body)
            redelivered += [body] if method.redelivered else []
            if len(done) == 20:
                break
        assert sorted(int(body) for body in done) == list(range(20))
        assert redelivered == [taken[0][2]]
        second.close()
        channel.queue_delete(queue)


def test_publish_and_subscribe_give_everybody_a_copy(channel: BlockingChannel) -> None:
    exchange = name()
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    queues = [temporary(channel) for _ in range(3)]
    for queue in queues:
        channel.queue_bind(queue, exchange)
    channel.basic_publish(exchange, "whatever", b"log line")
    assert [get(channel, queue) for queue in queues] == [b"log line"] * 3


def test_routing_by_key(channel: BlockingChannel) -> None:
    exchange, errors, everything = name(), temporary(channel), temporary(channel)
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    channel.queue_bind(errors, exchange, "error")
    for severity in ("info", "warning", "error"):
        channel.queue_bind(everything, exchange, severity)
    for severity in ("info", "error", "debug"):
        channel.basic_publish(exchange, severity, severity.encode())
    assert get_all(channel, errors) == [b"error"]
    assert get_all(channel, everything) == [b"info", b"error"]


def test_topics(channel: BlockingChannel) -> None:
    queues = {pattern: temporary(channel) for pattern in ("*.orange.*", "*.*.rabbit", "lazy.#", "#", "quick")}
    for pattern, queue in queues.items():
        channel.queue_bind(queue, "amq.topic", pattern)
    keys = ["quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox", "lazy", "lazy.pink.rabbit.x", "quick"]
    for key in keys:
        channel.basic_publish("amq.topic", key, key.encode())
    found = {pattern: [body.decode() for body in get_all(channel, queue)] for pattern, queue in queues.items()}
    assert found == {
        "*.orange.*": ["quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox"],
        "*.*.rabbit": ["quick.orange.rabbit"],
        "lazy.#": ["lazy.orange.elephant", "lazy", "lazy.pink.rabbit.x"],
        "#": keys,
        "quick": ["quick"],
    }


def test_headers_exchanges(channel: BlockingChannel) -> None:
    match_all, match_any = temporary(channel), temporary(channel)
    channel.queue_bind(match_all, "amq.headers", arguments={"x-match": "all", "format": "pdf", "type": "report"})
    channel.queue_bind(match_any, "amq.headers", arguments={"x-match": "any", "format": "pdf", "type": "report"})
    for headers in ({"format": "pdf", "type": "report"}, {"format": "pdf"}, {"format": "zip"}, {}):
        properties = pika.BasicProperties(headers=headers)
        channel.basic_publish("amq.headers", "", str(headers).encode(), properties)
    assert get_all(channel, match_all) == [b"{'format': 'pdf', 'type': 'report'}"]
    assert get_all(channel, match_any) == [b"{'format': 'pdf', 'type': 'report'}", b"{'format': 'pdf'}"]


def test_remote_procedure_calls(broker: RunningBroker) -> None:
    queue = name()
    ready = threading.Event()

    def serve() -> None:
        with broker.connect() as connection:
            channel = connection.channel()
            channel.queue_declare(queue, auto_delete=True)
            ready.set()
            for method, properties, body in channel.consume(queue, inactivity_timeout=20):
                assert method is not None
                answer = pika.BasicProperties(correlation_id=properties.correlation_id)
                channel.basic_publish("", properties.reply_to, str(int(body) ** 2).encode(), answer)
                channel.basic_ack(method.delivery_tag)
                if body == b"12":
                    break
            channel.cancel()

    server = threading.Thread(target=serve)
    server.start()
    assert ready.wait(20)
    with broker.connect() as connection:
        channel = connection.channel()
        answers = temporary(channel)
        for number in range(13):
            properties = pika.BasicProperties(reply_to=answers, correlation_id=str(number))
            channel.basic_publish("", queue, str(number).encode(), properties)
        found = {}
        for _, properties, body in channel.consume(answers, auto_ack=True, inactivity_timeout=20):
            found[int(properties.correlation_id)] = int(body)
            if len(found) == 13:
                break
    server.join(20)
    assert found == {number: number**2 for number in range(13)}


# ---- content filters ----


def test_content_filters_on_any_binding(channel: BlockingChannel) -> None:
    exchange = name()
    channel.exchange_declare(exchange, "topic", auto_delete=True)
    expensive, eu, both = temporary(channel), temporary(channel), temporary(channel)
    channel.queue_bind(expensive, exchange, "orders.#", {"x-query": "price > 10"})
    channel.queue_bind(eu, exchange, "#", {"x-query": "region IN ('EU', 'UK') AND message_id IS NOT NULL"})
    channel.queue_bind(both, exchange, "orders.*", {"x-query": "price > 10"})
    channel.queue_bind(both, exchange, "#", {"x-query": "region = 'EU'"})
    for key, headers in (
        ("orders.new", {"price": 12, "region": "EU"}),
        ("orders.new", {"price": 5}),
        ("x", {"price": 99}),
    ):
        properties = pika.BasicProperties(headers=headers, message_id="1")
        channel.basic_publish(exchange, key, str(headers).encode(), properties)
    all_of_them = b"{'price': 12, 'region': 'EU'}"
    assert get_all(channel, expensive) == [all_of_them]
    assert get_all(channel, eu) == [all_of_them]
    assert get_all(channel, both) == [all_of_them], "two bindings that match give a queue one copy"


def test_queries_see_fields_of_a_json_body(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    channel.queue_bind(queue, "amq.fanout", "", {"x-query": "body.user.age >= 18", "x-query-body": "json"})
    for body in (b'{"user": {"age": 17}}', b'{"user": {"age": 18}}', b"no json"):
        channel.basic_publish("amq.fanout", "", body)
    assert get_all(channel, queue) == [b'{"user": {"age": 18}}']


def test_a_query_that_cannot_be_read_is_refused_with_its_place(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    with pytest.raises(ChannelClosedByBroker, match="expected a number") as error:
        channel.queue_bind(queue, "amq.topic", "#", {"x-query": "price >> 3"})
    assert error.value.reply_code == 406
    assert "\n" not in error.value.reply_text


# ---- confirms, returns, get, ack ----


def test_confirms_and_mandatory_returns(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"arrives", mandatory=True)
    with pytest.raises(UnroutableError) as error:
        channel.basic_publish("", name(), b"nobody is there", mandatory=True)
    (returned,) = error.value.messages
    assert (returned.method.reply_code, returned.body) == (312, b"nobody is there")
    channel.basic_publish("", name(), b"nobody is there, and nobody minds")
    assert get_all(channel, queue) == [b"arrives"]


def test_a_full_queue_that_refuses_is_a_nack(channel: BlockingChannel) -> None:
    queue = name()
    channel.queue_declare(queue, exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"first")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"second")
    assert get_all(channel, queue) == [b"first"]


def test_properties_and_bodies_of_every_size_arrive_as_they_were(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    properties = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={
            "text": "ä",
            "number": -5,
            "big": 2**40,
            "list": [1, "a", {"b": None}],
            "yes": True,
            "bytes": b"\x00\xff",
        },
        delivery_mode=2,
        priority=7,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1700000000,
        type="t",
        user_id="guest",
        app_id="a",
    )
    sizes = [0, 1, 131072 - 8, 131072 - 7, 300_000, 2_000_000]
    for size in sizes:
        channel.basic_publish("", queue, b"x" * size, properties)
    for size in sizes:
        method, found, body = channel.basic_get(queue, auto_ack=True)
        assert method is not None
        assert (len(body), found) == (size, properties)
        assert method.message_count == len(sizes) - sizes.index(size) - 1


def test_nack_requeues_and_reject_drops(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("", queue, body)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_reject(tags[0], requeue=False)
    channel.basic_nack(tags[2], multiple=True, requeue=True)
    again = [channel.basic_get(queue, auto_ack=True) for _ in range(3)]
    assert [(method.redelivered, body) for method, _, body in again if method] == [(True, b"b"), (True, b"c")]


def test_prefetch_is_what_a_consumer_has_at_a_time(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    for number in range(10):
        channel.basic_publish("", queue, str(number).encode())
    channel.basic_qos(prefetch_count=3)
    tags: list[int] = []
    channel.basic_consume(queue, lambda _, method, __, ___: tags.append(method.delivery_tag))
    channel.connection.process_data_events(time_limit=0.5)
    assert len(tags) == 3
    channel.basic_ack(tags[1], multiple=True)
    channel.connection.process_data_events(time_limit=0.5)
    assert len(tags) == 5


# ---- life of queues ----


@pytest.mark.parametrize(("product", "count"), [("other", 1), ("py-amqp", 3)])
def test_prefetch_may_be_widened_as_celery_does(broker: RunningBroker, product: str, count: int) -> None:
    connection = broker.connect(client_properties={"product": product})
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for _ in range(5):
        channel.basic_publish("", queue, b"a task with a time to wait for")
    got: list[bytes] = []
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue, lambda _channel, _method, _properties, body: got.append(body))
    channel.basic_qos(prefetch_count=3)
    until = time.monotonic() + (10 if count > 1 else 0.5)
    while len(got) < count + 1 and time.monotonic() < until:
        connection.process_data_events(0.1)
        if len(got) == count:
            until = min(until, time.monotonic() + 0.5)  # and no further one
    assert len(got) == count


def test_an_exclusive_queue_is_its_connections_alone_and_goes_with_it(broker: RunningBroker) -> None:
    queue = name()
    owner, other = broker.connect(), broker.connect()
    owner.channel().queue_declare(queue, exclusive=True)
    with closed_with(channel := other.channel(), 405):
        channel.queue_declare(queue, passive=True)
    owner.close()
    with closed_with(channel := other.channel(), 404):
        channel.queue_declare(queue, passive=True)
    other.close()


def test_an_auto_delete_queue_goes_with_its_last_consumer(connection: pika.BlockingConnection) -> None:
    queue, channel = name(), connection.channel()
    channel.queue_declare(queue, auto_delete=True)
    first = channel.basic_consume(queue, lambda *_: None)
    second = channel.basic_consume(queue, lambda *_: None)
    channel.basic_cancel(first)
    channel.queue_declare(queue, passive=True)
    channel.basic_cancel(second)
    with closed_with(channel, 404):
        channel.queue_declare(queue, passive=True)


def test_queues_are_purged_and_deleted_with_their_counts(channel: BlockingChannel) -> None:
    queue = name()
    channel.queue_declare(queue)
    for _ in range(5):
        channel.basic_publish("", queue, b"x")
    assert channel.queue_declare(queue, passive=True).method.message_count == 5
    assert channel.queue_purge(queue).method.message_count == 5
    channel.basic_publish("", queue, b"x")
    assert channel.queue_delete(queue).method.message_count == 1


# ---- errors ----


@pytest.fixture
def channels(connection: pika.BlockingConnection) -> Iterator[pika.BlockingConnection]:
    """Return a connection that stays open while errors close its channels."""
    yield connection
    connection.channel().queue_declare("", exclusive=True)


def test_channel_errors_have_their_codes_and_the_connection_goes_on(channels: pika.BlockingConnection) -> None:
    queue = name()
    channels.channel().queue_declare(queue, exclusive=True)
    with closed_with(channel := channels.channel(), 404):
        channel.basic_consume(name(), lambda *_: None)
    with closed_with(channel := channels.channel(), 404):
        channel.queue_bind(queue, name(), "x")
    with closed_with(channel := channels.channel(), 406):
        channel.queue_declare(queue, exclusive=True, auto_delete=True)
    with closed_with(channel := channels.channel(), 406):
        channel.exchange_declare("amq.topic", "direct", durable=True)
    with closed_with(channel := channels.channel(), 403):
        channel.exchange_declare("amq.mine", "direct")
    with closed_with(channel := channels.channel(), 406):
        channel.basic_ack(999)
        channel.basic_qos(prefetch_count=1)  # pika reports an error when it next waits
    with closed_with(channel := channels.channel(), 404):
        channel.basic_publish(name(), "x", b"x")
        channel.basic_qos(prefetch_count=1)


def test_direct_reply_to_is_not_promised_and_not_there(broker: RunningBroker) -> None:
    promised: list[dict[str, Any]] = []

    class Curious(pika.SelectConnection):  # type: ignore[misc] # pika has no types
        def _on_connection_start(self, frame: Any) -> None:
            promised.append(frame.method.server_properties["capabilities"])
            super()._on_connection_start(frame)

    connection = pika.BlockingConnection(broker.parameters(), _impl_class=Curious)
    assert "direct_reply_to" not in promised[0]
    with pytest.raises(ChannelClosedByBroker, match="no queue 'amq.rabbitmq.reply-to'"):
        connection.channel().basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    connection.close()


def test_an_unknown_kind_of_exchange_closes_the_connection(connection: pika.BlockingConnection) -> None:
    with pytest.raises((ConnectionClosedByBroker, ChannelClosedByBroker)) as error:
        connection.channel().exchange_declare(name(), "no-such-kind")
    assert error.value.reply_code in (503, 406)


def test_the_log_has_what_clients_did_wrong(start_broker: StartBroker) -> None:
    broker = start_broker()
    with broker.connect() as connection, closed_with(channel := connection.channel(), 404):
        channel.queue_declare("nowhere", passive=True)
    event = broker.wait_for_log("channel closed")
    assert (event["code"], event["level"]) == (404, "warning")
    assert "nowhere" in event["text"]
