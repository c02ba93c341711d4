"""Makes the row of a message that is a JSON object: its topic, body and identity may be members of it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from tamis.adapters.options import PropertyOptions, option
from tamis.adapters.rows import RAW_KEPT_BYTES, Row, digest_of, document_of, new_names, signature_of, topic_of
from tamis.adapters.xml import DEPTH_MAX

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_HALF_CHARACTERS = re.compile("[\ud800-\udfff]")


class LineError(ValueError):
    """A text cannot be a message; `str()` is the reason, for the dead letter."""


@dataclass(frozen=True, kw_only=True)
class JsonRowOptions(PropertyOptions):
    """The options of sources whose messages are JSON objects, or become some.

    Attributes:
        body_field: the member that is the body.
        id_field: the member that names the message: one with a known value of it is the same message.
        id_space: where the values of that member are known: sources with another one may use the same values.
    """

    body_field: str | None = option(None)
    id_field: str | None = option(None)
    id_space: str | None = option(None)


def json_row(
    content: bytes,
    partition: str,
    offset: int,
    topic: str,
    options: JsonRowOptions,
    stop_words: frozenset[str] | None = None,
    *,
    identity: str | None = None,
) -> Row:
    """Return the row of one JSON object, or a dead letter if the text is not one.

    Args:
        content: its text in UTF-8.
        partition: where it came from.
        offset: where it begins there.
        topic: its topic, where the options name no member for it.
        options: which members are topic, body and identity.
        stop_words: the words that the signature leaves out; None makes no signature.
        identity: what names the message, where the options name no member for it.
    """
    digest = digest_of(content)
    try:
        properties = renamed(read_object(content), options.fields)
    except LineError as error:
        raw = content[:RAW_KEPT_BYTES]
        return Row(partition, offset, digest, topic, error=str(error), raw=raw, identity=identity)
    topic = topic_of(properties, options.topic_field, topic)
    identity = own_identity(properties, options) or identity
    body = _text(properties.pop(options.body_field, None)) if options.body_field else None
    xml = document_of(properties, body, options.xml)
    text = json.dumps(properties, ensure_ascii=False, separators=(",", ":"))
    signature = signature_of(body, stop_words)
    return Row(partition, offset, digest, topic, text, body, xml, signature, identity=identity)


def own_identity(members: Mapping[str, Any], options: JsonRowOptions) -> str | None:
    """Return what the member `id_field` says that a message is, or None."""
    if options.id_field is None or (own := members.get(options.id_field)) is None:
        return None
    space = [] if options.id_space is None else [options.id_space]
    return digest_of(json.dumps([*space, options.id_field, own], ensure_ascii=False).encode())


def body_members(body: bytes) -> dict[str, Any]:
    """Return the members of a body that is a JSON object. Any other body is the member `body`, in base64 if it is not
    UTF-8."""
    try:
        return read_object(body)
    except LineError:
        return {"body": text_or_base64(body)}


def text_or_base64(content: bytes) -> str:
    """Return bytes as text; in base64 if they are not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(content).decode("ascii")


def renamed(properties: dict[str, Any], fields: str | None) -> dict[str, Any]:
    """Return the members with the new names of the option `fields`; one below others is copied, others are moved."""
    for new, old in new_names(fields):
        if old in properties:
            properties[new] = properties.pop(old)
        else:
            value: Any = properties
            for part in old.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if value is not None:
                properties[new] = value
    return properties


def read_object(line: bytes) -> dict[str, Any]:
    """Read the object of a text. A lone surrogate, which is not text, becomes U+FFFD.

    Raises:
        LineError: it is not UTF-8, JSON or an object, or holds what no property can be: an integer beyond 64 bits, a
            number beyond floating point, or nesting deeper than 100.
    """
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LineError(f"byte {error.start} of the line: expected UTF-8") from error
    try:
        value = _DECODER.decode(text.strip())
    except RecursionError as error:
        raise LineError(f"expected at most {DEPTH_MAX} levels of objects and lists") from error
    except LineError:
        raise
    except ValueError as error:
        raise LineError(f"expected a JSON object: {error}") from error
    if not isinstance(value, dict):
        raise LineError(f"expected a JSON object, found {_KINDS.get(type(value), 'a number')}")
    return {_checked(name, 1): _checked(below, 2) for name, below in value.items()}


def _checked(value: Any, depth: int) -> Any:
    """Return the value without lone surrogates, checked against every limit on properties."""
    if isinstance(value, str):
        return value if value.isascii() else _HALF_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict | list):
        if depth > DEPTH_MAX:
            raise LineError(f"expected at most {DEPTH_MAX} levels of objects and lists")
        if isinstance(value, list):
            return [_checked(below, depth + 1) for below in value]
        return {_checked(name, depth): _checked(below, depth + 1) for name, below in value.items()}
    if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:
        raise LineError("expected integers of at most 64 bits")
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise LineError("expected numbers in the range of 64-bit floating point")
    return value


def _text(value: Any) -> str | None:
    """Return a member as the body: text stays as it is, anything else becomes JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _no_constant(name: str) -> NoReturn:
    raise LineError(f"expected a JSON object: {name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
_KINDS: Final = {list: "a list", str: "text", bool: "true or false", type(None): "null"}
