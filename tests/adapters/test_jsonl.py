from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.adapters.json_row import JsonRowOptions, LineError, json_row, read_object
from tamis.adapters.sources.jsonl import JsonlOptions, JsonlSource
from tamis.adapters.xml import from_xml
from tests.adapters.reading import BEGINNING, between, read_all


def rows_of(tmp_path: Path, content: bytes, **options: Any) -> list[Any]:
    (tmp_path / "a.jsonl").write_bytes(content)
    return read_all(JsonlSource(JsonlOptions(path=str(tmp_path), **options)))


def test_a_line_is_a_message_and_its_members_are_properties(tmp_path: Path) -> None:
    first, second = rows_of(tmp_path, b'{"price": 1.50, "tags": ["a"]}\n\n{"b": null}\n', topic="ticks", xml=True)
    assert (first.properties, first.topic, first.body, first.signature) == (
        '{"price":1.5,"tags":["a"]}',
        "ticks",
        None,
        None,
    )
    assert second.offset == 32
    assert from_xml(first.xml).properties == {"price": 1.5, "tags": ["a"]}


def test_an_id_space_keeps_messages_of_two_sources_apart() -> None:
    def identity(**options: str) -> str | None:
        return json_row(b'{"id": 7}', "p", 0, "t", JsonRowOptions(**options)).identity

    one, other = (identity(id_field="id", id_space=space) for space in ("orders", "users"))
    assert len({None, one, other, identity(id_field="id")}) == 4
    assert identity(id_field="id", id_space="orders") == one
    assert identity(id_space="orders") is None
    assert identity(id_field="none", id_space="orders") is None


def test_a_field_can_be_the_body_and_another_the_topic(tmp_path: Path) -> None:
    content = b'{"text": "The frost", "t": "a.b", "x": 1}\n{"text": {"y": [1]}, "t": 5}\n{}\n'
    first, second, third = rows_of(tmp_path, content, topic="other", body_field="text", topic_field="t", signature=True)
    assert (first.topic, first.body, first.properties) == ("a.b", "The frost", '{"t":"a.b","x":1}')
    assert first.signature == [("frost", [1])]
    assert (second.topic, second.body) == ("other", '{"y": [1]}')
    assert third.body is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", "expected a JSON object: Expecting value"),
        (b"[1]", "found a list"),
        (b"1", "found a number"),
        (b"null", "found null"),
        (b'"x"', "found text"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'{"a": 1e999}', "floating point"),
        (b'{"a": 9223372036854775808}', "64 bits"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "expected a JSON object"),
        (b'{"a": "\xff"}', "byte 7 of the line: expected UTF-8"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "at most 100 levels"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "at most 100 levels"),
        (b'{"a": 1} {"b": 2}', "Extra data"),
    ],
    ids=lambda value: repr(value[:30]),
)
def test_what_is_no_message_is_a_dead_letter_with_its_reason(tmp_path: Path, line: bytes, reason: str) -> None:
    dead, good = rows_of(tmp_path, line + b'\n{"a": 1}\n')
    assert reason in dead.error
    assert dead.raw == line + b"\n"
    assert good.error is None


@pytest.mark.parametrize(("tail", "count"), [(b'{"a": 2', 1), (b"[1]", 1), (b'{"a": 2}', 2), (b'{"a": 2}\n', 2)])
def test_a_last_line_without_line_feed_is_read_if_it_is_an_object(tmp_path: Path, tail: bytes, count: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n' + tail)
    os.utime(path, (0, 0))  # nobody has written it for a while
    source = JsonlSource(JsonlOptions(path=str(tmp_path)))
    end = source.latest(BEGINNING, None)
    assert len(between(source, BEGINNING, end)) == count
    with path.open("ab") as file:
        file.write(b'3}\n{"a": 4}\n')
    rows = between(source, end, source.latest(end, None, settled=True))
    assert [row.properties for row in rows if row.error is None][-1] == '{"a":4}'
    if tail == b'{"a": 2':
        assert [row.properties for row in rows] == ['{"a":23}', '{"a":4}'], "the line is whole"


def test_half_a_character_is_replaced(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, b'{"a": "\\ud800x", "\\udfff": "\\ud83d\\ude00"}')
    assert json.loads(row.properties) == {"a": "\ufffdx", "\ufffd": "\U0001f600"}


def test_a_line_without_an_end_waits_until_the_file_is_quiet(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2')
    source = JsonlSource(JsonlOptions(path=str(path)))
    end = source.latest(BEGINNING, None)
    assert [row.properties for row in between(source, BEGINNING, end)] == ['{"a":1}']
    with path.open("ab") as file:
        file.write(b"2}")
    assert source.latest(end, None) == end
    os.utime(path, (time.time() - 5,) * 2)
    quiet = source.latest(end, None)
    assert [row.properties for row in between(source, end, quiet)] == ['{"a":22}']


@given(st.binary(max_size=60))
def test_bytes_are_read_or_refused_never_anything_else(line: bytes) -> None:
    try:
        json.dumps(read_object(line), ensure_ascii=False, allow_nan=False).encode("utf-8")
    except LineError as error:
        assert str(error)
