"""Streams, mailboxes and services have lists over HTTP, with their readers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the server is not installed: pip install 'tamis[server]'")
pytest.importorskip("pika", reason="the client is not installed: pip install 'tamis[client]'")

from pika.adapters.blocking_connection import BlockingChannel

from tamis.web.kinds import READERS_MAX, with_readers
from tests.broker.conftest import RunningBroker
from tests.web.test_with_broker import Http

STREAM = {"x-queue-type": "stream"}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    running = RunningBroker(tmp_path_factory.mktemp("broker"), config="http_port = 0\n")
    yield Http(running)
    running.kill()


def reader(http: Http, prefetch_count: int, start: str, tag: str) -> BlockingChannel:
    channel = http.broker.connect().channel()
    channel.basic_qos(prefetch_count=prefetch_count)
    channel.basic_consume("ticks", lambda *_: None, consumer_tag=tag, arguments={"x-stream-offset": start})
    return channel


def test_a_stream_is_listed_with_its_readers(http: Http) -> None:
    channel = http.broker.connect().channel()
    for name in ("ticks", "empty"):
        channel.queue_declare(name, durable=True, arguments=STREAM)
    channel.confirm_delivery()
    for _ in range(20):
        channel.basic_publish("", "ticks", bytes(100))
    channels = [reader(http, 5, "first", "slow"), reader(http, 7, "next", "live")]
    answer = http.rows("/api/streams?name=ticks")
    (row,) = answer["rows"]
    assert (answer["total_count"], row["messages"], row["published"]) == (1, 20, 20)
    assert 2_000 < row["size_bytes"] < 6_000
    assert (row["readers_live"], row["readers_replaying"], row["lag_max"]) == (1, 1, 15)
    slow, live = row["readers"]
    assert {"tag": "slow", "state": "replaying", "credit": 0, "unacknowledged": 5, "lag": 15}.items() <= slow.items()
    assert {"tag": "live", "state": "live", "credit": 7, "unacknowledged": 0, "lag": 0}.items() <= live.items()
    (empty,) = http.rows("/api/streams?name=empty")["rows"]
    assert (empty["messages"], empty["readers"], empty["lag_max"]) == (0, [], 0)
    assert {row["tag"] for row in http.rows("/api/consumers?queue=ticks")["rows"]} == {"slow", "live"}
    assert http.rows("/api/streams?limit=1")["next"] == "/api/streams?offset=1&limit=1"
    assert all(channel.is_open for channel in channels)


def test_mailboxes_and_services_are_listed_by_their_addresses(http: Http) -> None:
    channel = http.broker.connect(client_properties={"identity": "ann"}).channel()
    channel.basic_publish("mailbox", "bob", b"hello")
    channel.basic_publish("service", "resize", b"picture")
    channel.basic_publish("service", "resize", b"picture")
    channel.basic_qos(prefetch_count=1)
    next(channel.consume("amq.service.resize"))
    mailboxes = {row["name"]: row for row in http.rows("/api/mailboxes")["rows"]}
    assert set(mailboxes) == {"ann", "bob"}
    assert (mailboxes["bob"]["waiting"], mailboxes["bob"]["readers"], mailboxes["ann"]["waiting"]) == (1, 0, 0)
    (resize,) = http.rows("/api/services?name=resize&vhost=/")["rows"]
    assert (resize["waiting"], resize["at_work"], resize["workers"]) == (1, 1, 1)
    status, body = http.get("/api/mailboxes?queue=bob")
    assert (status, "unknown parameter 'queue'" in json.loads(body)["error"]) == (400, True)


def test_a_stream_shows_the_readers_that_are_furthest_behind() -> None:
    count = READERS_MAX + 10
    consumer: dict[str, Any] = {"vhost": "/", "queue": "s", "connection": 1, "channel": 1, "tag": "", "live": False}
    consumers = [{**consumer, "prefetch_count": 0, "unacknowledged": 0, "lag": lag} for lag in range(count)]
    (row,) = with_readers([{"name": "s", "vhost": "/"}], [*consumers, {**consumer, "lag": None}])
    assert [reader["lag"] for reader in row["readers"]] == list(range(count - 1, 9, -1))
    assert (row["readers_replaying"], row["lag_max"], row["readers"][0]["credit"]) == (count, count - 1, None)
