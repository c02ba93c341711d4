"""`tamis stream`, `tamis mailbox` and `tamis service` show what a running broker has."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

pytest.importorskip("aio_pika", reason="the client is not installed: pip install 'tamis[client]'")

from tamis.client import blocking
from tests.broker.conftest import RunningBroker
from tests.cli.conftest import Tamis


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = RunningBroker(tmp_path_factory.mktemp("broker"))
    yield running
    running.kill()


def test_what_is_sent_is_listed_and_read(tamis: Tamis, broker: RunningBroker) -> None:
    url, data = f"amqp://guest:guest@127.0.0.1:{broker.port}/", str(broker.data)
    assert tamis("mailbox", "list", "--data", data).returncode == 1
    for parts in (("one",), ("two", "", "parts")):
        sent = tamis("mailbox", "send", "bob", *parts, "--as", "ann", "--timeout", "20", TAMIS_AMQP_URL=url)
        assert sent.returncode == 0, sent.stderr
    headers = {"sender": "mallory", "body": "forged"}
    broker.connect(client_properties={"identity": "ann"}).channel().basic_publish(
        "mailbox", "bob", b"three", pika.BasicProperties(headers=headers)
    )
    rows = [json.loads(line) for line in tamis("mailbox", "list", "--data", data, "--json").stdout.splitlines()]
    assert [(row["name"], row["ready"]) for row in rows if row["name"] == "bob"] == [("bob", 3)]
    read = tamis("mailbox", "read", "bob", "--count", "3", TAMIS_AMQP_URL=url)
    one, two, three = [json.loads(line) for line in read.stdout.splitlines()]
    assert one == {"sender": "ann", "body": "one", "headers": {}}
    assert (two["body"], two["parts"]) == ("twoparts", ["two", "", "parts"])
    assert three == {"sender": "ann", "body": "three", "headers": headers}, (
        "no header takes the place of what is checked"
    )
    assert "bob" in tamis("mailbox", "list", "--data", data).stdout


def test_streams_and_services_are_listed(tamis: Tamis, broker: RunningBroker) -> None:
    channel, data = broker.connect().channel(), str(broker.data)
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("log", lambda *_: None, consumer_tag="r")
    channel.basic_publish("service", "resize", b"work")
    header = tamis("stream", "list", "--data", data).stdout.split()[:7]
    assert header == ["NAME", "VHOST", "MESSAGES", "BYTES", "READERS", "LAG", "LOG"]
    info = json.loads(tamis("stream", "info", "log", "--data", data, "--json").stdout)
    assert [(reader["tag"], reader["prefetch_count"]) for reader in info["readers"]] == [("r", 7)]
    assert [(reader["live"], reader["lag"]) for reader in info["readers"]] == [(True, 0)]
    assert "tag" not in tamis("stream", "info", "log", "--data", data).stdout.splitlines()[0]
    assert tamis("stream", "info", "none", "--data", data).returncode == 1
    assert "resize" in tamis("service", "list", "--data", data).stdout


def test_named_readers_are_shown_and_forgotten(tamis: Tamis, broker: RunningBroker) -> None:
    connection, data = broker.connect(), str(broker.data)
    channel = connection.channel()
    channel.queue_declare("trail", durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", "trail", body)
    channel.basic_qos(prefetch_count=1)
    arguments = {"x-stream-offset": "first", "x-stream-reader": "audit"}
    method, _, _ = next(channel.consume("trail", arguments=arguments))
    forgotten = tamis("stream", "forget", "trail", "audit", "--data", data)
    assert forgotten.returncode == 2
    assert "a consumer reads stream 'trail' as 'audit'" in forgotten.stderr
    channel.basic_ack(method.delivery_tag)
    connection.close()
    shown = tamis("stream", "info", "trail", "--data", data).stdout
    assert "NAMED READER" in shown
    info = json.loads(tamis("stream", "info", "trail", "--data", data, "--json").stdout)
    [named] = info["named_readers"]
    assert (named["name"], named["is_reading"], named["next"] + named["lag"]) == ("audit", False, 4)
    assert tamis("stream", "forget", "trail", "audit", "--data", data).returncode == 0
    assert tamis("stream", "forget", "trail", "audit", "--data", data).returncode == 1


def test_a_stream_is_listed_with_its_bytes_and_its_slowest_reader(tamis: Tamis, broker: RunningBroker) -> None:
    channel, data = broker.connect().channel(), str(broker.data)
    channel.queue_declare("ticks", durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    for _ in range(20):
        channel.basic_publish("", "ticks", bytes(100))
    for prefetch_count in (2, 5):
        reading = broker.connect().channel()
        reading.basic_qos(prefetch_count=prefetch_count)
        next(reading.consume("ticks", arguments={"x-stream-offset": "first"}))
    rows = [json.loads(line) for line in tamis("stream", "list", "--data", data, "--json").stdout.splitlines()]
    (row,) = (row for row in rows if row["name"] == "ticks")
    assert (row["ready"], row["consumers"]) == (20, 2)
    assert 15 <= row["lag"] <= 20
    assert 20 * 100 < row["ready_bytes"] < 20 * 300


def test_a_stream_is_followed_from_an_age(tamis: Tamis, broker: RunningBroker) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}/"
    channel = broker.connect().channel()
    channel.queue_declare("aged", durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    for body in (b"1", b"2"):
        channel.basic_publish("", "aged", body)
    tailed = tamis("stream", "tail", "aged", "--from", "1h", "--count", "2", TAMIS_AMQP_URL=url)
    assert tailed.returncode == 0, tailed.stderr
    assert [json.loads(line)["body"] for line in tailed.stdout.splitlines()] == ["1", "2"]


def test_a_service_answers_a_request(tamis: Tamis, broker: RunningBroker) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}/"

    def work() -> None:
        with blocking.connect(url) as worker:
            request = next(worker.service("upper").offer())
            worker.reply(request, [part.upper() for part in request.parts])

    worker = threading.Thread(target=work)
    worker.start()
    done = tamis("service", "request", "upper", "pic", "ture", "--timeout", "30", TAMIS_AMQP_URL=url)
    worker.join()
    assert (done.returncode, done.stdout) == (0, "PICTURE\n"), done.stderr
    late = tamis("service", "request", "nobody", "work", "--timeout", "0.2", TAMIS_AMQP_URL=url)
    assert late.returncode == 2
    assert "service 'nobody' has not replied in 0.2 s" in late.stderr


def test_without_a_broker_the_error_says_where_it_was_looked_for(tamis: Tamis, tmp_path: Path) -> None:
    done = tamis("stream", "list", "--data", str(tmp_path))
    assert done.returncode == 2
    assert "control.sock: no running broker answers there" in done.stderr
