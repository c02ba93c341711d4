"""What an adapter takes is also published to a broker, whose subscribers get it at once."""

from __future__ import annotations

import json
import mailbox
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pika
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import encode

import tamis
from tamis.client.doubles import teach
from tamis.config.pipeline import PipelineConfig
from tamis.errors import ConfigError
from tamis.spark.publishing import HEADERS_CHARACTERS_MAX, LEFT_OUT, headers_of
from tests.broker.conftest import RunningBroker, StartBroker
from tests.spark.conftest import Workshop, workshop  # noqa: F401 - a fixture

Got = list[tuple[str, pika.BasicProperties, bytes]]


def subscribe(broker: RunningBroker, **queues: dict[str, str]) -> None:
    with broker.connect() as connection:
        channel = connection.channel()
        for queue, arguments in queues.items():
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "amq.topic", "#", arguments=arguments)


def got(broker: RunningBroker, queue: str) -> Got:
    with broker.connect() as connection:
        channel, found = connection.channel(), []
        while (message := channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append((message[0].routing_key, message[1], message[2]))
        return found


def write_lines(path: Path, *messages: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(message) + "\n" for message in messages)


def lines(workshop: Workshop, broker: RunningBroker, more: str = "") -> Path:  # noqa: F811
    path = workshop.folder / "in.jsonl"
    path.touch()
    workshop.adapter("lines", "jsonl", path)
    workshop.toml += 'topic_field = "topic"\nbody_field = "body"\n'
    workshop.toml += f'publish = {{ url = "amqp://guest@127.0.0.1:{broker.port}/"{more} }}\n'
    return path


@pytest.mark.spark
def test_subscribers_get_the_messages_of_an_adapter(start_broker: StartBroker, workshop: Workshop) -> None:  # noqa: F811
    broker = start_broker()
    subscribe(
        broker,
        all={},
        dear={"x-query": "price > 10 AND region = 'EU'"},
        frost={"x-query": "CONTAINS(body, 'frost')", "x-query-body": "text"},
        late={"x-query": "at > TIMESTAMP '2026-01-01T00:00:00Z'"},
        exact={"x-query": "price = 0.1"},
    )
    path = lines(workshop, broker)
    first = {"topic": "orders.eu", "price": 12, "region": "EU", "body": "first frost", "more": {"deep": [1, "x"]}}
    second = {"topic": "orders.us", "price": 0.1, "at": "2026-11-23T12:00:00Z", "no": None}
    write_lines(path, first, second)
    with path.open("a") as file:
        file.write("no json\n")
    workshop.store.add_query(tamis.QuerySpec("cheap", "price < 10"))

    summary = workshop.run()

    assert (summary.read, summary.dead, summary.notifications, summary.failed) == (3, 1, 1, {})
    (key, properties, body), (other_key, other, _) = sorted(got(broker, "all"), key=lambda it: it[0])
    assert (key, body, properties.delivery_mode, properties.app_id) == ("orders.eu", b"first frost", 2, "tamis")
    assert properties.headers == {"topic": "orders.eu", "price": 12, "region": "EU", "more": {"deep": [1, "x"]}}
    assert other_key == "orders.us"
    assert properties.message_id != other.message_id
    assert [it[0] for it in got(broker, "dear")] == ["orders.eu"]
    assert [it[0] for it in got(broker, "frost")] == ["orders.eu"]
    assert [it[0] for it in got(broker, "late")] == ["orders.us"]
    assert [it[0] for it in got(broker, "exact")] == ["orders.us"]
    assert workshop.run().read == 0
    assert got(broker, "all") == []


@pytest.mark.spark
def test_mails_are_published_with_their_properties(start_broker: StartBroker, workshop: Workshop) -> None:  # noqa: F811
    broker = start_broker()
    subscribe(broker, all={}, ann={"x-query": "author LIKE 'Ann%' AND subject = 'frost'"})
    path = workshop.folder / "mail.mbox"
    box = mailbox.mbox(path)
    for author in ("Ann <ann@example.org>", "Ben <ben@example.org>"):
        mail = EmailMessage()
        mail["From"], mail["Subject"], mail["Date"] = author, "frost", "Mon, 23 Nov 2026 12:00:00 +0000"
        mail.set_content("the garlic")
        box.add(mail)
    box.close()
    workshop.adapter("inbox", "mbox", path)
    workshop.toml += f'publish = {{ url = "amqp://guest@127.0.0.1:{broker.port}/", exchange = "amq.topic" }}\n'
    workshop.run()
    ((_, properties, body),) = got(broker, "ann")
    assert (body.strip(), properties.headers["subject"]) == (b"the garlic", "frost")
    assert len(got(broker, "all")) == 2


@pytest.mark.spark
def test_a_broker_that_is_down_stops_its_adapter_only_and_nothing_is_lost(
    start_broker: StartBroker,
    workshop: Workshop,  # noqa: F811
) -> None:
    broker = start_broker()
    subscribe(broker, all={})
    path = lines(workshop, broker)
    other = workshop.folder / "other.jsonl"
    workshop.adapter("other", "jsonl", other)
    workshop.store.add_query(tamis.QuerySpec("all", "n >= 0"))
    write_lines(path, {"n": 1})
    write_lines(other, {"n": 2})
    broker.stop()
    summary = workshop.run()
    assert list(summary.failed) == ["lines"]
    assert f"publish: 127.0.0.1:{broker.port}: " in summary.failed["lines"]
    assert summary.notifications == 1
    broker.start()
    summary = workshop.run()
    assert (summary.failed, summary.notifications) == ({}, 1)
    assert [it[1].headers for it in got(broker, "all")] == [{"n": 1}]


@pytest.mark.spark
def test_a_batch_that_is_read_again_is_published_again_with_the_same_ids(
    start_broker: StartBroker,
    workshop: Workshop,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = start_broker()
    subscribe(broker, all={})
    write_lines(lines(workshop, broker), {"n": 1}, {"n": 2})
    workshop.store.add_query(tamis.QuerySpec("all", "n >= 0"))
    with monkeypatch.context() as patch:
        patch.setattr(type(workshop.store), "commit_batch", lambda *_, **__: (_ for _ in ()).throw(OSError("crash")))
        with pytest.raises(tamis.TamisError):
            workshop.run()
    assert workshop.run().notifications == 2
    ids = [it[1].message_id for it in got(broker, "all")]
    assert (len(ids), len(set(ids))) == (4, 2)


@pytest.mark.spark
def test_what_cannot_be_published_is_told_and_stops_nothing(
    start_broker: StartBroker,
    workshop: Workshop,  # noqa: F811
) -> None:
    broker = start_broker()
    subscribe(broker, all={})
    write_lines(lines(workshop, broker), {"topic": "x" * 300, "n": 1}, {"n": 2, "text": "y" * 200_000})
    workshop.store.add_query(tamis.QuerySpec("all", "n >= 0"))
    assert workshop.run().notifications == 2
    ((_, properties, _),) = got(broker, "all")
    assert properties.headers == {"n": 2, LEFT_OUT: ["text"]}
    (error,) = workshop.store.adapter_errors("lines")
    assert error.error == (
        "1 of 2 messages were not published: its topic has more than 255 bytes, which no routing key has"
    )


@pytest.mark.spark
def test_an_exchange_that_is_not_there_is_told(start_broker: StartBroker, workshop: Workshop) -> None:  # noqa: F811
    broker = start_broker()
    write_lines(lines(workshop, broker, ', exchange = "nowhere"'), {"n": 1})
    assert "nowhere" in workshop.run().failed["lines"]


PLAIN = st.one_of(
    *(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=9)),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=300), inner, max_size=3),
)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=300), VALUES, max_size=5))
def test_headers_are_what_amqp_can_hold(properties: dict[str, Any]) -> None:
    teach()
    headers = headers_of(properties)
    encode.field_table({name: value for name, value in headers.items() if name.isascii()})
    assert headers.keys() - {LEFT_OUT} <= properties.keys()
    assert len(json.dumps(headers)) < HEADERS_CHARACTERS_MAX + 6_000


@pytest.mark.parametrize(
    ("publish", "expected"),
    [
        ("{}", "needs 'url'"),
        ('{ url = "http://x" }', "expected an address such as amqp://"),
        ('{ url = "amqp://a:b@x/" }', "the password must not be in the file"),
        ('{ url = "amqp://x/", exchange = "" }', "exchange: expected some text"),
    ],
)
def test_a_mistake_is_told(tmp_path: Path, publish: str, expected: str) -> None:
    adapter = '[[adapter]]\nname = "a"\ntype = "jsonl"\npath = "x"\n'
    (tmp_path / "pipeline.toml").write_text(f"{adapter}publish = {publish}\n")
    with pytest.raises(ConfigError, match=expected):
        PipelineConfig.load(tmp_path / "pipeline.toml")
