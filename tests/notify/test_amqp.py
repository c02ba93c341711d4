"""The channel `amqp` against a real broker on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tamis.config.deliveries import AmqpDelivery
from tamis.config.pipeline import PipelineConfig
from tamis.errors import ConfigError
from tamis.notify.engine import DeliveryCounts, NotificationEngine
from tamis.query import QuerySpec
from tamis.store import Store
from tests.broker.conftest import RunningBroker
from tests.notify.conftest import Clock
from tests.store.rows import fill, message, result


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Return one broker for all tests here."""
    running = RunningBroker(tmp_path_factory.mktemp("broker"))
    yield running
    running.kill()


def engine_of(store: Store, clock: Clock, port: int, **settings: Any) -> NotificationEngine:
    """Return an engine with one delivery to a port of this machine."""
    told = {"name": "bus", "type": "amqp", "url": f"amqp://127.0.0.1:{port}/", "tries": 2, "back_off_s": [1.0]}
    return NotificationEngine(store, [AmqpDelivery.model_validate({**told, **settings})], clock)


def taken(broker: RunningBroker, queue: str) -> list[tuple[Any, dict[str, Any]]]:
    """Take every message of a queue."""
    with broker.connect() as connection:
        channel = connection.channel()
        empty = (None, None, None)
        return [
            (properties, json.loads(body))
            for _, properties, body in iter(lambda: channel.basic_get(queue, True), empty)
        ]


def test_every_notification_is_confirmed_and_says_what_it_is(store: Store, clock: Clock, broker: RunningBroker) -> None:
    fill(store, 250, deliveries=("bus",))
    with broker.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("frosts", durable=True)
        channel.queue_bind("frosts", "amq.topic", "found.frost")
    engine = engine_of(store, clock, broker.port, exchange="amq.topic", routing_key="found.{query}")
    assert engine.deliver_pending() == DeliveryCounts(delivered=250)
    found = taken(broker, "frosts")
    assert sorted(properties.message_id for properties, _ in found) == sorted(store.notification_ids())
    properties, body = found[0]
    assert body["id"] == properties.message_id
    assert body["query"] == properties.headers["query"] == "frost"
    assert (properties.delivery_mode, properties.type) == (2, "tamis.notification")


def test_a_mailbox_gets_what_its_owner_is_told(store: Store, clock: Clock, broker: RunningBroker) -> None:
    store.add_query(QuerySpec("frost", "subject LIKE '%'", owner="ann", deliveries=("bus",)))
    store.pin_batch("s", 0)
    store.commit_batch("s", 0, result([message(0)], ["frost"]))
    engine = engine_of(store, clock, broker.port, exchange="mailbox", routing_key="{owner}")
    assert engine.deliver_pending() == DeliveryCounts(delivered=1)
    with broker.connect(client_properties={"identity": "ann"}) as connection:
        assert json.loads(connection.channel().basic_get("amq.mailbox.ann")[2])["query"] == "frost"


def test_what_no_queue_takes_is_no_delivery(store: Store, clock: Clock, broker: RunningBroker) -> None:
    fill(store, 1, deliveries=("bus",))
    engine = engine_of(store, clock, broker.port, exchange="amq.topic", routing_key="nobody.{topic}")
    assert engine.deliver_pending() == DeliveryCounts(retried=1)
    reason = store.deliveries()[0].reason
    assert reason == "no queue takes it: exchange 'amq.topic', routing key 'nobody.mail.inbox'"
    clock.move(1)
    assert engine.deliver_pending() == DeliveryCounts(dead=1)


def test_a_broker_without_the_exchange_or_none_at_all_costs_no_try(
    store: Store, clock: Clock, broker: RunningBroker
) -> None:
    fill(store, 1, deliveries=("bus",))
    assert "nowhere" in engine_of(store, clock, broker.port, exchange="nowhere").deliver_pending().troubles["bus"]
    assert "bus" in engine_of(store, clock, 1).deliver_pending().troubles
    assert store.deliveries()[0].attempts == 0


def test_one_over_which_the_broker_closes_the_channel_holds_up_no_other(
    store: Store, clock: Clock, tmp_path: Path
) -> None:
    store.add_query(QuerySpec("frost", "subject LIKE '%'", deliveries=("bus",)))
    store.pin_batch("s", 0)
    about = [message(number, note="x" * 5_000 if number == 3 else "") for number in range(8)]
    store.commit_batch("s", 0, result(about, ["frost"]))
    broker = RunningBroker(tmp_path, config="[limits]\nmessage_bytes = 4096\n")
    try:
        with broker.connect() as connection:
            channel = connection.channel()
            channel.queue_declare("frosts", durable=True)
            channel.queue_bind("frosts", "amq.topic", "frost")
        engine = engine_of(store, clock, broker.port, exchange="amq.topic", routing_key="frost", tries=1)
        for _ in range(4):
            engine.deliver_pending()
            clock.move(2)
        (bad,) = (row for row in store.deliveries() if row.state != "delivered")
        assert (bad.state, bad.attempts) == ("dead", 1)
        assert "4096" in (bad.reason or ""), "what the broker said"
        names = {properties.message_id for properties, _ in taken(broker, "frosts")}
        assert names == set(store.notification_ids()) - {bad.notification_id}
    finally:
        broker.kill()


def test_a_wrong_password_is_said_and_the_variable_is_asked_for(
    store: Store, clock: Clock, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 1, deliveries=("bus",))
    login = {"url": f"amqp://guest@127.0.0.1:{broker.port}/", "password_env": "BUS_PASSWORD"}
    with pytest.raises(ConfigError, match="BUS_PASSWORD is not set"):
        engine_of(store, clock, broker.port, **login)
    monkeypatch.setenv("BUS_PASSWORD", "wrong")
    assert "bus" in engine_of(store, clock, broker.port, **login).deliver_pending().troubles


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('url = "amqp://ann:secret@localhost/"', "password_env"),
        ('url = "localhost:5672"', "expected an address such as amqp://"),
        ('url = "amqp://localhost/"\nrouting_key = "{key}"', r"expected \{query\}, \{owner\}, \{topic\}, not \{key\}"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, line: str, expected: str) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(f'[[delivery]]\nname = "bus"\ntype = "amqp"\n{line}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=expected):
        PipelineConfig.load(file)
