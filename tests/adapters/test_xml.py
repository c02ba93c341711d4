from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.adapters.properties import MAIL_PROPERTIES
from tamis.adapters.xml import NAMESPACE, XmlError, from_xml, to_xml

any_text = st.text(st.characters(), max_size=30)
odd_text = st.text(st.sampled_from('\\u{}0041\0\x08\t\r\n\x85\ufffe\uffff\ud800<>&"]]>é\U0001f600 '), max_size=30)
texts = any_text | odd_text
moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)).map(lambda moment: moment.replace(tzinfo=UTC))
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | texts | moments
values = st.recursive(scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(texts, below, max_size=3))
mail = st.fixed_dictionaries(
    {},
    optional={
        "author": texts,
        "date": moments,
        "subject": texts,
        "source": texts,
        "newsgroup": st.lists(texts, min_size=1, max_size=3),
        "list": texts,
        "message_id": texts,
        "header": st.dictionaries(texts, st.lists(texts, min_size=1, max_size=3), max_size=3),
    },
)


@given(mail, st.none() | texts)
def test_mail_goes_there_and_back(properties: dict[str, Any], body: str | None) -> None:
    message = from_xml(to_xml(properties, body))
    assert message.properties == properties
    assert message.body == body


@given(st.dictionaries(texts | st.sampled_from(["author", "date", "newsgroup", "header", "body"]), values, max_size=4))
def test_any_properties_go_there_and_back(properties: dict[str, Any]) -> None:
    message = from_xml(to_xml(properties, ""))
    assert message.properties == {name: value for name, value in properties.items() if value is not None}
    assert message.body == ""


@given(texts)
def test_any_parser_of_xml_reads_the_document(body: str) -> None:
    ET.fromstring(to_xml({"subject": body}, body).encode("utf-8"))


def test_the_document_has_a_tag_for_each_item_and_the_full_text() -> None:
    document = to_xml({"author": "James", "source": "CNN", "newsgroup": ["a.b"], "price": 1.5}, "It is & was")
    assert document == (
        f'<message xmlns="{NAMESPACE}">\n<author>James</author>\n<source>CNN</source>\n<newsgroup>a.b</newsgroup>\n'
        '<property name="price" type="float">1.5</property>\n<body>It is &amp; was</body>\n</message>\n'
    )


def test_what_xml_forbids_is_escaped_and_said_so() -> None:
    assert '<body escaped="true">a\\u{0}b\\\\</body>' in to_xml({}, "a\0b\\")
    assert "<body>a\\b</body>" in to_xml({}, "a\\b")


@pytest.mark.parametrize(
    "document",
    [
        "",
        "text",
        "<message>",
        "<message/>",
        f'<other xmlns="{NAMESPACE}"/>',
        f'<message xmlns="{NAMESPACE}"><unknown/></message>',
        f'<message xmlns="{NAMESPACE}"><date>yesterday</date></message>',
        f'<message xmlns="{NAMESPACE}"><property name="a" type="int">1.5</property></message>',
        f'<message xmlns="{NAMESPACE}"><property name="a" type="bool">yes</property></message>',
        f'<message xmlns="{NAMESPACE}"><body escaped="true">\\u{{ffffff}}</body></message>',
        '<!DOCTYPE m [<!ENTITY a "b">]>' + f'<message xmlns="{NAMESPACE}"><body>&a;</body></message>',
        '<!DOCTYPE m SYSTEM "file:///etc/passwd">' + f'<message xmlns="{NAMESPACE}"/>',
        f'<message xmlns="{NAMESPACE}">' + '<property type="list">' * 1_000,
        f'<message xmlns="{NAMESPACE}"><body>\ud800</body></message>',
    ],
)
def test_what_is_no_document_of_a_message_is_refused(document: str) -> None:
    with pytest.raises(XmlError):
        from_xml(document)


def test_nesting_is_bounded_and_other_types_are_named() -> None:
    deep: Any = 1
    for _ in range(101):
        deep = [deep]
    with pytest.raises(ValueError, match="deeper than 100"):
        to_xml({"deep": deep}, None)
    with pytest.raises(TypeError, match="'what'"):
        to_xml({"what": object()}, None)


def test_the_schema_names_every_element_that_is_written() -> None:
    schema = ET.parse(Path(__file__).parents[2] / "docs" / "message.xsd").getroot()
    xs = "{http://www.w3.org/2001/XMLSchema}"
    named = {element.get("name") for element in schema.iter(f"{xs}element")}
    kinds = {value.get("value") for value in schema.iter(f"{xs}enumeration")}
    assert named == {
        *("message", "property", "item", "body"),
        *(known.name for known in MAIL_PROPERTIES),
    }
    assert kinds == {"null", "bool", "int", "float", "string", "datetime", "list", "object"}
    assert schema.get("targetNamespace") == NAMESPACE
