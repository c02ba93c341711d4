"""Writes and reads the XML document of a message: a tag for each item of metadata, and the full text.

It round-trips: `from_xml(to_xml(properties, body))` returns both exactly. If the text of an element has characters that
XML cannot carry, the element has ``escaped="true"``; such a character is written ``\\u{hex}``, a backslash ``\\\\``.
Parsing refuses document types, and with them all entities. The schema is docs/message.xsd.

Source: the PNNL paper, section 3.2, step 4; XML 1.0, section 2.2 (characters)."""

from __future__ import annotations

import math
import re
import xml.parsers.expat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from tamis.adapters.properties import MAIL_PROPERTIES

NAMESPACE: Final = "urn:tamis:message:1"
DEPTH_MAX: Final = 100

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPE_NEEDED = re.compile("[\\\\\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]{1,6})\}|\\)")
_KINDS: Final = {known.name: known.kind for known in MAIL_PROPERTIES}


class XmlError(ValueError):
    """A text is not the document of a message; `str()` says what was expected, and where."""


@dataclass(frozen=True, slots=True)
class XmlMessage:
    """The content of a document.

    Attributes:
        properties: the properties that were written, without those that were None.
        body: the full text, or None.
    """

    properties: dict[str, Any]
    body: str | None


def to_xml(properties: Mapping[str, Any], body: str | None) -> str:
    """Write the document of a message.

    Args:
        properties: name -> bool, int, float, str, datetime, None, or mappings and lists of these. A property of mail
            becomes a tag of its own if its value has the type of that property; all others become ``property``
            elements. None is left out at the top level and kept below it.
        body: the full text; None leaves it out.

    Raises:
        ValueError: the nesting is deeper than 100.
        TypeError: a value has another type; the text names the property.

    Cost: linear; 100 µs for a usual mail with its 25 headers.
    """
    pieces = [f'<message xmlns="{NAMESPACE}">\n']
    for name, value in properties.items():
        if value is not None:
            pieces.extend(_item(name, value))
    if body is not None:
        pieces.append(_element("body", body))
    pieces.append("</message>\n")
    return "".join(pieces)


def from_xml(text: str) -> XmlMessage:
    """Read the message from a document that `to_xml` wrote.

    Raises:
        XmlError: it is not such a document, or has a document type, which could define entities.

    Cost: linear.
    """
    parser = xml.parsers.expat.ParserCreate("utf-8", " ")
    builder = _TreeBuilder()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(text.encode("utf-8"), True)
    except xml.parsers.expat.ExpatError as error:
        raise XmlError(f"expected an XML document: {error}") from error
    except UnicodeEncodeError as error:
        raise XmlError(f"expected an XML document; character {error.start} is half of one") from error
    return builder.message()


def _item(name: str, value: Any) -> Iterator[str]:
    """Yield the elements of one property."""
    kind = _KINDS.get(name)
    if kind == "text" and isinstance(value, str):
        yield _element(name, value)
    elif kind == "time" and isinstance(value, datetime):
        yield _element(name, _moment(value))
    elif kind == "texts" and _is_list_of_text(value):
        for text in value:
            yield _element(name, text)
    elif kind == "headers" and _is_headers(value):
        for header, values in value.items():
            for text in values:
                yield _element(name, text, name=header)
    else:
        yield from _property("property", value, name, 1)


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(element, str) for element in value)


def _is_headers(value: Any) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    return all(isinstance(name, str) and _is_list_of_text(values) for name, values in value.items())


def _property(tag: str, value: Any, name: str | None, depth: int) -> Iterator[str]:
    """Yield a property of any type, or an element of a list, which has no name."""
    if depth > DEPTH_MAX:
        raise ValueError(f"properties nested deeper than {DEPTH_MAX}")
    if isinstance(value, Mapping):
        yield _open(tag, {"name": name, "type": "object"})
        for inner, below in value.items():
            yield from _property("property", below, str(inner), depth + 1)
        yield f"</{tag}>\n"
    elif isinstance(value, list | tuple):
        yield _open(tag, {"name": name, "type": "list"})
        for below in value:
            yield from _property("item", below, None, depth + 1)
        yield f"</{tag}>\n"
    else:
        kind, text = _scalar(value, name)
        yield _element(tag, text, name=name, type=kind)


def _scalar(value: Any, name: str | None) -> tuple[str, str]:
    match value:
        case None:
            return "null", ""
        case bool():
            return "bool", str(value).lower()
        case int():
            return "int", str(value)
        case float():
            return "float", _float_text(value)
        case str():
            return "string", value
        case datetime():
            return "datetime", _moment(value)
    raise TypeError(f"property '{name}': expected a value that a property can have, not {type(value).__name__}")


def _float_text(value: float) -> str:
    """Return the text of a double in XML Schema."""
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"


def _moment(value: datetime) -> str:
    moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return moment.replace(tzinfo=None).isoformat() + "Z"


