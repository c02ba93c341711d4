"""Messages that are pushed over HTTP: on disk before the answer, each once, within limits."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tamis.adapters import http_thread
from tamis.adapters.sources.live import spool as spool_module
from tamis.adapters.sources.live.http import HttpOptions, HttpSource
from tamis.errors import AdapterError
from tests.adapters.live_reader import Reader, readers

Open = Callable[..., Reader]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    with readers(HttpSource, tmp_path) as make:

        def listening(**options: Any) -> Reader:
            reader = make(**{"listen": "127.0.0.1:0"} | options)
            assert reader.next() == []
            return reader

        yield listening


def push(reader: Reader, content: Any, query: str = "", **headers: str) -> httpx2.Response:
    assert isinstance(reader.source, HttpSource)
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.post(f"http://127.0.0.1:{reader.source.port}/{query}", content=body, headers=named, timeout=30)


def properties(rows: list[Any]) -> list[Any]:
    return [json.loads(row.properties) for row in rows]


def test_a_message_is_taken_with_its_topic_and_body(opened: Open) -> None:
    reader = opened(body_field="text")
    answer = push(reader, {"price": 1, "text": "garlic"}, "?topic=orders.eu")
    assert (answer.status_code, answer.json()) == (202, {"taken": 1, "known": 0})
    (row,) = reader.next()
    assert (row.topic, row.body, json.loads(str(row.properties))) == ("orders.eu", "garlic", {"price": 1})
    push(reader, {"price": 2})
    (row,) = reader.next()
    assert row.topic == "news"


def test_what_was_answered_is_there_after_a_crash(opened: Open) -> None:
    reader = opened()
    push(reader, {"n": 1})
    reader.restart()
    assert properties(reader.next()) == [{"n": 1}]


def test_a_repeated_request_is_taken_once(opened: Open) -> None:
    reader = opened()
    lines = b'{"n": 1}\n\n{"n": 2}\n'
    kind = "application/x-ndjson"
    assert push(reader, lines, Idempotency_Key="a", Content_Type=kind).json() == {"taken": 2, "known": 0}
    assert push(reader, lines, Idempotency_Key="a", Content_Type=kind).json() == {"taken": 0, "known": 2}
    assert push(reader, lines, Idempotency_Key="b", Content_Type=kind).json() == {"taken": 2, "known": 0}
    assert properties(reader.next()) == [{"n": 1}, {"n": 2}] * 2


def test_equal_messages_are_two_and_those_of_one_id_are_one(opened: Open) -> None:
    plain, named = opened(), opened(id_field="id")
    for reader in (plain, named):
        for _ in range(2):
            push(reader, {"id": 7})
    assert (len(plain.next()), len(named.next())) == (2, 1)


@pytest.mark.parametrize(
    ("content", "headers", "status", "said"),
    [
        (b"[1]", {}, 400, "expected a JSON object, found a list"),
        (b'{"a": 1}\n{', {"Content_Type": "application/x-ndjson"}, 400, "message 2: expected a JSON object"),
        (b"", {"Content_Type": "application/x-ndjson"}, 400, "expected 1 to 10,000 messages, not 0"),
        (b"{}", {"Content_Type": "text/html"}, 415, "not 'text/html'"),
        (b" " * 2_000, {}, 413, "at most 1,000 bytes"),
        (b"{}", {"Idempotency_Key": "x" * 300}, 400, "at most 255 characters"),
    ],
)
def test_a_request_that_cannot_be_taken_says_why(
    opened: Open, content: bytes, headers: dict[str, str], status: int, said: str
) -> None:
    reader = opened(size_bytes_max=1_000)
    answer = push(reader, content, **headers)
    assert answer.status_code == status
    assert said in answer.json()["error"]
    assert reader.next() == []


def test_who_has_no_token_is_refused(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUSH_TOKEN", "hunter2")
    reader = opened(token_env="PUSH_TOKEN")
    assert push(reader, {}).status_code == 401
    assert push(reader, {}, Authorization="Bearer hunter1").status_code == 401
    assert push(reader, {}, Authorization="Bearer hunter2").status_code == 202


def test_senders_wait_while_too_much_is_unprocessed(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "WAITING_MAX", 2)
    reader = opened()
    assert [push(reader, {"n": n}).status_code for n in range(3)] == [202, 202, 503]
    assert push(reader, {}).headers["Retry-After"] == "5"
    assert len(reader.next()) == 2
    reader.next()  # what was read before is processed now
    assert push(reader, {"n": 3}).status_code == 202


def test_an_address_that_is_taken_is_told(opened: Open) -> None:
    first = opened()
    assert isinstance(first.source, HttpSource)
    with pytest.raises(AdapterError, match="cannot be listened on; another program may use it"):
        opened(listen=f"127.0.0.1:{first.source.port}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"listen": "8400"}, "expected an address and a port"),
        ({"listen": "0.0.0.0:8400"}, "can be reached by others"),
        ({"listen": "127.0.0.1:8400", "token_env": "NOT_SET"}, "NOT_SET is not set"),
        ({"listen": "127.0.0.1:8400", "cert_file": "a"}, "expected cert_file and key_file"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(AdapterError) as error:
        HttpSource(HttpOptions(**options)).check()  # type: ignore[arg-type]
    assert said in str(error.value)


def test_silent_connections_shut_nobody_out(opened: Open) -> None:
    reader = opened()
    assert isinstance(reader.source, HttpSource)
    address = ("127.0.0.1", reader.source.port)
    silent = [socket.create_connection(address, timeout=30) for _ in range(http_thread.CONNECTIONS_MAX + 20)]
    try:
        assert push(reader, {"n": 1}).status_code == 202
        assert silent[0].recv(1) == b"", "the one that was silent for longest made room"
    finally:
        for one in silent:
            one.close()
