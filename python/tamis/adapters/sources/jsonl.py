"""Reads JSON lines: each line is a message, its members are the properties, and new lines are appended.

A line is complete with its line feed; a last line without one is read when the file has not changed for a second. A
line that is not a JSON object, or that cannot be a message, becomes a dead letter.

Source: RFC 8259 (JSON); docs/semantics.md, "Messages", for what a property can be."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NoReturn

from tamis.adapters.mail.message import MESSAGE_BYTES_MAX
from tamis.adapters.options import FileOptions, option
from tamis.adapters.rows import Row, digest_of, signature_of, too_large
from tamis.adapters.sources.records import Piece, RecordSource
from tamis.adapters.sources.source import path_text
from tamis.adapters.xml import DEPTH_MAX, to_xml

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_HALF_CHARACTERS = re.compile("[\ud800-\udfff]")


class LineError(ValueError):
    """A line cannot be a message; `str()` is the reason, for the dead letter."""


@dataclass(frozen=True, kw_only=True)
class JsonlOptions(FileOptions):
    """The options of JSON lines.

    Attributes:
        body_field: the member that is the body.
        topic_field: the member that is the topic, where it is text.
    """

    body_field: str | None = option(None)
    topic_field: str | None = option(None)


class JsonlSource(RecordSource):
    """The lines of a file, a folder or a glob of files."""

    Options = JsonlOptions
    options: JsonlOptions
    type: ClassVar[str] = "jsonl"
    pattern: ClassVar[str] = "*.jsonl"
    settle_ms: ClassVar[int] = 1_000
    separator: ClassVar[bytes] = b"\n"

    def row(self, piece: Piece, path: str) -> Row | None:
        """The row of one line; None for an empty one."""
        if not piece.content.strip():
            return None
        topic, partition, digest = self.options.topic, path_text(path), digest_of(piece.content)
        try:
            if not piece.is_whole:
                raise LineError(too_large(piece.size_bytes, MESSAGE_BYTES_MAX))
            properties = read_line(piece.content)
        except LineError as error:
            return Row(partition, piece.offset, digest, topic, error=str(error), raw=piece.content)
        if isinstance(named := properties.get(self.options.topic_field or ""), str):
            topic = named
        body = _text(properties.pop(self.options.body_field, None)) if self.options.body_field else None
        xml = to_xml(properties, body)
        text = json.dumps(properties, ensure_ascii=False, separators=(",", ":"))
        signature = signature_of(body, self.signature_stop_words)
        return Row(partition, piece.offset, digest, topic, text, body, xml, signature)


def read_line(line: bytes) -> dict[str, Any]:
    """Read the object of a line. A lone surrogate, which is not text, becomes U+FFFD.

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
    """The value without lone surrogates, checked against every limit on properties."""
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
        raise LineError("expected numbers that floating point can hold")
    return value


def _text(value: Any) -> str | None:
    """A member as the body: text stays as it is, anything else becomes JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _no_constant(name: str) -> NoReturn:
    raise LineError(f"expected a JSON object: {name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
_KINDS: Final = {list: "a list", str: "text", bool: "true or false", type(None): "null"}
