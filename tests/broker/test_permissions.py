"""A user gets no further than its permissions, by whatever way, and loses at once what is taken from it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tamis.broker.login import passwords
from tamis.broker.users.user import ALL, Permission, TopicPermission, User
from tamis.broker.users.users_file import UsersFile
from tamis.query import QuerySpec
from tamis.store import Store
from tests.broker.conftest import RunningBroker, StartBroker

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def change(broker: RunningBroker, user: User) -> None:
    """Put a user into force."""
    skip = len(broker.log())
    UsersFile(broker.data).change(lambda users: users.update({user.name: user}))
    broker.wait_for_log("users changed", skip=skip)


@contextlib.contextmanager
def refused(what: str) -> Iterator[None]:
    with pytest.raises(ChannelClosedByBroker, match=what) as error:
        yield
    assert error.value.reply_code == 403


ANN = User("ann", passwords.hash_password(b"secret")).permitted("/", ALL)


@pytest.fixture
def broker(start_broker: StartBroker, tmp_path: Path) -> RunningBroker:
    broker = start_broker(config=f'store = "{tmp_path / "tamis.sqlite"}"\n')
    change(broker, ANN)
    with broker.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("t.x", "topic")
        channel.exchange_declare("other", "topic")
    return broker


@pytest.fixture
def ann(broker: RunningBroker) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(broker.parameters("ann", "secret"))
    yield connection
    if connection.is_open:
        connection.close()


def test_a_permission_that_is_taken_away_ends_on_an_open_channel(
    broker: RunningBroker, ann: pika.BlockingConnection
) -> None:
    channel = ann.channel()
    channel.confirm_delivery()
    channel.queue_declare("work", exclusive=True)
    channel.queue_bind("work", "t.x", "key")
    for _ in range(3):  # the second and the third take the route that is remembered
        channel.basic_publish("t.x", "key", b"permitted", mandatory=True)
    change(broker, ANN.permitted("/", Permission(".*", "amq\\.default", ".*")))
    with refused("write access to exchange 't.x'"):
        channel.basic_publish("t.x", "key", b"not any more")
    change(broker, ANN)
    ann.channel().basic_publish("t.x", "key", b"permitted again")


def test_a_topic_permission_that_is_taken_away_ends_on_an_open_channel(
    broker: RunningBroker, ann: pika.BlockingConnection
) -> None:
    channel = ann.channel()
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("t.x", "key", b"permitted")
    change(broker, ANN.permitted_topics("/", "t.x", TopicPermission("ann\\..*", ".*")))
    with refused("write access to topic 'key' in exchange 't.x'"):
        channel.basic_publish("t.x", "key", b"not any more")


def held(broker: RunningBroker, ann: pika.BlockingConnection) -> BlockingChannel:
    """Return a channel of a user who may publish to t.x only under ``ann.``."""
    change(broker, ANN.permitted_topics("/", "t.x", TopicPermission("ann\\..*", ".*")))
    return ann.channel()


def test_topic_permissions_are_not_walked_around_by_a_binding(
    broker: RunningBroker, ann: pika.BlockingConnection
) -> None:
    with refused("write access to topic '#' in exchange 't.x'"):
        held(broker, ann).exchange_bind("t.x", "other", "#")
    with refused("write access to topic '#' in exchange 't.x'"):
        ann.channel().exchange_bind("t.x", "amq.fanout", "ann.key")
    channel = ann.channel()
    channel.exchange_bind("t.x", "other", "ann.*")
    channel.exchange_bind("other", "t.x", "#")  # reading is not restricted


def test_topic_permissions_are_not_walked_around_by_dead_letters(
    broker: RunningBroker, ann: pika.BlockingConnection
) -> None:
    letters = {"x-dead-letter-exchange": "t.x"}
    with refused("write access to topic 'bob.key' in exchange 't.x'"):
        held(broker, ann).queue_declare("q", arguments={**letters, "x-dead-letter-routing-key": "bob.key"})
    with refused("write access to topic '#' in exchange 't.x'"):
        ann.channel().queue_declare("q", arguments=letters)
    ann.channel().queue_declare("q", exclusive=True, arguments={**letters, "x-dead-letter-routing-key": "ann.key"})


def test_topic_permissions_are_not_walked_around_before_the_exchange_is_made(
    broker: RunningBroker, ann: pika.BlockingConnection
) -> None:
    change(broker, ANN.permitted_topics("/", "later", TopicPermission("ann\\..*", ".*")))
    with refused("write access to topic '#' in exchange 'later'"):
        ann.channel().queue_declare("q", arguments={"x-dead-letter-exchange": "later"})


def test_topic_permissions_are_not_walked_around_by_an_alternate_exchange(
    broker: RunningBroker, ann: pika.BlockingConnection
) -> None:
    with refused("write access to topic '#' in exchange 't.x'"):
        held(broker, ann).exchange_declare("beside", arguments={"alternate-exchange": "t.x"})


def test_a_query_of_the_store_needs_the_permission_to_read_it(
    broker: RunningBroker, ann: pika.BlockingConnection, tmp_path: Path
) -> None:
    with Store.open(tmp_path / "tamis.sqlite") as store:
        for key in ("ann.expensive", "bob.expensive"):
            store.add_query(QuerySpec(key=key, text="price > 10", language="selector"))
    change(broker, ANN.permitted("/", Permission(".*", ".*", "q|t\\.x|ann\\..*")))
    channel = ann.channel()
    channel.queue_declare("q", exclusive=True)
    channel.queue_bind("q", "t.x", "#", {"x-query-key": "ann.expensive"})
    with refused("read access to stored query 'bob.expensive'"):
        channel.queue_bind("q", "t.x", "#", {"x-query-key": "bob.expensive"})
