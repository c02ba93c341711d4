"""Converts AMQP messages to JSON lines and back.

A line has the form that `tamis match` reads, with the names that the broker's queries use: the routing key is the
topic, headers and AMQP properties are properties, the body is the body. So the output of `tamis consume` can be
matched, or published again."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika

from tamis import Engine, Query
from tamis.cli import output
from tamis.cli.json_messages import JsonMessage
from tamis.errors import ConfigError
from tamis.name_hints import did_you_mean

BODY_BASE64 = "body_base64"
"""The field with a body that is not text."""
NESTED = "properties"
"""A field with an object whose fields are properties too."""
TABLE_DEPTH_MAX = 32
"""Maximum nesting of tables in headers."""
PERSISTENT = 2


@dataclass(frozen=True)
class Outgoing:
    """A message to publish: routing key, AMQP properties with the headers, and body."""

    key: str
    properties: Any
    body: bytes


# ---- AMQP properties ----


def _short(value: Any) -> str:
    if not isinstance(value, str) or len(value.encode()) > 255:
        raise ValueError("text of at most 255 bytes")
    return value


def _octet(value: Any) -> int:
    number = _integer(value)
    if not 0 <= number <= 255:
        raise ValueError("a whole number from 0 to 255")
    return number


def _mode(value: Any) -> int:
    number = _integer(value)
    if number not in (1, PERSISTENT):
        raise ValueError("1 (transient) or 2 (persistent)")
    return number


def _milliseconds(value: Any) -> str:
    number = _integer(value)
    if number < 0:
        raise ValueError("milliseconds")
    return str(number)


def _integer(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError("a whole number")


def _seconds(value: Any) -> int:
    """Return seconds since 1970, from a number or from a time in ISO 8601; a time without a zone is UTC."""
    try:
        number = _integer(value)
    except ValueError:
        try:
            when = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            raise ValueError("a time: 2026-01-31T12:00:00+00:00, or seconds since 1970") from None
        number = int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())
    if not 0 <= number < 2**63:
        raise ValueError("a time since 1970")
    return number


PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "content_type": _short,
    "content_encoding": _short,
    "delivery_mode": _mode,
    "priority": _octet,
    "correlation_id": _short,
    "reply_to": _short,
    "expiration": _milliseconds,
    "message_id": _short,
    "timestamp": _seconds,
    "type": _short,
    "user_id": _short,
    "app_id": _short,
    "cluster_id": _short,
}
"""Name -> the function that reads a value; its ValueError names what was expected."""


def property_option(text: str) -> tuple[str, Any]:
    """Parse ``name=value`` of ``--property``.

    Raises:
        ConfigError: AMQP has no such property, or the value has another type.
    """
    name, equals, value = text.partition("=")
    if not equals or name not in PROPERTIES:
        raise ConfigError(
            f"--property: expected name=value with an AMQP property, not '{text}'"
            f"{did_you_mean(name, list(PROPERTIES))}\n"
            f"  properties: {', '.join(PROPERTIES)}\n  other names are headers: --header price=12"
        )
    try:
        return name, PROPERTIES[name](value)
    except ValueError as error:
        raise ConfigError(f"--property: {name}: expected {error}, not '{value}'") from None


def header_option(text: str) -> tuple[str, Any]:
    """Parse ``name=value`` of ``--header``; a value that is JSON has its JSON type, any other is text.

    Raises:
        ConfigError: the form is another, or AMQP cannot carry the value.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(
            f"--header: expected name=value, not '{text}'\n  for example --header price=12 --header region=EU"
        )
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        parsed = value
    try:
        return name, _header(name, parsed)
    except ValueError as error:
        raise ConfigError(f"--header: {error}") from None


# ---- to AMQP ----


def outgoing(
    message: JsonMessage,
    key: str | None = None,
    properties: Mapping[str, Any] | None = None,
    headers: Mapping[str, Any] | None = None,
    persistent: bool = True,
) -> Outgoing:
    """Return the AMQP message of a line.

    A field with the name and type of an AMQP property becomes that property; any other field becomes a header. Queries
    see both under that name.

    Args:
        message: the line, as read by `MessageForm.read`.
        key: the routing key; None: the message's topic.
        properties: override those of the line.
        headers: override those of the line.
        persistent: whether messages without delivery_mode are persistent.

    Raises:
        ValueError: AMQP cannot carry a field; the text names it.
    """
    fields = dict(message.others)
    if isinstance(nested := fields.get(NESTED), dict):
        del fields[NESTED]
        fields = {**nested, **fields}
    basic: dict[str, Any] = {"delivery_mode": PERSISTENT if persistent else 1}
    body, content_type = _body(message.body, fields)
    if content_type:
        basic["content_type"] = content_type
    own_headers: dict[str, Any] = {}
    for name, value in fields.items():
        if (property_value := _property(name, value)) is not None:
            basic[name] = property_value
        else:
            own_headers[name] = _header(name, value)
    basic.update(properties or {})
    own_headers.update(headers or {})
    routing_key = message.topic if key is None else key
    if len(routing_key.encode()) > 255:
        raise ValueError("topic: expected a routing key of at most 255 bytes")
    return Outgoing(routing_key, pika.BasicProperties(headers=own_headers or None, **basic), body)


