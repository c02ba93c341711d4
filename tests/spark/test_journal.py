"""Spark reads a stream of the broker as a table, as a stream, and as an adapter of a pipeline."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pytest

import tamis
from tamis.adapters import register
from tamis.config.pipeline_check import check
from tamis.store import Store
from tests.spark import mail
from tests.spark.conftest import Workshop
from tests.stream_log import TIME_US, StreamLog, message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = {
    "expensive": "price > 100",
    "late": "timestamp >= TIMESTAMP '2020-09-13T12:26:50Z'",
    "sku": "body.sku = 'b'",
    "frost": "CONTAINS(body, 'frost')",
    "eu": "TOPIC('orders.eu.#') AND app_id = 'shop'",
}
Place = tuple[str, int]


def publication(number: int) -> tuple[str, dict[str, Any], bytes]:
    """Return the routing key, properties for pika, and body of message `number`."""
    region = ("eu", "us")[number % 2]
    text = ("garlic", "frost tonight")[number % 3 == 0]
    body = json.dumps({"sku": "abc"[number % 3], "text": text}).encode()
    properties = {
        "headers": {"price": 95 + number, "nested": {"n": number}},
        "timestamp": 1_600_000_000 + number,
        "app_id": "shop" if number % 4 else "till",
    }
    return f"orders.{region}.{number}", properties, body


def append(log: StreamLog, numbers: range) -> None:
    for number in numbers:
        topic, properties, body = publication(number)
        assert log.append(message(topic, body, pika.BasicProperties(**properties))) == number
    log.sync()


def brute_force(numbers: range) -> set[Place]:
    """Return which queries match which messages, by evaluating every query on every message."""
    wanted = set()
    for number in numbers:
        topic, properties, body = publication(number)
        seen = properties.pop("headers") | properties | {"body": json.loads(body)}
        seen["timestamp"] = datetime.fromtimestamp(seen["timestamp"], UTC)
        for key, text in QUERIES.items():
            if tamis.selector(text).evaluate(seen, topic=topic, body=body):
                wanted.add((key, number))
    return wanted


def outbox(store: Store) -> list[Place]:
    return sorted((match[0], match[4]) for match in mail.outbox(store))


def test_a_stream_is_a_table_with_typed_properties(spark: SparkSession, tmp_path: Path) -> None:
    log = StreamLog(tmp_path / "stream")
    append(log, range(1, 6))
    log.append(b"\x09broken")
    log.sync()
    register(spark)
    frame = spark.read.format("tamis.journal").option("startingOffset", 2).load(str(log.folder))
    typed = frame.selectExpr(
        "offset",
        "topic",
        "exchange",
        "time",
        "try_variant_get(properties, '$.price', 'int') as price",
        "try_variant_get(properties, '$.nested.n', 'int') as n",
        "unix_seconds(try_variant_get(properties, '$.timestamp', 'timestamp')) as timestamp",
        "error",
    )
    *rows, dead = typed.orderBy("offset").collect()
    assert [tuple(row)[:3] + tuple(row)[4:] for row in rows] == [
        (number, publication(number)[0], "", 95 + number, number, 1_600_000_000 + number, None)
        for number in range(2, 6)
    ]
    assert rows[0].time.timestamp() == (TIME_US + 2) / 1_000_000
    assert (dead.offset, dead.price, dead.error) == (6, None, "a name ends too early")
    matched = frame.where("error is null").transform(
        tamis.spark.match([tamis.QuerySpec("late", "timestamp = TIMESTAMP '2020-09-13T12:26:45Z' AND price = 100")])
    )
    assert [row.offset for row in matched.where("size(matched) = 1").collect()] == [5]


def test_a_stream_in_a_pipeline_gives_the_outbox_of_brute_force_and_never_twice(workshop: Workshop) -> None:
    log = StreamLog(workshop.folder / "stream")
    append(log, range(1, 31))
    workshop.store.add_queries(tamis.QuerySpec(key, text) for key, text in QUERIES.items())
    workshop.adapter("orders", "journal", log.folder, max_messages=7)
    workshop.toml += 'query_body = "json"\n'
    assert check(workshop.config) == []

    summary = workshop.run()
    assert (summary.read, summary.dead, summary.failed) == (30, 0, {})
    assert outbox(workshop.store) == sorted(brute_force(range(1, 31)))
    assert {key for key, _ in outbox(workshop.store)} == set(QUERIES)

    # A segment is removed before it is read, which is reported.
    append(log, range(31, 41))
    removed = log.segment
    log.roll()
    append(log, range(41, 61))
    removed.unlink()
    summary = workshop.run()
    assert (summary.read, summary.dead, summary.failed) == (21, 1, {})
    assert outbox(workshop.store) == sorted(brute_force(range(1, 31)) | brute_force(range(41, 61)))
    (letter,) = workshop.store.dead_letters(limit=None)
    assert (letter.source, letter.partition, letter.offset) == ("orders", str(log.folder), 31)
    assert letter.reason == "10 messages, 31 to 40, were removed by the stream's retention before they were read"

    summary = workshop.run()
    assert (summary.read, summary.notifications) == (0, 0)


def test_a_pipeline_that_begins_at_the_next_message_waits_for_it(workshop: Workshop) -> None:
    log = StreamLog(workshop.folder / "stream")
    append(log, range(1, 11))
    workshop.store.add_query(tamis.QuerySpec("all", "EXISTS(price)"))
    workshop.adapter("orders", "journal", log.folder)
    workshop.toml += 'starting_offset = "next"\n'
    assert workshop.run().read == 0
    append(log, range(11, 14))
    assert workshop.run().read == 3
    assert outbox(workshop.store) == [("all", 11), ("all", 12), ("all", 13)]
