"""One client cannot use up the files that the broker may have open: others come in, and the journal goes on."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest
from pamqp import commands

from tamis.broker.system import FILES_KEPT_FREE
from tests.faults.amqp import BrokerClosedError, BrokerGoneError, Client
from tests.faults.broker_process import BrokerProcess

LEFT = 120
"""Files for connections and streams."""
READERS = 500


def few_files() -> None:
    """Let this process, and what it starts, have few files open."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_KEPT_FREE + LEFT, FILES_KEPT_FREE + LEFT))


def declare_stream(client: Client, name: str) -> None:
    """Declare a stream with the smallest segments."""
    arguments = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 64 << 10}
    client.call(commands.Queue.Declare(queue=name, durable=True, arguments=arguments), "Queue.DeclareOk")


def keep_messages(port: int) -> None:
    """Come in, and have messages confirmed in more files of the journal than one."""
    client = Client(port)
    client.call(commands.Queue.Declare(queue="kept", durable=True), "Queue.DeclareOk")
    client.call(commands.Confirm.Select(), "Confirm.SelectOk")
    for _ in range(20):
        client.publish("", "kept", b"x" * (1 << 19), delivery_mode=2)
    confirmed = 0
    while confirmed < 20:
        for value in client.frames(10.0):
            confirmed = value.delivery_tag if value.name == "Basic.Ack" else confirmed
    client.close()


def fewest_open(pid: int) -> int:
    """Return how many files a process has open, without those that it closes within a second."""
    counts = []
    for _ in range(20):
        counts.append(len(list(Path(f"/proc/{pid}/fd").iterdir())))
        time.sleep(0.05)
    return min(counts)


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    return BrokerProcess(tmp_path / "data", "[journal]\nsegment_bytes = 4194304\n", preexec=few_files)


def test_a_client_with_more_streams_than_files_is_refused_and_the_broker_goes_on(broker: BrokerProcess) -> None:
    with broker:
        client, count = Client(broker.port), 0
        with pytest.raises(BrokerClosedError, match="506 RESOURCE_ERROR - there are .* streams already"):
            for count in range(LEFT):
                declare_stream(client, f"stream-{count}")
        assert count == LEFT // 4
        keep_messages(broker.port)
        broker.stop()
        broker.start()
        client = Client(broker.port)
        declare_stream(client, "stream-0")  # all are there again
        assert client.call(commands.Queue.Declare(queue="kept", passive=True), "Queue.DeclareOk").message_count == 20


def test_readers_far_apart_leave_files_for_others(broker: BrokerProcess) -> None:
    with broker:
        client = Client(broker.port)
        declare_stream(client, "log")
        client.call(commands.Confirm.Select(), "Confirm.SelectOk")
        for number in range(READERS + 1):
            client.publish("", "log", f"{number} ".encode() + b"x" * 30_000, delivery_mode=2)
        confirmed = 0
        while confirmed <= READERS:
            for value in client.frames(10.0):
                confirmed = value.delivery_tag if value.name == "Basic.Ack" else confirmed
        client.send(commands.Basic.Qos(prefetch_count=1))
        read: set[str] = set()
        for number in range(READERS):
            start = {"x-stream-offset": number + 1}
            client.send(commands.Basic.Consume(queue="log", consumer_tag=str(number), arguments=start, nowait=True))
            read |= {body.split()[0] for _, body in client.deliveries(0.01)}
        while len(read) < READERS:
            read |= {body.split()[0] for _, body in client.deliveries(10.0)}
        keep_messages(broker.port)
        assert "message lost" not in broker.said()


def test_control_a_broker_that_may_open_less_than_it_believes_is_caught(broker: BrokerProcess) -> None:
    with broker:
        are_open = fewest_open(broker.pid)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (are_open + 1, are_open + 1))
        with pytest.raises((BrokerGoneError, BrokerClosedError, TimeoutError)):
            keep_messages(broker.port)
