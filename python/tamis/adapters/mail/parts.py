"""Finds the text parts of a message: walks its MIME tree in one pass, whatever its depth.

A part ends where the next boundary line of any open multipart begins, so that no level searches or copies what is below
it. Only headers are given to the standard library's parser, which would recurse as deep as the message says.

Source: RFC 2046, section 5.1 (multipart) and 5.2 (message)."""

from __future__ import annotations

import email.parser
import email.policy
import email.utils
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from typing import Final, NamedTuple

from tamis.adapters.mail.transfer import decode_transfer, is_encoded

HEADER_BYTES_MAX: Final = 1 << 20
PART_COUNT_MAX: Final = 10_000
DEPTH_MAX: Final = 100
DASHED_LINES_MAX: Final = 1_000_000
"""Maximum number of lines that begin with ``--`` and are compared with boundaries."""
DECODED_BYTES_MAX: Final = 64 << 20
"""Maximum size of all encoded messages within the message together."""
PARAMETERS_CHARACTERS_MAX: Final = 2_000

_BLANK_LINE = re.compile(rb"\r?\n\r?\n|\r\r")
_MESSAGES: Final = ("message/rfc822", "message/global", "message/news")
_KINDS: Final = {"text/plain": 0, "text/html": 1}
_HEADERS = email.parser.HeaderParser(policy=email.policy.compat32)


