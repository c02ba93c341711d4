"""Converts AMQP messages to JSON lines and back."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pika = pytest.importorskip("pika", reason="the client is not installed: pip install 'tamis[client]'")

import tamis  # noqa: E402
from tamis.cli.amqp.json_lines import (  # noqa: E402
    BODY_BASE64,
    AnswersKept,
    header_option,
    outgoing,
    property_option,
    to_line,
)
from tamis.cli.json_messages import MessageForm  # noqa: E402
from tamis.errors import ConfigError  # noqa: E402


def through_the_wire(properties: Any) -> Any:
    import tamis.cli.amqp.connection  # noqa: F401 - teaches pika floats

    decoded = pika.BasicProperties()
    decoded.decode(b"".join(properties.encode()))
    return decoded


def line_of(text: str) -> dict[str, Any]:
    """Return a JSON line after it has been published and consumed."""
    message = outgoing(MessageForm().read(text))
    method = SimpleNamespace(routing_key=message.key, exchange="", redelivered=False)
    line = to_line(method, through_the_wire(message.properties), message.body)
    assert line.pop("delivery_mode") == 2
    return line


finite = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | finite | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)
own_names = st.text(min_size=1, max_size=20).map(lambda name: f"x{name}")


@given(st.text(max_size=60), st.dictionaries(own_names, values, max_size=5), st.text())
def test_what_is_published_is_what_is_consumed(topic: str, fields: dict[str, Any], body: str) -> None:
    line = {"topic": topic, **fields, "body": body}
    assert line_of(json.dumps(line)) == line


ASKED = [
    tamis.selector(text)
    for text in (
        "body.id = 9",
        "NOT body.id = 9",
        "body.id = 9 OR n = 1",
        "body.deep.id > 5 AND n = 1",
        "body.rows.id = 9",
        "CONTAINS(body, 'frost')",
        "body LIKE '%9%'",
        "body.at > TIMESTAMP '2026-01-01T00:00:00Z'",
        "grp UNDER 'x' OR body.id = 9",
    )
]
numbers = st.sampled_from([3, 9, "9", None])
bodies = st.one_of(
    st.sampled_from(["frost", "9", "", "[]", "{"]),
    st.fixed_dictionaries(
        {},
        optional={
            "id": numbers,
            "deep": st.fixed_dictionaries({"id": numbers}),
            "rows": st.lists(st.fixed_dictionaries({"id": numbers}), max_size=2),
            "at": st.just("2026-02-01T12:00:00Z"),
            "say": st.just("first frost"),
        },
    ).map(json.dumps),
)


@given(st.sampled_from(ASKED), bodies, st.sampled_from([1, 2]))
def test_what_tail_prints_is_read_back_with_the_answer_of_the_broker(query: tamis.Query, body: str, n: int) -> None:
    """In the broker a query sees the body as text, and the fields of one that is JSON as properties under `body.`."""
    line = {"topic": "t", "n": n, "body": body}
    try:
        fields = json.loads(body)
    except ValueError:
        fields = None
    seen = {"n": n, "body": fields} if isinstance(fields, dict | list) else {"n": n}
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add("it", query)
    parts = pa.table({"properties": [json.dumps(seen)], "topic": ["t"], "body": [body]})
    if engine.match_batch(parts).to_pylist()[0]:
        assert engine.match_json(json.dumps(AnswersKept(query)(line))) == ["it"]


@given(st.binary())
def test_a_body_that_is_no_text_survives(body: bytes) -> None:
    method = SimpleNamespace(routing_key="a", exchange="", redelivered=False)
    line = to_line(method, pika.BasicProperties(), body)
    assert (BODY_BASE64 in line) != ("body" in line)
    assert outgoing(MessageForm().read(json.dumps(line))).body == body


@given(st.dictionaries(st.sampled_from(["type", "priority", "timestamp", "expiration", "user_id", "app_id"]), values))
def test_a_field_that_does_not_fit_a_property_of_amqp_is_a_header(fields: dict[str, Any]) -> None:
    message = outgoing(MessageForm().read(json.dumps(fields)))
    headers = message.properties.headers or {}
    for name, value in fields.items():
        as_property = getattr(message.properties, name)
        assert (name in headers) != (as_property is not None)
        assert headers.get(name, value) == value
    assert message.properties.user_id is None  # the broker refuses another than the user's own


def test_properties_of_amqp_have_their_types() -> None:
    when = "2026-01-31T12:00:00Z"
    fields = {"priority": 3, "timestamp": when, "expiration": 5000, "type": "tick", "correlation_id": "7"}
    assert line_of(json.dumps(fields)) == {
        "topic": "",
        "priority": 3,
        "timestamp": "2026-01-31T12:00:00+00:00",
        "expiration": "5000",
        "type": "tick",
        "correlation_id": "7",
        "body": "",
    }


def test_properties_may_stand_in_an_object_of_their_own() -> None:
    assert line_of('{"topic": "a", "properties": {"price": 1.5, "app_id": "x"}, "body": "b"}') == {
        "topic": "a",
        "price": 1.5,
        "app_id": "x",
        "body": "b",
    }


def test_a_body_that_is_an_object_is_published_as_json() -> None:
    message = outgoing(MessageForm().read('{"body": {"price": 3}}'))
    assert (json.loads(message.body), message.properties.content_type) == ({"price": 3}, "application/json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"n": 99999999999999999999}', "n: expected a whole number of 64 bits"),
        ('{"topic": "' + "x" * 256 + '"}', "at most 255 bytes"),
        ('{"' + "n" * 256 + '": 1}', "a name of at most 255 bytes"),
        ('{"n": ' + "[" * 40 + "]" * 40 + "}", "nested deeper than 32"),
        ('{"n": "\\ud800"}', "surrogates not allowed"),
        ('{"body_base64": "?"}', "body_base64"),
    ],
)
def test_what_amqp_cannot_carry_is_refused_by_name(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        outgoing(MessageForm().read(text))


def test_options_count_before_the_line_and_have_types() -> None:
    properties = dict([property_option("priority=3"), property_option("app_id=mine")])
    headers = dict([header_option("price=12"), header_option("region=EU"), header_option('id="12"')])
    message = outgoing(MessageForm().read('{"price": 1, "priority": 9}'), "key", properties, headers, persistent=False)
    assert message.key == "key"
    assert message.properties.headers == {"price": 12, "region": "EU", "id": "12"}
    assert (message.properties.priority, message.properties.app_id, message.properties.delivery_mode) == (3, "mine", 1)


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("prority=3", "did you mean 'priority'"),
        ("priority=300", "expected a whole number from 0 to 255, not '300'"),
        ("timestamp=soon", "expected a time"),
        ("delivery_mode=3", "persistent"),
        ("priority", "expected name=value"),
    ],
)
def test_a_property_that_amqp_has_not_is_explained(option: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        property_option(option)


def test_a_header_without_a_value_is_explained() -> None:
    with pytest.raises(ConfigError, match="expected name=value, not 'price'"):
        header_option("price")