def _property(name: str, value: Any) -> Any:
    """Return the value of the AMQP property `name`, or None if it does not fit.

    `user_id` remains a header: the broker refuses every value but the user's own name.
    """
    read = PROPERTIES.get(name)
    if read is None or name == "user_id":
        return None
    try:
        return read(value)
    except ValueError:
        return None


def _body(text: str | None, fields: dict[str, Any]) -> tuple[bytes, str | None]:
    """Return the body, and its content type if it is known; remove the body's fields from `fields`."""
    if text is not None:
        return text.encode(), None
    if isinstance(encoded := fields.get(BODY_BASE64), str):
        try:
            body = base64.b64decode(encoded, validate=True)
        except ValueError as error:
            raise ValueError(f"{BODY_BASE64}: {error}") from None
        del fields[BODY_BASE64]
        return body, None
    if isinstance(fields.get("body"), dict | list):  # so a query on `body.price` gives the same result as on the line
        return json.dumps(fields.pop("body"), ensure_ascii=False).encode(), "application/json"
    return b"", None


def _header(name: str, value: Any, depth: int = 1) -> Any:
    """Return `value` if a field of an AMQP table can hold it."""
    if depth > TABLE_DEPTH_MAX:
        raise ValueError(f"{name}: nested deeper than {TABLE_DEPTH_MAX}")
    if len(name.encode()) > 255:
        raise ValueError(f"{name[:40]}...: expected a name of at most 255 bytes")
    if isinstance(value, str):
        value.encode()  # raises ValueError for half of a surrogate pair
    if isinstance(value, bool) or not isinstance(value, int | dict | list):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"{name}: expected a whole number of 64 bits")
        return value
    if isinstance(value, list):
        return [_header(name, part, depth + 1) for part in value]
    return {inner: _header(inner, part, depth + 1) for inner, part in value.items()}


# ---- from AMQP ----


def to_line(method: Any, properties: Any, body: bytes, with_delivery: bool = False) -> dict[str, Any]:
    """Return a delivered message as a JSON object.

    Args:
        method: basic.deliver.
        properties: the properties with the headers.
        body: the whole body.
        with_delivery: add ``delivery``: the exchange, and whether it was delivered before.
    """
    line: dict[str, Any] = {"topic": _text(method.routing_key)}
    for name, value in (properties.headers or {}).items():
        line[_text(name)] = _plain(value)
    for name in PROPERTIES:
        if (value := getattr(properties, name)) is not None:
            line[name] = _time(value) if name == "timestamp" else _text(value)
    try:
        line["body"] = body.decode("utf-8")
    except UnicodeDecodeError:
        line[BODY_BASE64] = base64.b64encode(body).decode("ascii")
    line["topic"] = _text(method.routing_key)  # even if a header has this name
    if with_delivery:
        line["delivery"] = {"exchange": _text(method.exchange), "redelivered": method.redelivered}
    return line


class AnswersKept:
    """Lets lines be read back with the answer that the broker gave: a body that a query read as JSON is JSON there.

    Args:
        query: what all messages satisfied, with their bodies as text and as JSON.
    """

    def __init__(self, query: Query) -> None:
        self._engine: Engine[int] = Engine()
        self._engine.add(0, query)

    def __call__(self, line: dict[str, Any]) -> dict[str, Any]:
        """Return the line of `to_line`, with its body as text if the query is true of that, else as JSON, if it is."""
        body = line.get("body")
        if not isinstance(body, str) or self._engine.match_json(output.to_json(line)):
            return line
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError):
            return line
        return {**line, "body": fields} if isinstance(fields, dict | list) else line


def _plain(value: Any) -> Any:
    """Return the value of a header as JSON has it."""
    if isinstance(value, dict):
        return {_text(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    return _text(value)


def _text(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _time(seconds: int) -> str | int:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return seconds  # after the year 9999
