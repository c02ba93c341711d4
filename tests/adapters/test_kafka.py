"""Topics of a real Kafka: each message once, over restarts, rebalances, retention and brokers that are away."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tamis.adapters.adapter import Adapter
from tamis.adapters.rows import Row
from tamis.adapters.sources.live import kafka
from tamis.adapters.sources.live.kafka import KafkaOptions, KafkaSource
from tamis.errors import AdapterError
from tests.adapters.kafka_server import PASSWORD, USER, MockKafka, RealKafka, kafka_server
from tests.adapters.live_reader import Reader, readers

pytest.importorskip("confluent_kafka", reason="the client of Kafka is not installed: pip install 'tamis[kafka]'")
Open = Callable[..., Reader]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockKafka]:
    with kafka_server(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture
def real(server: MockKafka) -> RealKafka:
    if not isinstance(server, RealKafka):
        pytest.skip("the mock cluster of librdkafka cannot do this; a real Kafka needs Java and its jars")
    return server


@pytest.fixture
def topic(server: MockKafka) -> str:
    """A new topic with one partition."""
    name = f"orders.{uuid.uuid4().hex}"
    server.create(name)
    return name


@pytest.fixture
def opened(server: MockKafka, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    if not server.is_real:
        monkeypatch.setattr(kafka, "WAIT_S", 1.0)  # the mock cluster answers late
    with readers(KafkaSource, tmp_path) as make:
        usual = {"servers": server.servers, "topics": topic, "group": topic, "tls": "none"}
        yield lambda **options: make(**usual | options)


def _members(rows: list[Row]) -> list[dict[str, object]]:
    return [json.loads(str(row.properties)) for row in rows]


def _numbers(rows: list[Row]) -> list[object]:
    return [row.error or json.loads(str(row.properties))["n"] for row in rows]


def _until(reader: Reader, count: int) -> list[object]:
    """Return the next numbers, at least `count`; a broker that has just started may still refuse."""
    found: list[object] = []
    until = time.monotonic() + 60
    while len(found) < count and time.monotonic() < until:
        with suppress(AdapterError):
            found += _numbers(reader.later(4000))
    return found


def _objects(*numbers: int) -> list[bytes]:
    return [b'{"n": %d}' % number for number in numbers]


class _FarMessage:
    """A message from the year 55,840, as its producer counts microseconds; the server of these tests keeps none."""

    def __getattr__(self, name: str) -> Callable[[], object]:
        told = {"topic": "orders", "partition": 0, "offset": 7, "timestamp": (1, 1_700_000_000_000_000)}
        return lambda: (told | {"value": b'{"n": 1}'}).get(name)


def test_a_message_with_a_time_that_no_calendar_has_is_read(topic: str, opened: Open) -> None:
    reader = opened()
    reader.next()
    assert isinstance(reader.source, KafkaSource)
    item = reader.source._item(_FarMessage())  # type: ignore[arg-type]  # all that is asked of one
    assert json.loads(item.content) == {"partition": 0, "offset": 7, "n": 1}


def test_a_message_has_its_headers_key_and_value(server: MockKafka, topic: str, opened: Open) -> None:
    headers = [("a", b"1"), ("b", b"2"), ("b", b"\xff")]
    server.publish(topic, b'{"n": 1, "a": "own"}', key=b"K", headers=headers, timestamp=1_700_000_000_000)
    server.publish(topic, b"plain", None, timestamp=1_700_000_000_000)
    rows = opened().next()
    common = {"partition": 0, "timestamp": "2023-11-14T22:13:20+00:00"}
    assert _members(rows) == [
        {"a": "own", "b": ["2", "/w=="], "key": "K", "offset": 0, "n": 1} | common,
        {"offset": 1, "body": "plain"} | common,
        {"offset": 2} | common,
    ]
    assert {(row.topic, row.partition) for row in rows} == {(topic, f"kafka://{server.servers}/{topic}/0")}
    assert len({row.identity for row in rows}) == 3


def test_each_message_is_read_once(server: MockKafka, topic: str, opened: Open) -> None:
    server.publish(topic, *_objects(1, 2))
    reader = opened()
    assert _numbers(reader.next()) == [1, 2]
    assert reader.later() == []
    server.publish(topic, *_objects(3))
    assert _numbers(reader.later()) == [3]
    server.publish(topic, *_objects(4))
    reader.restart()
    assert _numbers(reader.later()) == [4]


def test_an_offset_is_committed_when_its_batch_was_processed(server: MockKafka, topic: str, opened: Open) -> None:
    server.publish(topic, *_objects(1, 2))
    reader = opened()
    reader.next()
    assert server.committed(topic, topic) <= 0
    reader.later()  # asks what comes after the batch: it was processed
    server.publish(topic, *_objects(3))
    reader.later()
    assert server.committed(topic, topic) == 2


def test_a_new_spool_goes_on_where_the_group_ended(server: MockKafka, topic: str, opened: Open) -> None:
    server.publish(topic, *_objects(1, 2))
    reader = opened()
    reader.next()
    reader.source.close()
    server.publish(topic, *_objects(3))
    assert _numbers(opened().next()) == [3]
    assert _numbers(opened(group="another").next()) == [1, 2, 3]


def test_the_spool_knows_better_than_the_group(server: MockKafka, topic: str, opened: Open) -> None:
    server.publish(topic, *_objects(1, 2))
    reader = opened()
    reader.next()
    reader.source._commit = lambda *_: None  # type: ignore[attr-defined]
    reader.restart()
    assert server.committed(topic, topic) <= 0
    server.publish(topic, *_objects(3))
    assert _numbers(reader.later()) == [3]


def test_with_next_only_what_comes_later_is_read(server: MockKafka, topic: str, opened: Open) -> None:
    server.publish(topic, *_objects(1))
    reader = opened(starting_offset="next")
    assert reader.next() == []
    server.publish(topic, *_objects(2))
    reader.restart()
    assert _numbers(reader.later()) == [2]


def test_a_look_takes_at_most_max_messages_and_the_next_is_at_once(server: MockKafka, topic: str, opened: Open) -> None:
    server.publish(topic, *_objects(*range(5)))
    reader = opened(max_messages=2)
    assert [_numbers(reader.next()) for _ in range(4)] == [[0, 1], [2, 3], [4], []]


def test_a_message_that_is_too_large_is_a_dead_letter(
    server: MockKafka, topic: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "MESSAGE_BYTES_MAX", 20)
    monkeypatch.setattr(kafka, "RAW_KEPT_BYTES", 5)
    server.publish(topic, b'{"text": "%s"}' % (b"x" * 20), b'{"n": 2}')
    large, small = opened().next()
    assert "at most 20 are read" in str(large.error)
    assert large.raw == b'{"tex'
    assert _numbers([small]) == [2]


def test_two_readers_of_a_group_share_its_partitions(
    real: RealKafka, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "LOOK_S_MAX", 0.5)
    name, found = f"shared.{uuid.uuid4().hex}", {0: [], 1: []}  # type: dict[int, list[object]]
    real.create(name, partitions=2)
    (tmp_path / "settings").write_text("heartbeat.interval.ms=100\n")
    options = {"topics": name, "group": name, "timeout_s": 1, "settings_file": str(tmp_path / "settings")}
    both = [opened(**options) for _ in range(2)]
    both[0].next()

    def read_until(seen: Callable[[], bool], *members: int) -> None:
        until = time.monotonic() + 60
        while not seen() and time.monotonic() < until:
            for one in members:
                with suppress(AdapterError):  # the group waits for the other one
                    found[one] += _numbers(both[one].later(4000))

    for number in range(1000):
        real.publish(name, *_objects(number), partition=number % 2)
        read_until(lambda: number in found[0] + found[1], 1, 0)  # noqa: B023 - called at once
        if found[0] and found[1]:
            break
    both[1].source.close()
    real.publish(name, *_objects(1000), partition=0)
    real.publish(name, *_objects(1001), partition=1)
    read_until(lambda: {1000, 1001} <= set(found[0]), 0)
    assert found[1]
    assert sorted(map(int, map(str, found[0] + found[1]))) == [*range(number + 1), 1000, 1001]


def test_a_pattern_names_topics(server: MockKafka, topic: str, opened: Open) -> None:
    server.publish(topic, *_objects(1))
    assert _numbers(opened(topics=rf"^{topic[:-4]}.*").next()) == [1]


def test_what_was_removed_before_it_was_read_is_one_dead_letter(real: RealKafka, topic: str, opened: Open) -> None:
    from confluent_kafka import TopicPartition

    real.publish(topic, *_objects(0, 1))
    reader = opened()
    assert len(reader.next()) == 2
    reader.source.close()
    real.publish(topic, *_objects(2, 3, 4))
    for done in real.admin.delete_records([TopicPartition(topic, 0, 4)]).values():
        done.result(20)
    reader.open()
    assert _numbers(reader.later()) == ["messages 2 to 3 were removed before they were read", 4]


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(real: RealKafka, topic: str, opened: Open) -> None:
    real.publish(topic, *_objects(0, 1))
    reader = opened()
    reader.next()
    reader.source.close()
    real.admin.delete_topics([topic])[topic].result(20)
    for _ in range(100):
        if topic not in real.admin.list_topics(timeout=20).topics:
            break
    real.create(topic)
    real.publish(topic, *_objects(0))
    reader.open()
    told, message = _numbers(reader.later())
    assert told == "the partition was read up to message 2 and now ends at 1: it is new"
    assert message == 0


def test_what_a_transaction_took_back_is_not_read(real: RealKafka, topic: str, opened: Open) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": real.servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(20)
    for number, end in ((1, producer.abort_transaction), (2, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, *_objects(number))
        end(20)
    assert _numbers(opened().next()) == [2]


def test_a_broker_that_was_away_is_asked_again(real: RealKafka, topic: str, opened: Open, tmp_path: Path) -> None:
    real.publish(topic, *_objects(1))
    (tmp_path / "settings").write_text("reconnect.backoff.ms=100\nreconnect.backoff.max.ms=200\n")
    reader = opened(timeout_s=1, settings_file=str(tmp_path / "settings"))
    assert _numbers(reader.next()) == [1]
    real.stop()
    said, until = "", time.monotonic() + 60
    while not said and time.monotonic() < until:
        try:
            reader.later(1)
        except AdapterError as error:
            said = str(error)
    real.start()
    real.publish(topic, *_objects(2))
    assert f"{real.servers}: " in said
    assert "the next try is at" in said
    assert _until(reader, 1) == [2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": "nowhere"}, "no topic 'nowhere'"),
        ({"servers": "127.0.0.1:1"}, "Connection refused"),
    ],
)
def test_a_failure_says_why(opened: Open, options: dict[str, str], said: str) -> None:
    with pytest.raises(AdapterError) as error:
        opened(**options).next()
    assert said in str(error.value)
    assert "the next try is at" in str(error.value)


def test_tls_and_the_password_are_checked(
    real: RealKafka, topic: str, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG", "onion")
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    real.publish(topic, *_objects(1))
    secure = {"servers": real.secure_servers, "tls": "tls", "user": USER, "timeout_s": 5}
    right = {"ca_file": str(real.ca_file), "password_file": str(tmp_path / "password")}
    assert _numbers(opened(**secure, **right).next()) == [1]
    with pytest.raises(AdapterError, match="(?i)authentication failed"):
        opened(**secure, ca_file=str(real.ca_file), password_env="WRONG").next()
    with pytest.raises(AdapterError, match="(?i)certificate"):
        opened(**secure, password_env="WRONG").next()


def test_a_test_of_the_adapter_does_not_disturb_the_group(server: MockKafka, topic: str, tmp_path: Path) -> None:
    server.publish(topic, *_objects(*range(30)))
    options = {"servers": server.servers, "topics": topic, "group": topic, "tls": "none"}
    health = Adapter("orders", "kafka", spool=str(tmp_path / "spool"), **options).test()
    assert (health.readable, health.reason) == (True, None)
    assert 1 <= health.sampled <= 20
    assert server.committed(topic, topic) < 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": " , "}, "expected names of topics"),
        ({"user": "jane"}, "expected user with password_env or password_file"),
        ({"user": "jane", "password_env": "NOT_SET"}, "the environment variable NOT_SET is not set"),
        ({"user": "jane", "password_env": "HOME", "mechanism": "PLAIN", "tls": "none"}, "needs tls"),
        ({"settings_file": "nowhere"}, "settings_file: "),
        ({"settings_file": "settings", "text": "group.id = x"}, "line 1: 'group.id' belongs to the adapter"),
        ({"settings_file": "settings", "text": "# why\nx"}, "line 2: expected name=value"),
        ({"settings_file": "settings", "text": "x.y = 1"}, "the settings of Kafka: "),
        ({"ca_file": "nowhere"}, "the settings of Kafka: "),
    ],
)
def test_a_wrong_option_is_refused(tmp_path: Path, options: dict[str, str], said: str) -> None:
    given = dict(options)
    (tmp_path / "settings").write_text(given.pop("text", ""))
    for name in ("settings_file", "ca_file"):
        if name in given:
            given[name] = str(tmp_path / given[name])
    with pytest.raises(AdapterError) as error:
        KafkaSource(KafkaOptions(servers="example.org:9092", group="g", **{"topics": "t"} | given)).check()  # type: ignore[arg-type]
    assert said in str(error.value)


def test_further_settings_come_from_a_file(server: MockKafka, topic: str, opened: Open, tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("# of librdkafka\nclient.id = another\n")
    server.publish(topic, *_objects(1))
    assert _numbers(opened(settings_file=str(tmp_path / "settings")).next()) == [1]