def _element(tag: str, text: str, **attributes: str | None) -> str:
    escaped = _is_forbidden(text)
    content = _without_markup(_ESCAPE_NEEDED.sub(_escape, text) if escaped else text)
    return f"{_open(tag, {**attributes, 'escaped': 'true' if escaped else None}, '')}{content}</{tag}>\n"


def _open(tag: str, attributes: Mapping[str, str | None], end: str = "\n") -> str:
    """Return the opening tag; an attribute with forbidden characters gets a name that ends in ``-escaped``."""
    written = [f"<{tag}"]
    for name, value in attributes.items():
        if value is None:
            continue
        if _is_forbidden(value):
            name, value = f"{name}-escaped", _ESCAPE_NEEDED.sub(_escape, value)
        value = _without_markup(value).replace("\t", "&#9;").replace("\n", "&#10;")
        written.append(f' {name}="{value}"')
    return "".join([*written, ">", end])


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return "\\\\" if character == "\\" else f"\\u{{{ord(character):x}}}"


def _unescape(text: str) -> str:
    try:
        return _ESCAPE.sub(lambda match: chr(int(match.group(1), 16)) if match.group(1) else "\\", text)
    except ValueError as error:
        raise XmlError("expected the number of a character in \\u{...}; it is too large") from error


def _is_forbidden(text: str) -> bool:
    """Return whether a text has characters that XML cannot carry; most texts need no search."""
    return not (text.isascii() and text.isprintable()) and _FORBIDDEN.search(text) is not None


def _without_markup(text: str) -> str:
    """Return a text with entities for what XML would read otherwise; quicker than a pattern with a call per match."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("\r", "&#13;")


def _refuse_doctype(name: str, system: str | None, public: str | None, internal: bool) -> None:
    raise XmlError("expected a document without a document type; it has one")


@dataclass(slots=True)
class _Node:
    """An element of a document."""

    tag: str
    attributes: dict[str, str]
    text: list[str] = field(default_factory=list)
    below: list[_Node] = field(default_factory=list)

    def value(self) -> str:
        text = "".join(self.text)
        return _unescape(text) if self.attributes.get("escaped") == "true" else text

    def name(self) -> str:
        escaped = self.attributes.get("name-escaped")
        return self.attributes.get("name", "") if escaped is None else _unescape(escaped)


class _TreeBuilder:
    """Builds the tree from the events of expat, with bounded depth and without elements of other namespaces."""

    def __init__(self) -> None:
        self._open: list[_Node] = []
        self._root: _Node | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        namespace, _, name = tag.rpartition(" ")
        if namespace != NAMESPACE or (not self._open and name != "message"):
            raise XmlError(f"expected <message xmlns='{NAMESPACE}'>; found <{name}>")
        if len(self._open) > DEPTH_MAX + 1:
            raise XmlError(f"expected at most {DEPTH_MAX} levels of properties")
        node = _Node(name, attributes)
        if self._open:
            self._open[-1].below.append(node)
        else:
            self._root = node
        self._open.append(node)

    def end(self, tag: str) -> None:
        self._open.pop()

    def characters(self, text: str) -> None:
        self._open[-1].text.append(text)

    def message(self) -> XmlMessage:
        properties: dict[str, Any] = {}
        body: str | None = None
        for node in self._root.below if self._root else []:
            if node.tag == "body":
                body = node.value()
            else:
                _add(properties, node)
        return XmlMessage(properties, body)


def _add(properties: dict[str, Any], node: _Node) -> None:
    """Add one item of metadata to the properties."""
    kind = _KINDS.get(node.tag)
    if kind == "text":
        properties[node.tag] = node.value()
    elif kind == "time":
        properties[node.tag] = _read("datetime", node.value())
    elif kind == "texts":
        properties.setdefault(node.tag, []).append(node.value())
    elif kind == "headers":
        properties.setdefault(node.tag, {}).setdefault(node.name(), []).append(node.value())
    elif node.tag == "property":
        properties[node.name()] = _value(node)
    else:
        raise XmlError(f"expected an item of metadata or <body>; found <{node.tag}>")


def _value(node: _Node) -> Any:
    kind = node.attributes.get("type", "string")
    if kind == "object":
        return {below.name(): _value(below) for below in node.below}
    if kind == "list":
        return [_value(below) for below in node.below]
    return _read(kind, node.value())


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "null": lambda text: None,
    "bool": lambda text: {"true": True, "false": False}[text],
    "int": int,
    "float": lambda text: float(text.replace("INF", "inf")),
    "string": str,
    "datetime": lambda text: datetime.fromisoformat(text).astimezone(UTC),
}


def _read(kind: str, text: str) -> Any:
    try:
        return _READERS[kind](text)
    except (KeyError, ValueError) as error:
        raise XmlError(f"expected a value of type {kind}; found '{text[:40]}'") from error
