"""Bindings that name a query of the store use its current text."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

import tamis
from tamis import QuerySpec
from tamis._core import Broker, StoredHierarchies
from tamis.store import Store
from tests.broker.conftest import RunningBroker, StartBroker

PATIENCE_S = 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "tamis.sqlite") as store:
        yield store


@pytest.fixture
def broker(tmp_path: Path, start_broker: StartBroker) -> RunningBroker:
    (tmp_path / "tamis.toml").write_text('store = "tamis.sqlite"\n', encoding="utf-8")
    return start_broker("--config", str(tmp_path / "tamis.toml"))


@pytest.fixture
def channel(broker: RunningBroker) -> Iterator[BlockingChannel]:
    with broker.connect() as connection:
        yield connection.channel()


def arrives(channel: BlockingChannel, queue: str, price: int) -> bool:
    """Return whether a message with this price is routed to the queue."""
    properties = pika.BasicProperties(headers={"price": price})
    channel.basic_publish("amq.topic", "orders.new", b"", properties)
    return channel.basic_get(queue, auto_ack=True)[0] is not None


def wait_until_arrives(channel: BlockingChannel, queue: str, price: int, wanted: bool = True) -> None:
    """Wait until a message with this price is routed to the queue, or no longer is."""
    until = time.monotonic() + PATIENCE_S
    while arrives(channel, queue, price) != wanted:
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_binding_asks_what_the_query_says_and_changes_with_it(
    store: Store, broker: RunningBroker, channel: BlockingChannel
) -> None:
    store.add_queries([QuerySpec("expensive", "price > 100"), QuerySpec("other", "price > 7")])
    for queue, key in (("q", "expensive"), ("other", "other")):
        channel.queue_declare(queue, exclusive=True)
        channel.queue_bind(queue, "amq.topic", "orders.#", arguments={"x-query-key": key})
    assert not arrives(channel, "q", 100)
    assert arrives(channel, "q", 101)

    store.add_query(QuerySpec("expensive", "price = 5", "boolean"))
    wait_until_arrives(channel, "q", 5)
    assert not arrives(channel, "q", 101)
    assert arrives(channel, "other", 8)

    # Existing bindings keep a removed query; new ones cannot use it.
    store.remove_query("expensive")
    store.add_query(QuerySpec("other", "price = 9"))
    wait_until_arrives(channel, "other", 9)
    assert arrives(channel, "q", 5)
    with pytest.raises(ChannelClosedByBroker, match="x-query-key 'expensive': the store has no query 'expensive'"):
        channel.queue_bind("q", "amq.topic", "other", arguments={"x-query-key": "expensive"})


def test_a_binding_is_silent_while_its_query_is_paused_and_once_it_has_expired(
    store: Store, broker: RunningBroker, channel: BlockingChannel
) -> None:
    store.add_queries([QuerySpec("paused", "price > 5"), QuerySpec("brief", "price > 5")])
    for key in ("paused", "brief"):
        channel.queue_declare(key, exclusive=True)
        channel.queue_bind(key, "amq.topic", "orders.#", arguments={"x-query-key": key})
        assert arrives(channel, key, 6)
    store.pause_query("paused")
    wait_until_arrives(channel, "paused", 6, False)
    store.resume_query("paused")
    wait_until_arrives(channel, "paused", 6)
    store.expire_query("brief", datetime.now(UTC) + timedelta(seconds=1))
    wait_until_arrives(channel, "brief", 6, False)


def test_what_cannot_be_bound_is_logged_and_changes_nothing(
    store: Store, broker: RunningBroker, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add_query(QuerySpec("expensive", "price > 100"))
    channel.queue_declare("q", exclusive=True)
    channel.queue_bind("q", "amq.topic", "orders.#", arguments={"x-query-key": "expensive"})
    # The store knows a language of a version that comes after the broker's.
    monkeypatch.setattr("tamis.query.spec.compile_query", lambda text, language: tamis.selector(text))
    store.add_query(QuerySpec("expensive", "price > 5", "later"))
    refused = broker.wait_for_log("stored query not bound", PATIENCE_S)
    assert (refused["key"], "x-query-language 'later'" in refused["reason"]) == ("expensive", True)
    assert arrives(channel, "q", 101)
    assert not arrives(channel, "q", 50)


def test_a_query_of_the_store_may_be_in_any_language(
    store: Store, broker: RunningBroker, channel: BlockingChannel
) -> None:
    store.add_queries([QuerySpec("new", "*.new", "topic"), QuerySpec("full", "disk full 3", "near")])
    for key in ("new", "full"):
        channel.queue_declare(key, exclusive=True)
        channel.queue_bind(key, "amq.topic", "#", arguments={"x-query-key": key, "x-query-body": "text"})
    for topic, body in (("orders.new", "the disk"), ("orders.old", "the disk is full")):
        channel.basic_publish("amq.topic", topic, body.encode())
    assert channel.basic_get("new", auto_ack=True)[2] == b"the disk"
    assert channel.basic_get("full", auto_ack=True)[2] == b"the disk is full"


GROUPS = {"Options": None, "American": "Options", "European": "Options", "Bonds": None}


def goes_to(channel: BlockingChannel, queue: str, headers: dict[str, str], body: bytes = b"") -> bool:
    channel.basic_publish("amq.topic", "trades", body, pika.BasicProperties(headers=headers))
    return channel.basic_get(queue, auto_ack=True)[0] is not None


def test_under_follows_the_hierarchy_of_the_store_from_the_next_message_on(
    store: Store, broker: RunningBroker, channel: BlockingChannel
) -> None:
    under = {"x-query": "grp UNDER 'Options'"}
    channel.queue_declare("q", exclusive=True)
    with pytest.raises(ChannelClosedByBroker, match=r"no hierarchy for 'grp'.*tamis hierarchy set grp FILE"):
        channel.queue_bind("q", "amq.topic", "trades", arguments=under)

    store.set_hierarchy("grp", GROUPS)
    store.set_hierarchy("body.grp", GROUPS)
    broker.wait_for_log("hierarchies changed", PATIENCE_S)
    with broker.connect() as connection:
        channel = connection.channel()
        for queue, arguments in (
            ("headers", under),
            ("json", {"x-query": "body.grp UNDER 'Options'", "x-query-body": "json"}),
        ):
            channel.queue_declare(queue, exclusive=True)
            channel.queue_bind(queue, "amq.topic", "trades", arguments=arguments)
        assert goes_to(channel, "headers", {"grp": "American"})
        assert not goes_to(channel, "headers", {"grp": "Bonds"})
        assert goes_to(channel, "json", {}, b'{"grp": "European"}')
        assert not goes_to(channel, "json", {}, b'{"grp": "Bonds"}')

        store.set_hierarchy("grp", GROUPS | {"Bonds": "Options"})
        until = time.monotonic() + PATIENCE_S
        while not goes_to(channel, "headers", {"grp": "Bonds"}):
            assert time.monotonic() < until
            time.sleep(0.1)


def test_a_hierarchy_that_cannot_be_read_is_in_the_log_and_the_one_before_stays(
    store: Store, broker: RunningBroker, channel: BlockingChannel, tmp_path: Path
) -> None:
    store.set_hierarchy("grp", GROUPS)
    broker.wait_for_log("hierarchies changed", PATIENCE_S)
    channel.queue_declare("q", exclusive=True)
    channel.queue_bind("q", "amq.topic", "trades", arguments={"x-query": "grp UNDER 'Options'"})
    with closing(sqlite3.connect(tmp_path / "tamis.sqlite")) as damaged, damaged:
        damaged.execute("UPDATE hierarchy_versions SET parents = '{\"American\": 5}', version = version + 1")
    broker.wait_for_log("store not read", PATIENCE_S)
    assert goes_to(channel, "q", {"grp": "American"})


def test_trees_are_read_once_and_swapped_against_those_before() -> None:
    trees = StoredHierarchies({"b": '{"x": null}', "a": '{"y": "x", "x": null}'})
    assert trees.attributes() == ["a", "b"]
    limits = {"frame_max": 4_096, "channel_max": 1, "message_bytes_max": 1, "memory_bytes_max": 1 << 20}
    plane = Broker(object(), **limits, seed=1, now_us=0, wall_us=0)
    plane.set_hierarchies(trees, 0)
    assert trees.attributes() == [], "there was none before"
    other = StoredHierarchies({"c": "{}"})
    plane.set_hierarchies(other, 0)
    assert other.attributes() == ["a", "b"]
    other.clear()
    assert other.attributes() == []
    with pytest.raises(ValueError, match="a cycle through 'x'"):
        StoredHierarchies({"a": '{"x": "x"}'})


def test_a_binding_that_sees_no_body_cannot_ask_for_it(
    store: Store, broker: RunningBroker, channel: BlockingChannel
) -> None:
    store.add_query(QuerySpec("mail", "frost", "text"))
    channel.queue_declare("q", exclusive=True)
    with pytest.raises(ChannelClosedByBroker, match="the query reads the body: expected x-query-body text or json"):
        channel.queue_bind("q", "amq.topic", "#", arguments={"x-query-key": "mail"})


@pytest.mark.parametrize(
    ("language", "text", "matching", "other"),
    [
        ("topic", "trades.*", "trades.new", "trades"),
        ("topic:openamq", "trades.*", "trades", "orders"),
        ("prefix", "trades.", "trades.new", "trade"),
        ("regex", "topic: ^tr.des$", "trades", "trades.new"),
        ("fields", "price=5, urgent", "", ""),
        ("near", "disk full 3", "", ""),
    ],
)
def test_a_binding_takes_every_language(
    broker: RunningBroker, language: str, text: str, matching: str, other: str
) -> None:
    with broker.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("q", exclusive=True)
        arguments = {"x-query": text, "x-query-language": language, "x-query-body": "text"}
        channel.queue_bind("q", "amq.fanout", "", arguments=arguments)
        properties = pika.BasicProperties(headers={"price": 5, "urgent": "yes"})
        channel.basic_publish("amq.fanout", matching, b"the disk is full", properties)
        assert channel.basic_get("q", auto_ack=True)[0] is not None
        channel.basic_publish("amq.fanout", other, b"the disk", pika.BasicProperties(headers={"price": 5}))
        assert channel.basic_get("q", auto_ack=True)[0] is None


def test_what_can_hardly_be_meant_in_a_binding_is_logged(start_broker: StartBroker) -> None:
    broker = start_broker()
    with broker.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("q", exclusive=True)
        channel.queue_bind("q", "amq.topic", "#", arguments={"x-query": "price > '100'"})
        told = broker.wait_for_log("accepted with a warning")
    assert told["subject"] == "binding of queue 'q' to exchange 'amq.topic'"
    assert told["reason"].startswith("position 8: '100' in quotes is a text")


FIGURE_5 = {
    "From": "Someone (Someone@yahoo.com)",
    "Date": "2002-12-28 21:04:22 PST",
    "Subject": "I have a question...",
    "Body": "I covered my daffodils, garlic, and rhubarb\nlast night ... till the nights get warmer?",
}
"""The message that the PNNL paper prints, with its fields as headers."""


def test_the_headers_of_figure_5_are_matched_by_the_selectors_printed_with_them(channel: BlockingChannel) -> None:
    texts = [
        'From = "Someone (Someone@yahoo.com)"',
        'Subject LIKE "%question%"',
        "Body LIKE %garlic%",
        "Body LIKE %warmer%",
        "Body LIKE %colder%",
    ]
    for text in texts:
        channel.queue_declare(text, exclusive=True)
        channel.queue_bind(text, "amq.topic", "#", arguments={"x-query": text, "x-query-language": "cbm"})
    for headers in (FIGURE_5, {**FIGURE_5, "Body": "x", "From": "y", "Subject": ""}):
        channel.basic_publish("amq.topic", "mail", b"garlic, warmer", pika.BasicProperties(headers=headers))
    counts = [channel.queue_declare(text, passive=True).method.message_count for text in texts]
    assert counts == [1, 1, 1, 1, 0]


def test_with_a_body_mode_the_body_of_cbm_is_that_of_the_message(channel: BlockingChannel) -> None:
    channel.queue_declare("q", exclusive=True)
    arguments = {"x-query": "Body LIKE %garlic%", "x-query-language": "cbm", "x-query-body": "text"}
    channel.queue_bind("q", "amq.topic", "#", arguments=arguments)
    for body in (b"garlic", b"frost"):
        channel.basic_publish("amq.topic", "mail", body, pika.BasicProperties(headers=FIGURE_5))
    assert channel.queue_declare("q", passive=True).method.message_count == 1
