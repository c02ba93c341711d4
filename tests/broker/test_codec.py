"""The codec agrees with pamqp, which was written by others from the same specification."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import body, commands, frame, header, heartbeat

from tamis._core import amqp_decode_frame, amqp_encode_method
from tamis.errors import AmqpError

pytestmark = pytest.mark.filterwarnings("ignore:This command is deprecated:DeprecationWarning")  # basic.recover-async

FRAME_SIZE_MAX = 1 << 20
RENAMED = {"nowait": "no_wait", "global_": "global"}
METHODS = sorted(commands.INDEX_MAPPING.values(), key=lambda method: method.index)

short_strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
# pamqp takes seconds of more than 32 bits for milliseconds.
timestamps = st.integers(0, 2**32 - 1).map(lambda seconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(0, seconds))
decimals = st.builds(
    lambda digits, places: Decimal(digits).scaleb(-places), st.integers(0, 2**31 - 1), st.integers(0, 9)
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(width=32, allow_nan=False)
    | decimals
    | timestamps
    | short_strings
    | st.binary(max_size=20).map(bytearray)
)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
tables = st.dictionaries(keys, values, max_size=5)
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.booleans(),
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**63 - 1),
    "shortstr": short_strings,
    "longstr": st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    "table": tables,
    "timestamp": timestamps,
}


@pytest.fixture(autouse=True, scope="module")
def pamqp_writes_whatever_it_is_given() -> Iterator[None]:
    """pamqp also checks what values mean (`insist`, names of exchanges, modes): here that is the broker's task."""
    with pytest.MonkeyPatch.context() as patch:
        for method in [*METHODS, commands.Basic.Properties]:
            patch.setattr(method, "validate", lambda self: None)
        yield


def our_name(method: type) -> str:
    """Basic.RecoverAsync -> basic.recover-async"""
    class_name, method_name = method.name.split(".")  # type: ignore[attr-defined]
    return f"{class_name.lower()}.{re.sub(r'(?<!^)(?=[A-Z])', '-', method_name).lower()}"


def plain(value: Any) -> Any:
    """Return the same value without the types that only pamqp distinguishes."""
    match value:
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case bytearray():
            return bytes(value)
        case _:
            return value


def fields_of(method: type) -> list[tuple[str, str]]:
    """Return the name and type of each field."""
    return [(name, method.amqp_type(name)) for name in method.__slots__]  # type: ignore[attr-defined]


def filled(method: type, data: st.DataObject) -> tuple[Any, dict[str, Any]]:
    """Return a pamqp method with random values, and its fields in our form."""
    theirs = method()
    ours = {}
    for name, kind in fields_of(method):
        value = data.draw(BY_TYPE[kind], label=name)
        setattr(theirs, name, value)
        ours[RENAMED.get(name, name)] = value.encode() if kind == "longstr" else plain(value)
    return theirs, ours


@pytest.mark.parametrize("method", METHODS, ids=our_name)
@settings(max_examples=8)
@given(data=st.data(), channel=st.integers(0, 2**16 - 1))
def test_a_method_that_pamqp_wrote_reads_the_same(method: type, data: st.DataObject, channel: int) -> None:
    theirs, ours = filled(method, data)
    written = frame.marshal(theirs, channel)
    assert amqp_decode_frame(written + b"more", FRAME_SIZE_MAX) == (channel, our_name(method), ours, len(written))


@pytest.mark.parametrize("method", METHODS, ids=our_name)
@settings(max_examples=8)
@given(data=st.data(), channel=st.integers(0, 2**16 - 1))
def test_a_method_that_we_wrote_reads_the_same_with_pamqp(method: type, data: st.DataObject, channel: int) -> None:
    _, ours = filled(method, data)
    written = amqp_encode_method(channel, our_name(method), ours)
    consumed, their_channel, theirs = frame.unmarshal(written)
    assert (consumed, their_channel, type(theirs)) == (len(written), channel, method)
    read = {RENAMED.get(name, name): plain(getattr(theirs, name)) for name, _ in fields_of(method)}
    longstr = {RENAMED.get(name, name) for name, kind in fields_of(method) if kind == "longstr"}
    assert read == {name: value.decode() if name in longstr else value for name, value in ours.items()}
    assert amqp_decode_frame(written, FRAME_SIZE_MAX) == (channel, our_name(method), ours, len(written))


PROPERTIES = [(name, commands.Basic.Properties.amqp_type(name)) for name in commands.Basic.Properties.__slots__]
some_properties = st.fixed_dictionaries({}, optional={name: BY_TYPE[kind] for name, kind in PROPERTIES})


@given(some_properties, st.integers(0, 2**63 - 1), st.integers(1, 2**16 - 1))
def test_a_content_header_that_pamqp_wrote_reads_the_same(chosen: dict[str, Any], body_size: int, channel: int) -> None:
    written = frame.marshal(header.ContentHeader(0, body_size, commands.Basic.Properties(**chosen)), channel)
    decoded = amqp_decode_frame(written, FRAME_SIZE_MAX)
    assert decoded is not None
    read_channel, name, fields, consumed = decoded
    assert (read_channel, name, consumed, fields["body_size"]) == (channel, "header", len(written), body_size)
    # pamqp omits empty values, which we do not.
    expected = {"type" if name == "message_type" else name: plain(value) for name, value in chosen.items()}
    assert fields["properties"] == {name: expected[name] for name in fields["properties"]}
    assert all(value in ("", 0, {}) for name, value in expected.items() if name not in fields["properties"])


