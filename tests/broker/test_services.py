"""Services with plain pika: one request at a time, workers that die or hang, replies to a requester that has left."""

from __future__ import annotations

import socket
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from tests.broker.conftest import RunningBroker, StartBroker
from tests.broker.test_mailboxes import client, received


class Worker:
    """A worker of a service, with the requests that it has."""

    def __init__(self, broker: RunningBroker, service: str, **options: Any) -> None:
        self.connection = broker.connect()
        self.channel = self.connection.channel()
        self.requests: list[tuple[Any, Any, bytes]] = []
        self.channel.basic_consume(
            f"amq.service.{service}", lambda _, *request: self.requests.append(request), **options
        )

    def wait(self, count: int) -> list[bytes]:
        """Wait until it has `count` requests; return all."""
        for _ in range(200):
            if len(self.requests) >= count:
                break
            self.connection.process_data_events(0.1)
        assert len(self.requests) >= count
        return [body for _, _, body in self.requests]

    def done(self, reply: bytes = b"") -> None:
        """Reply to the oldest request, and say that it is done."""
        delivery, properties, _ = self.requests.pop(0)
        if reply:
            self.channel.basic_publish("", properties.reply_to, reply)
        self.channel.basic_ack(delivery.delivery_tag)


def test_requests_are_kept_until_a_worker_comes_and_go_one_at_a_time(broker: RunningBroker) -> None:
    requester = client(broker, "s1.requester")
    requester.confirm_delivery()
    for number in range(3):
        requester.basic_publish("service", "s1", str(number).encode())
    first, second = Worker(broker, "s1"), Worker(broker, "s1")
    assert (first.wait(1), second.wait(1)) == ([b"0"], [b"1"])
    second.done()
    assert second.wait(1) == [b"2"], "an expensive request holds nobody else up"
    assert first.wait(1) == [b"0"]


def test_several_replies_reach_a_requester_that_has_left_and_come_back(broker: RunningBroker) -> None:
    requester = client(broker, "s2.requester")
    requester.basic_publish("service", "s2", b"work")
    requester.connection.close()
    worker = Worker(broker, "s2")
    worker.wait(1)
    _, properties, _ = worker.requests[0]
    assert properties.headers["x-sender"] == "s2.requester"
    worker.channel.basic_publish("", properties.reply_to, b"half")
    worker.done(b"all")
    worker.connection.close()
    replies = received(client(broker, "s2.requester"), "amq.mailbox.s2.requester", 2)
    assert [body for _, _, body in replies] == [b"half", b"all"]


def test_a_dead_workers_request_is_with_the_next_one_and_says_so(broker: RunningBroker) -> None:
    client(broker, "s3.requester").basic_publish("service", "s3", b"work")
    first = Worker(broker, "s3")
    first.wait(1)
    second = Worker(broker, "s3")
    first.connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)  # as when its process is killed
    assert second.wait(1) == [b"work"]
    assert second.requests[0][0].redelivered


def test_a_hung_workers_request_goes_to_another_after_its_time(start_broker: StartBroker) -> None:
    broker = start_broker(config="[services]\nworker_s = 1\n")
    client(broker, "requester").basic_publish("service", "resize", b"work")
    hung = Worker(broker, "resize")
    hung.wait(1)
    second = Worker(broker, "resize")
    assert second.wait(1) == [b"work"]
    assert second.requests[0][0].redelivered
    second.done()
    hung.connection.process_data_events(1)
    assert hung.channel.is_closed
    assert "timed out. Timeout value used: 1000 ms" in broker.wait_for_log("channel closed")["text"]
    assert broker.ask("metrics")["consumer_timeouts"] == 1


def test_a_worker_that_does_not_acknowledge_is_refused(broker: RunningBroker) -> None:
    with pytest.raises(ChannelClosedByBroker, match="a service has no consumers without acknowledgement"):
        Worker(broker, "s5", auto_ack=True).wait(1)


def test_a_worker_may_ask_for_several_requests(broker: RunningBroker) -> None:
    requester = client(broker, "s6.requester")
    for number in range(5):
        requester.basic_publish("service", "s6", str(number).encode())
    channel = broker.connect().channel()
    channel.basic_qos(prefetch_count=3)
    requests: list[bytes] = []
    channel.basic_consume("amq.service.s6", lambda *delivery: requests.append(delivery[3]))
    for _ in range(100):
        if len(requests) >= 3:
            break
        channel.connection.process_data_events(0.1)
    channel.connection.process_data_events(0.3)
    assert requests == [b"0", b"1", b"2"]


def test_requests_survive_a_crash(start_broker: StartBroker) -> None:
    broker = start_broker()
    requester = client(broker, "requester")
    requester.confirm_delivery()
    requester.basic_publish("service", "resize", b"work", pika.BasicProperties(delivery_mode=1))
    broker.kill()
    broker.start()
    worker = Worker(broker, "resize")
    assert worker.wait(1) == [b"work"]
    worker.done(b"done")
    ((_, _, body),) = received(client(broker, "requester"), "amq.mailbox.requester")
    assert body == b"done"
