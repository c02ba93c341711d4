"""`tamis stream`, `tamis mailbox` and `tamis service` show what a running broker has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("aio_pika", reason="the client is not installed: pip install 'tamis[client]'")

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
    for body in ("one", "two"):
        sent = tamis("mailbox", "send", "bob", body, "--as", "ann", TAMIS_AMQP_URL=url)
        assert sent.returncode == 0, sent.stderr
    rows = [json.loads(line) for line in tamis("mailbox", "list", "--data", data, "--json").stdout.splitlines()]
    assert [(row["name"], row["ready"]) for row in rows if row["name"] == "bob"] == [("bob", 2)]
    read = tamis("mailbox", "read", "bob", "--count", "2", TAMIS_AMQP_URL=url)
    assert [json.loads(line)["body"] for line in read.stdout.splitlines()] == ["one", "two"]
    assert json.loads(read.stdout.splitlines()[0])["sender"] == "ann"
    assert "bob" in tamis("mailbox", "list", "--data", data).stdout


def test_streams_and_services_are_listed(tamis: Tamis, broker: RunningBroker) -> None:
    channel, data = broker.connect().channel(), str(broker.data)
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("log", lambda *_: None, consumer_tag="r")
    channel.basic_publish("service", "resize", b"work")
    assert tamis("stream", "list", "--data", data).stdout.split()[:5] == ["NAME", "VHOST", "MESSAGES", "READERS", "LOG"]
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


def test_without_a_broker_the_error_says_where_it_was_looked_for(tamis: Tamis, tmp_path: Path) -> None:
    done = tamis("stream", "list", "--data", str(tmp_path))
    assert done.returncode == 2
    assert "control.sock: no running broker answers there" in done.stderr
