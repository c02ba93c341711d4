"""Live sources in a pipeline: each message is notified once, over restarts, moves and new names of adapters."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from tamis import QuerySpec
from tests.adapters.kafka_server import kafka_server
from tests.adapters.mailbox_server import PASSWORD, USER, mail_server
from tests.adapters.reading import join_mbox, mail
from tests.adapters.test_feed import rss
from tests.adapters.web import Answer, Web, web_server
from tests.broker.conftest import RunningBroker, broker
from tests.free_port import free_port
from tests.spark.conftest import Workshop
from tests.spark.mail import outbox

__all__ = ["broker"]
pytestmark = pytest.mark.spark

GARLIC = QuerySpec("garlic", "CONTAINS(body, 'garlic') AND date < TIMESTAMP '2025-01-01T00:00:00Z'")


@pytest.fixture
def web() -> Iterator[Web]:
    with web_server() as web:
        yield web


def _toml(name: str, kind: str, **options: object) -> str:
    lines = [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in options.items()]
    return "\n".join([f'\n[[adapter]]\nname = "{name}"\ntype = "{kind}"', *lines, ""])


def _read(workshop: Workshop) -> dict[str, int]:
    """Return how many notifications each query has."""
    counts: dict[str, int] = {}
    for key, *_ in outbox(workshop.store):
        counts[key] = counts.get(key, 0) + 1
    return counts


def test_live_sources_are_read_once(workshop: Workshop, web: Web) -> None:
    base = workshop.toml
    workshop.store.add_query(GARLIC)
    workshop.toml = base + _toml("news", "feed", url=web.page("/rss", Answer(200, rss("g1", "g2"))))
    assert workshop.run().failed == {}
    assert _read(workshop) == {"garlic": 2}
    web.page("/rss", Answer(200, rss("g3", "g2", "g1")))
    assert workshop.run().failed == {}
    assert _read(workshop) == {"garlic": 3}
    workshop.toml = base + _toml("renamed", "feed", url=f"{web.address}/rss")
    assert workshop.run().failed == {}
    assert _read(workshop) == {"garlic": 3}


def _push(address: str, number: int) -> None:
    """Push a message as senders do: again, under the same key, until there is an answer."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with suppress(httpx2.TransportError):
            if httpx2.post(address, json={"n": number}, headers={"Idempotency-Key": str(number)}).status_code == 202:
                return
        time.sleep(0.2)
    raise AssertionError("nobody took the message")


def test_a_mailbox_a_queue_and_an_endpoint_are_followed(
    workshop: Workshop,
    broker: RunningBroker,
    in_background: Callable[[Callable[[], object]], None],
) -> None:
    from tamis.spark import Pipeline

    channel = broker.connect(heartbeat=0).channel()
    port, queue = free_port(), channel.queue_declare("").method.queue
    login = {"user": USER, "password_file": "password", "tls": "none"}
    (workshop.folder / "password").write_text(f"{PASSWORD}\n")
    for kind in ("imap", "http", "amqp"):
        workshop.store.add_query(QuerySpec(kind, f"TOPIC('{queue if kind == 'amqp' else kind}')"))
    with mail_server() as server:
        workshop.toml += _toml("imap", "imap", host="127.0.0.1", port=server.port, **login)
        workshop.toml += _toml("http", "http", listen=f"127.0.0.1:{port}")
        workshop.toml += _toml("amqp", "amqp", url=f"amqp://127.0.0.1:{broker.parameters().port}/", queue=queue)
        pipeline = Pipeline(workshop.config, workshop.store, workshop.spark)
        in_background(pipeline.run)
        try:
            for number in (1, 2):
                server.deliver(mail(number))
                channel.basic_publish("", queue, f'{{"n": {number}}}'.encode())
                _push(f"http://127.0.0.1:{port}/", number)
                wanted = dict.fromkeys(("amqp", "http", "imap"), number)
                until = time.monotonic() + 120
                while (found := _read(workshop)) != wanted and time.monotonic() < until:
                    time.sleep(0.2)
                assert found == wanted, [(it.name, it.status, it.last_error) for it in workshop.store.adapter_states()]
        finally:
            pipeline.stop()


def test_a_topic_of_kafka_is_read_to_its_end_by_each_run(workshop: Workshop, tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="the client of Kafka is not installed: pip install 'tamis[kafka]'")
    workshop.store.add_query(QuerySpec("orders", "TOPIC('orders') AND n >= 2"))
    with kafka_server(tmp_path) as server:
        server.create("orders")
        workshop.toml += _toml("shop", "kafka", servers=server.servers, topics="orders", group="tamis", tls="none")
        for numbers in ((1, 2), (3, 4)):
            server.publish("orders", *(b'{"n": %d}' % number for number in numbers))
            assert workshop.run().failed == {}
    assert _read(workshop) == {"orders": 3}


def test_a_mail_is_notified_once_after_a_move_and_a_new_name(workshop: Workshop) -> None:
    base, folder = workshop.toml, workshop.folder
    workshop.store.add_query(QuerySpec("hello", "CONTAINS(body, 'Hello')"))
    (folder / "a").mkdir()
    (folder / "a" / "in").write_bytes(join_mbox([mail(1), mail(2)]))
    workshop.toml = base + _toml("first", "mbox", path=str(folder / "a"))
    workshop.run()
    shutil.move(folder / "a", folder / "b")
    (folder / "b" / "in").write_bytes(join_mbox([mail(3), mail(2)]))
    Path(folder / "b" / "1.eml").write_bytes(mail(1))
    workshop.toml = base + _toml("second", "mbox", path=str(folder / "b" / "in"))
    workshop.toml += _toml("third", "eml", path=str(folder / "b"))
    workshop.run()
    assert _read(workshop) == {"hello": 3}
