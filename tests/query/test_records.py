"""Tests that one record means the same message, however it is matched."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tamis

QUERIES = {
    "topic": tamis.selector("topic = 'news.x'"),
    "pattern": tamis.topic("news.*"),
    "words": tamis.text("frost"),
    "body": tamis.selector("body LIKE '%frost%'"),
    "no body": tamis.selector("body IS NULL"),
    "key topic": tamis.selector("\"topic\" = 'news.x'"),
    "key body": tamis.selector('EXISTS("body")'),
    "nested": tamis.selector("body.price = 1"),
    "number": tamis.selector('"topic" = 5'),
    "n": tamis.selector("n = 1"),
}
records = st.fixed_dictionaries(
    {},
    optional={
        "topic": st.sampled_from(["news.x", "other", "", 5, None, ["news.x"]]),
        "body": st.sampled_from(["first frost", "", {"price": 1}, None, 3]),
        "n": st.sampled_from([1, 2]),
    },
)


def engine_of(queries: dict[str, tamis.Query]) -> tamis.Engine[str]:
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add_many(queries.items())
    return engine


ENGINE = engine_of(QUERIES)


@given(records)
def test_a_record_gives_the_same_keys_however_it_is_matched(record: dict[str, Any]) -> None:
    keys = ENGINE.match(record)
    assert keys == [key for key, query in QUERIES.items() if query.evaluate(record)]
    assert ENGINE.match_json(json.dumps(record)) == keys
    assert ENGINE.keys(ENGINE.match_batch(pa.table({"properties": [json.dumps(record)]}))[0].as_py()) == keys
    if record:
        assert ENGINE.keys(ENGINE.match_batch(pa.Table.from_pylist([record]))[0].as_py()) == keys
    assert [key for key in QUERIES if ENGINE.explain(key, record).result] == keys


@given(records, st.sampled_from(["news.x", ""]), st.sampled_from(["first frost", ""]))
def test_a_part_that_is_given_is_the_part_and_the_key_a_property(record: dict[str, Any], topic: str, body: str) -> None:
    keys = ENGINE.match(record, topic=topic, body=body)
    table = pa.table({"properties": [json.dumps(record)], "topic": [topic], "body": [body]})
    assert ENGINE.keys(ENGINE.match_batch(table)[0].as_py()) == keys
    assert ("topic" in keys) == (topic == "news.x")
    assert ("words" in keys) == (body == "first frost")
    assert ("key topic" in keys) == (record.get("topic") in ("news.x", ["news.x"]))


def test_bytes_are_a_body_and_those_without_text_are_present() -> None:
    assert ENGINE.match({"body": b"first frost"}) == ["words", "body", "key body"]
    assert ENGINE.match({"body": b"\xff"}) == ["key body"]
    assert tamis.selector("EXISTS(body)").evaluate({"body": b"\xff"}) is True


def test_a_broken_text_is_refused_with_its_place_and_what_nobody_asks_for_is_skipped() -> None:
    with pytest.raises(ValueError, match="line 1 column 7"):
        ENGINE.match_json('{"n": 1')
    with pytest.raises(ValueError, match="object"):
        ENGINE.match_json("[1]")
    with pytest.raises(ValueError, match="byte 2"):
        ENGINE.match_json(b'{"\xff": 1}')
    with pytest.raises(ValueError, match="64 bits"):
        ENGINE.match_json('{"n": 9223372036854775808}')
    with pytest.raises(TypeError, match="data"):
        ENGINE.match_json({"n": 1})  # type: ignore[arg-type]
    assert ENGINE.match_json('{"x": 9223372036854775808, "n": 2, "n": 1}') == ["no body", "n"]
    assert ENGINE.match_json('{"x": ' + "[" * 500 + "]" * 500 + ', "n": 1}') == ["no body", "n"]
    with pytest.raises(ValueError, match="column"):
        ENGINE.match_json('{"x": [1, }, "n": 1}')


FIGURE_5 = {
    "From": "Someone (Someone@yahoo.com)",
    "Date": "2002-12-28 21:04:22 PST",
    "Subject": "I have a question...",
    "Body": "I covered my daffodils, garlic, and rhubarb\nlast night in hopes of saving them from freezing.\n"
    "Should one uncover them during the day if the temp\nis above freezing, and re-cover them in the late\n"
    "afternoon? Or can I just leave them covered for a\nfew days till the nights get warmer? (may be a moot\n"
    "point after I look at them...) ",
}
"""The message that the PNNL paper prints, with its fields as properties."""


@pytest.mark.parametrize(
    "text",
    [
        'From = "Someone (Someone@yahoo.com)"',
        'Subject LIKE "%question%"',
        "Body LIKE %garlic%",
        "Body LIKE %warmer%",
    ],
)
def test_the_message_of_figure_5_is_matched_by_the_selectors_printed_with_it(text: str) -> None:
    query = tamis.selector(text, dialect="cbm")
    engine = engine_of({"it": query, "not it": ~query})
    assert query.evaluate(FIGURE_5) is True
    assert engine.match(FIGURE_5) == ["it"]
    assert engine.match_json(json.dumps(FIGURE_5)) == ["it"]
    assert engine.match_batch(pa.Table.from_pylist([FIGURE_5])).to_pylist() == [[0]]
    assert engine.match({**FIGURE_5, "author": "me", "Body": "x", "Subject": ""}) == ["not it"]
