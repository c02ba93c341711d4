"""Tests that every face gives the same answers: the library, JSON, tables, the command line, a store, the broker."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pika.data
import pyarrow as pa
import pytest

import tamis
from tamis import QuerySpec
from tamis.store import Store
from tests.broker.conftest import RunningBroker
from tests.one_meaning import HIERARCHY, RECORDS, SPECS, Record, expected, queries, query_file

ENGINE: tamis.Engine[str] = tamis.Engine()
ENGINE.hierarchy("region", HIERARCHY)
ENGINE.add_many(queries().items())

WAYS: dict[str, Callable[[Record], list[str]]] = {
    "match": ENGINE.match,
    "match_json": lambda record: ENGINE.match_json(json.dumps(record)),
    "a table of JSON": lambda record: ENGINE.keys(
        ENGINE.match_batch(pa.table({"properties": [json.dumps(record)]}))[0].as_py()
    ),
    "a table of columns": lambda record: ENGINE.keys(ENGINE.match_batch(pa.Table.from_pylist([record]))[0].as_py()),
    "explain": lambda record: [key for key in queries() if ENGINE.explain(key, record).result],
}


def test_every_query_is_satisfied_by_some_record_and_not_by_all() -> None:
    for key in queries():
        assert 0 < sum(key in keys for keys in expected()) < len(RECORDS), key


@pytest.mark.parametrize("way", WAYS)
def test_the_library_has_one_meaning(way: str) -> None:
    assert [WAYS[way](record) for record in RECORDS] == expected()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with the queries and the hierarchy."""
    path = tmp_path_factory.mktemp("store") / "tamis.sqlite"
    with Store.open(path) as store:
        store.set_hierarchy("region", HIERARCHY)
        store.add_queries(SPECS)
    return path


@pytest.mark.parametrize("source", ["file", "store"])
def test_the_command_line_has_the_same_meaning(source: str, store: Path, tmp_path: Path) -> None:
    file, messages = tmp_path / "queries.toml", tmp_path / "messages.jsonl"
    file.write_text(query_file(), encoding="utf-8")
    messages.write_text("\n".join(map(json.dumps, RECORDS)), encoding="utf-8")
    command = [sys.executable, "-m", "tamis", "match", str(file if source == "file" else store), str(messages)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    found: list[list[str]] = [[] for _ in RECORDS]
    for answer in map(json.loads, done.stdout.splitlines()):
        found[answer["line"] - 1] = answer["keys"]
    assert found == expected()


@pytest.fixture(scope="module")
def broker(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Return a broker that follows the store."""
    running = RunningBroker(tmp_path_factory.mktemp("broker"), config=f'store = "{store}"\n')
    yield running
    running.kill()


@pytest.fixture
def float_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pika send floats, which it cannot."""
    plain = pika.data.encode_value

    def encode(pieces: list[bytes], value: Any) -> Any:
        if not isinstance(value, float):
            return plain(pieces, value)
        pieces.append(struct.pack(">cd", b"d", value))
        return 9

    monkeypatch.setattr(pika.data, "encode_value", encode)


BINDINGS: dict[str, Callable[[QuerySpec], dict[str, str]]] = {
    "text": lambda spec: {"x-query": spec.text, "x-query-language": spec.language},
    "canonical text": lambda spec: {"x-query": str(queries()[spec.key])},
    "key of the store": lambda spec: {"x-query-key": spec.key},
}


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.usefixtures("float_headers")
def test_the_broker_has_the_same_meaning(binding: str, broker: RunningBroker) -> None:
    found: list[list[str]] = [[] for _ in RECORDS]
    with broker.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("records", "topic")
        for number, spec in enumerate(SPECS):
            channel.queue_declare(str(number), exclusive=True)
            arguments = {**BINDINGS[binding](spec), "x-query-body": "text"}
            channel.queue_bind(str(number), "records", "#", arguments=arguments)
        for number, record in enumerate(RECORDS):
            publish(channel, record, number)
        for number, spec in enumerate(SPECS):
            for _, properties, _ in iter(lambda: channel.basic_get(str(number), auto_ack=True), (None, None, None)):  # noqa: B023
                found[int(properties.message_id)].append(spec.key)
    assert found == expected()


def publish(channel: Any, record: Record, number: int) -> None:
    """Publish a record: its topic is the routing key, its body the body, and the others are headers."""
    headers = {name: value for name, value in record.items() if name not in ("topic", "body")}
    properties = pika.BasicProperties(headers=headers, message_id=str(number))
    channel.basic_publish("records", record["topic"], record["body"].encode(), properties)