class MailError(ValueError):
    """A message cannot be read; `str()` is the reason, for the dead letter."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A message, or a part of one.

    Attributes:
        headers: its headers.
        content: the position of the first byte after them.
        depth: its level in the tree.
        message_depth: number of messages around it.
    """

    headers: Message
    content: int
    depth: int = 0
    message_depth: int = 0


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part that is text: its headers, its encoded bytes, and the number of messages around it."""

    headers: Message
    content: bytes
    message_depth: int

    @property
    def rank(self) -> tuple[int, bool, int]:
        """Orders parts by how well they serve as the text of the message; attached messages and files come last."""
        kind = _KINDS.get(self.headers.get_content_type(), 2)
        return self.message_depth, self.headers.get_content_disposition() == "attachment", kind


def read_headers(raw: bytes, start: int, end: int) -> tuple[Message, int]:
    """Return the headers that begin at `start`, and the position of the content after them; both are before `end`.

    Raises:
        MailError: they are longer than `HEADER_BYTES_MAX`.
    """
    if raw.startswith((b"\n", b"\r\n"), start):  # no header at all, as MIME allows for a part
        return Message(), raw.index(b"\n", start) + 1
    limit = min(end, start + HEADER_BYTES_MAX)
    blank = _BLANK_LINE.search(raw, start, limit)
    block = raw[start : blank.start() if blank else limit]
    headers = _HEADERS.parsestr(block.decode("latin-1"))  # one character per byte, in any character set
    strayed = len(str(headers.get_payload()))  # a line that is no header ends the headers: the text begins there
    if not blank and not strayed and end > limit:
        raise MailError(f"the header is longer than {HEADER_BYTES_MAX:,} bytes")
    for name in ("Content-Type", "Content-Disposition"):
        _shorten(headers, name)
    return headers, blank.end() if blank and not strayed else start + len(block) - strayed


class TextParts:
    """The text parts of a message, in their order.

    Attributes:
        cut: the bound beyond which nothing was read; None if everything was.
    """

    def __init__(self, raw: bytes, root: Entity) -> None:
        self.cut: str | None = None
        self._raw, self._root = raw, root
        self._part_count = self._decoded_bytes = 0

    def __iter__(self) -> Iterator[TextPart]:
        """Walk the tree. Cost: linear in the message; it goes no further than its caller asks."""
        return self._walk(self._raw, self._root)

    def _walk(self, raw: bytes, entity: Entity) -> Iterator[TextPart]:
        open_parts = _OpenMultiparts(raw)
        while self._part_count < PART_COUNT_MAX:
            self._part_count += 1
            if _is_message(entity) and not is_encoded(_encoding(entity)):
                entity = self._entity(raw, entity.content, entity, open_parts, messages=1)
                continue
            level = open_parts.open(entity)
            after = open_parts.next_boundary(entity.content)
            yield from self._content(entity, open_parts.content(entity, after), has_parts=after.level == level)
            while after.closes:
                open_parts.close(after.level)
                after = open_parts.next_boundary(after.end)
            if after.level < 0:
                self.cut = open_parts.cut or self.cut
                return
            entity = self._entity(raw, after.end, open_parts.enter(after.level), open_parts)
        self.cut = f"{PART_COUNT_MAX:,} parts"

    def _content(self, entity: Entity, content: bytes, *, has_parts: bool) -> Iterator[TextPart]:
        """Return the kind of an entity: text, an encoded message, a multipart without boundary lines, or nothing."""
        kind = entity.headers.get_content_maintype()
        if kind == "text":
            yield TextPart(entity.headers, content, entity.message_depth)
        elif kind == "multipart" and not has_parts:
            yield TextPart(Message(), content, entity.message_depth)
        elif _is_message(entity):
            decoded = decode_transfer(content, _encoding(entity))
            self._decoded_bytes += len(decoded)
            if self._decoded_bytes > DECODED_BYTES_MAX:
                self.cut = f"{DECODED_BYTES_MAX:,} bytes of encoded messages"
                return
            yield from self._walk(decoded, self._entity(decoded, 0, entity, _OpenMultiparts(decoded), messages=1))

    def _entity(
        self, raw: bytes, start: int, parent: Entity, open_parts: _OpenMultiparts, *, messages: int = 0
    ) -> Entity:
        """Return the entity at `start`; one without content that is read if it is too deep, or its header too long."""
        depth, message_depth = parent.depth + 1, parent.message_depth + messages
        if depth > DEPTH_MAX:
            self.cut = f"{DEPTH_MAX} levels"
            return _opaque(start, depth)
        try:
            headers, content = read_headers(raw, start, open_parts.end_of_header(start))
        except MailError:
            return _opaque(start + HEADER_BYTES_MAX, depth)  # it does not spoil the message
        if parent.headers.get_content_type() == "multipart/digest" and "content-type" not in headers:
            headers["Content-Type"] = "message/rfc822"  # RFC 2046, 5.1.5
        return Entity(headers, content, depth, message_depth)


class _Boundary(NamedTuple):
    """A boundary line: where it begins and ends, its multipart (-1: the end of data), and whether it is the last."""

    start: int
    end: int
    level: int
    closes: bool


class _OpenMultiparts:
    """The multiparts around a position in the data, outermost first, and the boundary lines of all of them.

    Attributes:
        cut: why no boundary line is searched for any more; None if it still is.
    """

    def __init__(self, raw: bytes) -> None:
        self.cut: str | None = None
        self._raw = raw
        self._entities: list[Entity] = []
        self._boundaries: list[bytes] = []
        self._levels: dict[bytes, int] = {}
        self._line_count = 0
        self._blank = (0, -1, 0)  # a position, and where the first blank line after it begins and ends

    def open(self, entity: Entity) -> int | None:
        """Enter a multipart; return its level, or None for what is none, or has no boundary of its own."""
        if entity.headers.get_content_maintype() != "multipart":
            return None
        boundary = parameter(entity.headers, "boundary")
        if boundary is None or boundary in self._levels:
            return None
        self._levels[boundary] = len(self._entities)
        self._entities.append(entity)
        self._boundaries.append(boundary)
        return len(self._entities) - 1

    def enter(self, level: int) -> Entity:
        """Leave the multiparts within `level`; return that multipart."""
        self.close(level + 1)
        return self._entities[level]

    def close(self, level: int) -> None:
        """Leave `level` and the multiparts within it."""
        for boundary in self._boundaries[level:]:
            del self._levels[boundary]
        del self._entities[level:], self._boundaries[level:]

    def next_boundary(self, position: int, limit: int | None = None) -> _Boundary:
        """Return the first boundary line at or after `position`, which is the start of a line, and before `limit`."""
        raw, at = self._raw, max(0, position - 1)
        while self._levels and (at := raw.find(b"\n--", at, limit)) >= 0 and self._may_look():
            line_end = raw.find(b"\n", at + 3) % (len(raw) + 1)  # the last line may have no end
            line = raw[at + 3 : min(line_end, at + 3 + PARAMETERS_CHARACTERS_MAX)].rstrip(b" \t\r")
            for boundary, closes in ((line, False), (line.removesuffix(b"--"), True)):
                if (level := self._levels.get(boundary)) is not None:
                    return _Boundary(at + 1, min(line_end + 1, len(raw)), level, closes)
            at += 3
        return _Boundary(len(raw), len(raw), -1, closes=False)

    def end_of_header(self, start: int) -> int:
        """Return the latest end of the headers that begin at `start`: a boundary line before the first blank line."""
        if not self._blank[0] <= start <= self._blank[1]:  # else no byte is searched twice
            blank = _BLANK_LINE.search(self._raw, start)
            self._blank = (start, *blank.span()) if blank else (start, len(self._raw), len(self._raw))
        boundary = self.next_boundary(start, min(self._blank[2], start + HEADER_BYTES_MAX))
        return len(self._raw) if boundary.level < 0 else boundary.start

    def content(self, entity: Entity, after: _Boundary) -> bytes:
        """Return the bytes of an entity before a boundary line; the line end before that line belongs to it."""
        content = self._raw[entity.content : after.start]
        if after.level < 0:
            return content
        return content[:-2] if content.endswith(b"\r\n") else content.removesuffix(b"\n")

    def _may_look(self) -> bool:
        self._line_count += 1
        if self._line_count > DASHED_LINES_MAX:
            self.cut = f"{DASHED_LINES_MAX:,} lines that begin with '--'"
        return self.cut is None


def parameter(headers: Message, name: str) -> bytes | None:
    """Return a parameter of Content-Type as bytes; None if it is absent or cannot be read."""
    try:
        value = headers.get_param(name)
        text = email.utils.collapse_rfc2231_value(value) if value else ""
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
    try:
        return text.strip().encode("latin-1") or None
    except UnicodeEncodeError:  # only RFC 2231 can encode such a name, and boundary lines do not use it
        return None


def _shorten(headers: Message, name: str) -> None:
    """Shorten a header with parameters, which the library's parser reads in quadratic time."""
    value = str(headers.get(name, ""))
    if len(value) > PARAMETERS_CHARACTERS_MAX:
        headers.replace_header(name, value[:PARAMETERS_CHARACTERS_MAX])


def _is_message(entity: Entity) -> bool:
    return entity.headers.get_content_type() in _MESSAGES


def _encoding(entity: Entity) -> str:
    return str(entity.headers.get("Content-Transfer-Encoding", ""))


def _opaque(start: int, depth: int) -> Entity:
    headers = Message()
    headers["Content-Type"] = "application/octet-stream"
    return Entity(headers, start, depth)
