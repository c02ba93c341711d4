"""Mailboxes with plain pika: identities, who reads, replies, full mailboxes, and what survives a crash."""

from __future__ import annotations

import time
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker

from tamis.broker.login import passwords
from tamis.broker.users.user import Permission, User
from tests.broker.conftest import RunningBroker, StartBroker
from tests.broker.test_permissions import change


def client(broker: RunningBroker, identity: str, **options: Any) -> BlockingChannel:
    """Return a channel of a client with this identity."""
    return broker.connect(client_properties={"identity": identity}, **options).channel()


def received(channel: BlockingChannel, queue: str, count: int = 1) -> list[tuple[Any, Any, bytes]]:
    """Return the next messages of a queue, acknowledged."""
    found = []
    for delivery, properties, body in channel.consume(queue, inactivity_timeout=20):
        assert delivery is not None, f"{len(found)} of {count} came"
        channel.basic_ack(delivery.delivery_tag)
        found.append((delivery, properties, body))
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_a_message_waits_for_its_recipient_and_says_who_sent_it(broker: RunningBroker) -> None:
    ann = client(broker, "t1.ann")
    ann.confirm_delivery()
    properties = pika.BasicProperties(headers={"x-sender": "mallory", "n": 1})
    ann.basic_publish("mailbox", "t1.bob", b"hello", properties)
    ((_, properties, body),) = received(client(broker, "t1.bob"), "amq.mailbox.t1.bob")
    assert body == b"hello"
    assert properties.headers == {"x-sender": "t1.ann", "n": 1}
    assert properties.reply_to == "amq.mailbox.t1.ann"
    assert properties.delivery_mode == 2


def test_a_reply_goes_to_the_mailbox_of_whoever_asked(broker: RunningBroker) -> None:
    ann, bob = client(broker, "t2.ann"), client(broker, "t2.bob")
    ann.basic_publish("mailbox", "t2.bob", b"ping", pika.BasicProperties(correlation_id="7"))
    ((_, asked, _),) = received(bob, "amq.mailbox.t2.bob")
    bob.basic_publish("", asked.reply_to, b"pong", pika.BasicProperties(correlation_id=asked.correlation_id))
    ((_, reply, body),) = received(ann, "amq.mailbox.t2.ann")
    assert (body, reply.correlation_id, reply.headers) == (b"pong", "7", {"x-sender": "t2.bob"})


def test_a_client_without_an_identity_has_no_mailbox_and_can_write_to_one(broker: RunningBroker) -> None:
    nobody = broker.connect().channel()
    nobody.basic_publish("mailbox", "t3.bob", b"anonymous", pika.BasicProperties(headers={"x-sender": "t3.ann"}))
    ((_, properties, _),) = received(client(broker, "t3.bob"), "amq.mailbox.t3.bob")
    assert (properties.headers, properties.reply_to) == ({"x-sender": None}, None)
    with pytest.raises(ChannelClosedByBroker, match="is read by the client with that identity alone"):
        nobody.basic_get("amq.mailbox.t3.bob")


def test_a_second_client_is_refused_until_the_first_has_gone(broker: RunningBroker) -> None:
    first = broker.connect(client_properties={"identity": "t4.ann"})
    with pytest.raises(AMQPConnectionError, match="identity 't4.ann' in vhost '/' is in use by a client at"):
        broker.connect(client_properties={"identity": "t4.ann"})
    first.close()
    client(broker, "t4.ann")


def test_a_second_client_takes_over_where_that_is_configured(start_broker: StartBroker) -> None:
    broker = start_broker(config='[mailboxes]\nsecond_client = "take_over"\n')
    first = client(broker, "ann")
    first.basic_publish("mailbox", "ann", b"to myself")
    assert first.basic_get("amq.mailbox.ann")[2] == b"to myself"
    second = client(broker, "ann")
    # What the first has not acknowledged is the second's, and says so.
    ((delivery, _, body),) = received(second, "amq.mailbox.ann")
    assert (body, delivery.redelivered) == (b"to myself", True)
    with pytest.raises(AMQPConnectionError, match="taken over the identity 'ann'"):
        first.connection.process_data_events(20)
        first.basic_get("amq.mailbox.ann")


def test_an_identity_other_than_the_login_needs_permission(start_broker: StartBroker) -> None:
    broker = start_broker()
    user = User("ann", passwords.hash_password(b"ann"))
    change(broker, user.permitted("/", Permission(configure=r"amq\.mailbox\.ann-.*", write=".*")))

    def connect(identity: str) -> None:
        options = {"client_properties": {"identity": identity}}
        pika.BlockingConnection(broker.parameters("ann", "ann", **options)).close()

    connect("ann")
    connect("ann-phone")
    with pytest.raises(AMQPConnectionError, match="identity 'bob' in vhost '/' refused for user 'ann'"):
        connect("bob")
    with pytest.raises(AMQPConnectionError, match="expected printable text of at most 243 bytes"):
        connect("x" * 250)


def test_a_sender_waits_for_a_full_mailbox_and_no_other_does(start_broker: StartBroker) -> None:
    broker = start_broker(config="[mailboxes]\nmessages = 10\n")
    sender = broker.connect(client_properties={"identity": "sender"})
    channel = sender.channel()
    for number in range(30):
        channel.basic_publish("mailbox", "bob", str(number).encode())
    other = client(broker, "other")
    other.confirm_delivery()
    for _ in range(5):
        other.basic_publish("mailbox", "carol", b"another")
    wait_until(lambda: broker.ask("metrics")["senders_waiting"] == 1)
    assert [row["ready"] for row in broker.ask("queues")["rows"] if row["name"] == "amq.mailbox.bob"] == [10]
    bodies = [int(body) for _, _, body in received(client(broker, "bob"), "amq.mailbox.bob", 30)]
    assert bodies == list(range(30))
    assert broker.ask("metrics")["senders_waiting"] == 0


def test_mailboxes_survive_a_crash_and_memory_ones_do_not(start_broker: StartBroker) -> None:
    for config, expected in (("", b"kept"), ("[mailboxes]\ndurable = false\n", None)):
        broker = start_broker(config=config)
        ann = client(broker, "ann")
        ann.confirm_delivery()
        ann.basic_publish("mailbox", "bob", b"kept")
        broker.kill()
        broker.start()
        assert client(broker, "bob").basic_get("amq.mailbox.bob")[2] == expected


def wait_until(is_true: Any, timeout_s: float = 20) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.02)
