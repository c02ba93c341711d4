"""HTTP shows a running broker."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the server is not installed: pip install 'tamis[server]'")
pytest.importorskip("pika", reason="the client is not installed: pip install 'tamis[client]'")

import aio_pika
import pika
from prometheus_client.parser import text_string_to_metric_families

from tamis.web import metrics
from tamis.web.broker_link import FRESH_S
from tests.broker.conftest import RunningBroker


class Http:
    """An HTTP client with the administrator's password."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker
        addresses = broker.wait_for_log("ready")["addresses"]
        self.url = next(address for address in addresses if address.startswith("http:"))
        self._password = (broker.data / "admin-password").read_text().strip()

    def get(self, path: str, user: str = "admin", password: str | None = None) -> tuple[int, bytes]:
        credentials = f"{user}:{self._password if password is None else password}".encode()
        request = urllib.request.Request(self.url + path)
        request.add_header("Authorization", "Basic " + base64.b64encode(credentials).decode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def rows(self, path: str) -> Any:
        status, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    def numbers(self) -> dict[str, float]:
        _, body = self.get("/metrics")
        families = text_string_to_metric_families(body.decode())
        return {sample.name: sample.value for family in families for sample in family.samples}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    running = RunningBroker(tmp_path_factory.mktemp("broker"), config="http_port = 0\n")
    yield Http(running)
    running.kill()


def test_every_number_of_the_broker_has_its_name_and_meaning(http: Http) -> None:
    overview = json.loads(http.get("/api/overview")[1])
    numbers = {
        name
        for part in ("about", "metrics")
        for name, value in overview[part].items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    assert numbers - {*metrics.COUNTERS, *metrics.GAUGES} - metrics.NOT_SHOWN == set()


def test_numbers_move_with_what_happens(http: Http) -> None:
    assert http.get("/health", "nobody") == (200, b'{"status":"ok"}')
    connection = http.broker.connect(client_properties={"connection_name": "<b>me</b>"})
    channel = connection.channel()
    channel.queue_declare("<i>q</i>")
    for number in range(5):
        channel.basic_publish("", "<i>q</i>", str(number).encode())
    channel.basic_get("<i>q</i>", auto_ack=True)
    [queue] = [row for row in http.rows("/api/queues")["rows"] if row["name"] == "<i>q</i>"]
    assert (queue["vhost"], queue["type"], queue["ready"], queue["published"]) == ("/", "classic", 4, 5)
    assert b"<i>" not in http.get("/api/queues")[1]
    [mine] = [row for row in http.rows("/api/connections")["rows"] if row["client_name"] == "<b>me</b>"]
    assert (mine["user"], mine["state"], mine["channels"]) == ("guest", "running", 1)
    assert 0 <= mine["open_s"] < 600
    time.sleep(FRESH_S)
    numbers = http.numbers()
    assert numbers["tamis_up"] == 1
    assert numbers["tamis_connections"] >= 1
    assert numbers["tamis_messages_published_total"] >= 5
    assert numbers["tamis_resident_memory_bytes"] > 2**20
    connection.close()


def test_the_journal_and_what_waits_have_numbers(http: Http) -> None:
    connection = http.broker.connect()
    channel = connection.channel()
    channel.queue_declare("kept", durable=True)
    channel.confirm_delivery()
    time.sleep(FRESH_S)  # older answers are not reused
    before = http.numbers()
    for _ in range(5):
        channel.basic_publish("", "kept", b"x" * 1000, pika.BasicProperties(delivery_mode=2))
    channel.basic_get("kept")
    time.sleep(FRESH_S)
    numbers = http.numbers()
    moved = {name: numbers[name] - before[name] for name in before}
    assert (moved["tamis_messages_ready"], moved["tamis_messages_unacknowledged"]) == (4, 1)
    assert moved["tamis_journal_records_total"] == 5
    assert moved["tamis_journal_written_bytes_total"] > 5_000 < moved["tamis_journal_live_bytes"]
    assert 1 <= moved["tamis_journal_commits_total"] <= 6
    assert 0 < moved["tamis_journal_sync_seconds_total"] < 60
    assert 0 < numbers["tamis_journal_sync_seconds_max"] <= numbers["tamis_journal_sync_seconds_total"]
    assert (numbers["tamis_journal_segments"], numbers["tamis_journal_waiting_bytes"]) == (1, 0)
    assert numbers["tamis_journal_size_bytes"] > 2**20
    channel.queue_delete("kept")
    connection.close()


def test_bindings_show_their_queries(http: Http) -> None:
    connection = http.broker.connect()
    channel = connection.channel()
    channel.queue_declare("bound")
    query = "price > 10 AND region IN ('<EU>', 'US')"
    channel.queue_bind("bound", "amq.topic", "a.#", {"x-query": query, "x-query-body": "json"})
    channel.queue_bind("bound", "amq.fanout")
    shown = {row["source"]: row for row in http.rows("/api/bindings")["rows"] if row["destination"] == "bound"}
    topic = shown["amq.topic"]
    assert (topic["routing_key"], topic["query"], topic["query_language"], topic["query_body"]) == (
        "a.#",
        query,
        "selector",
        "json",
    )
    assert shown["amq.fanout"]["query"] is None
    assert {row["name"] for row in http.rows("/api/exchanges")["rows"]} >= {"amq.topic", "amq.fanout", "amq.direct"}
    channel.queue_delete("bound")
    connection.close()


def test_pages_of_large_rows_are_shorter_and_nothing_is_left_out(http: Http) -> None:
    connection = http.broker.connect()
    channel = connection.channel()
    count = 200
    for number in range(count):
        channel.queue_declare(f"large-{number}", exclusive=True, arguments={"note": "\x01" * 120_000})
    path, sizes = "/api/queues?limit=500", []
    names: set[str] = set()
    while path:
        page = http.rows(path)
        sizes.append(len(page["rows"]))
        names |= {row["name"] for row in page["rows"]}
        path = page["next"]
    assert {f"large-{number}" for number in range(count)} <= names
    assert max(sizes) < 50
    [one] = http.rows("/api/queues?name=large-7")["rows"]
    assert len(one["arguments"]["note"]) == 120_000
    connection.close()


def test_numbers_that_json_lacks_are_shown_as_texts(http: Http) -> None:
    async def declare(channel: aio_pika.abc.AbstractChannel) -> bytes:
        arguments = {"a": [math.nan, {"b": -math.inf}], "c": 1.5}
        await channel.declare_queue("odd", exclusive=True, arguments=arguments)
        status, body = await asyncio.to_thread(http.get, "/api/queues?name=odd")
        assert status == 200
        return body

    async def run() -> bytes:
        port = http.broker.parameters().port
        async with await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/") as connection:
            return await declare(await connection.channel())

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    [row] = json.loads(asyncio.run(run()), parse_constant=refuse)["rows"]
    assert row["arguments"] == {"a": ["NaN", {"b": "-inf"}], "c": 1.5}


def test_the_number_of_rows_is_that_of_the_whole_list(http: Http) -> None:
    connection = http.broker.connect()
    channel = connection.channel()
    for number in range(5):
        channel.queue_declare(f"counted-{number}", exclusive=True)
        channel.queue_bind(f"counted-{number}", "amq.fanout")
        channel.basic_consume(f"counted-{number}", lambda *_: None)
        channel.exchange_declare(f"counted-{number}")
    channel.queue_delete("counted-0")
    channel.exchange_delete("counted-0")
    for name in ("queues", "exchanges", "bindings", "connections", "consumers"):
        page = http.rows(f"/api/{name}?limit=500")
        assert (len(page["rows"]), page["next"]) == (page["total_count"], None), name
    for number in range(1, 5):
        channel.exchange_delete(f"counted-{number}")
    connection.close()


def test_long_lists_come_page_by_page(http: Http) -> None:
    connection = http.broker.connect()
    channel = connection.channel()
    for number in range(250):
        channel.queue_declare(f"many-{number}", exclusive=True)
    page, names = "/api/queues?limit=100", []
    while page:
        answer = http.rows(page)
        assert len(answer["rows"]) <= 100
        names += [row["name"] for row in answer["rows"] if row["name"].startswith("many-")]
        page = answer["next"]
    assert sorted(names) == sorted(f"many-{number}" for number in range(250))
    connection.close()


def test_users_of_amqp_are_not_let_in_without_the_role(http: Http) -> None:
    assert http.get("/api/queues", "guest", "guest")[0] == 403
    assert http.get("/api/queues", "guest", "wrong")[0] == 401
    assert http.get("/metrics", "nobody", "")[0] == 401


def test_when_the_broker_has_gone_so_has_http(tmp_path_factory: pytest.TempPathFactory) -> None:
    broker = RunningBroker(tmp_path_factory.mktemp("broker"), config="http_port = 0\n")
    http = Http(broker)
    assert http.get("/health")[0] == 200
    assert broker.stop() == 0
    with pytest.raises(urllib.error.URLError):
        http.get("/health")