@given(st.binary(max_size=200), st.integers(1, 2**16 - 1))
def test_bodies_and_heartbeats_that_pamqp_wrote_read_the_same(content: bytes, channel: int) -> None:
    written = frame.marshal(body.ContentBody(content), channel)
    assert amqp_decode_frame(written, FRAME_SIZE_MAX) == (channel, "body", {"body": content}, len(written))
    alive = frame.marshal(heartbeat.Heartbeat(), 0)
    assert amqp_decode_frame(alive + written, FRAME_SIZE_MAX) == (0, "heartbeat", {}, 8)


@given(tables)
def test_a_frame_is_waited_for_until_its_last_byte(arguments: dict[str, Any]) -> None:
    written = amqp_encode_method(1, "queue.declare", {"queue": "q", "arguments": arguments})
    for end in range(len(written)):
        assert amqp_decode_frame(written[:end], FRAME_SIZE_MAX) is None


@given(st.binary(max_size=80))
def test_any_bytes_are_a_frame_or_refused_with_a_code(garbage: bytes) -> None:
    framed = b"\x01\x00\x01" + len(garbage).to_bytes(4, "big") + garbage + b"\xce"
    for data in (garbage, framed, b"\x02" + framed[1:]):
        try:
            amqp_decode_frame(data, FRAME_SIZE_MAX)
        except AmqpError as error:
            assert error.reply_code in (501, 502, 505, 540)
            assert len(str(error).encode()) <= 255


@pytest.mark.parametrize(
    ("data", "code", "text", "method"),
    [
        (b"GET / HTTP/1.1\r\n", 501, "FRAME_ERROR - unknown frame type 71", (0, 0)),
        (
            b"\x01\x00\x00\xff\xff\xff\xff",
            501,
            "FRAME_ERROR - a frame of 4294967303 bytes is over the agreed frame_max of 4096",
            (0, 0),
        ),
        (
            b"\x01\x00\x01\x00\x00\x00\x04\x00\x3c\x00\x28\xce",
            502,
            "SYNTAX_ERROR - the fields end too early",
            (60, 40),
        ),
        (b"\x01\x00\x01\x00\x00\x00\x04\x00\x3c\x00\x63\xce", 540, "NOT_IMPLEMENTED - unknown method", (60, 99)),
    ],
)
def test_what_is_wrong_is_told_as_a_close_carries_it(
    data: bytes, code: int, text: str, method: tuple[int, int]
) -> None:
    with pytest.raises(AmqpError) as caught:
        amqp_decode_frame(data, 4096)
    error = caught.value
    assert (error.reply_code, error.reply_text, (error.class_id, error.method_id)) == (code, text, method)


def test_a_table_may_hold_what_python_has_no_type_for() -> None:
    arguments = (
        b"\x01aS\x00\x00\x00\x01\xff\x01bT" + b"\xff" * 8 + b"\x01cL" + b"\xff" * 8 + b"\x01d\x44\x02\x00\x00\x00\x7b"
    )
    payload = b"\x00\x32\x00\x0a\x00\x00\x01q\x00" + len(arguments).to_bytes(4, "big") + arguments
    written = b"\x01\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce"
    decoded = amqp_decode_frame(written, FRAME_SIZE_MAX)
    assert decoded is not None
    assert decoded[2]["arguments"] == {"a": b"\xff", "b": 2**64 - 1, "c": -1, "d": Decimal("1.23")}


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"queue": "x" * 256}, ValueError, "queue.declare: 'queue' must be text of at most 255 bytes"),
        ({"queue": 3}, ValueError, "queue.declare: 'queue' must be text of at most 255 bytes"),
        ({"ticket": -1}, ValueError, "queue.declare: 'ticket' must be a number from 0 to 65535"),
        ({"durable": 1}, ValueError, "queue.declare: 'durable' must be true or false"),
        ({"arguments": {"x": ENDLESS}}, ValueError, "'x': expected at most 32 levels of tables and lists"),
        ({"arguments": {"x": 2**63}}, ValueError, "'x': expected an integer of at most 64 bits"),
        (
            {"arguments": {"x": {"y": object()}}},
            TypeError,
            "'x': 'y': expected a value that AMQP has a type for, not object",
        ),
        ({"arguments": {"x": Decimal("1e99999999")}}, ValueError, "digits are a 32-bit integer"),
        ({"arguments": {"x": Decimal("nan")}}, ValueError, "digits are a 32-bit integer"),
        ({"arguments": {"x" * 256: 1}}, ValueError, "a table with names of at most 255 bytes"),
        ({"arguments": {"x": "y" * 262144}}, ValueError, "a table of at most 262144 bytes"),
        ({"queu": "q"}, ValueError, "queue.declare has no field 'queu': its fields are ticket, queue, passive"),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(fields: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        amqp_encode_method(1, "queue.declare", fields)


def test_an_unknown_method_cannot_be_written() -> None:
    with pytest.raises(ValueError, match=re.escape("no method 'queue.peek'")):
        amqp_encode_method(1, "queue.peek", {})
