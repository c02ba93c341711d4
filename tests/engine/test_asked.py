"""Tests that what no query asks for is not read, and that this never changes an answer."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tamis

NAMES = ["a", "b", "a.b", "b.a", "a.a.b", "b.b"]
BEYOND = 1 << 70

names = st.sampled_from(NAMES)
scalars = st.one_of(st.integers(0, 2), st.none(), st.sampled_from(["x", "2002-08-22T18:26:25Z"]))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["a", "b", "a.b", "c"]), inner, max_size=3)
    ),
    max_leaves=6,
)
records = st.dictionaries(st.sampled_from(["a", "b", "a.b", "A", "c"]), values, max_size=4)
selectors = st.builds(
    lambda name, form: tamis.selector(form.format(name)),
    names,
    st.sampled_from(["{} = 1", "{} IS NULL", "NOT ({} > 0)", "{} LIKE 'x%'", "{} IN ('x', 'y')", "ANYCASE({}) = 1"]),
)


@given(st.lists(selectors, min_size=1, max_size=5), st.sets(st.integers(0, 4)), records)
def test_every_way_of_matching_agrees_with_each_query(
    queries: list[tamis.Query], removed: set[int], record: dict[str, Any]
) -> None:
    engine: tamis.Engine[int] = tamis.Engine()
    engine.add_many(enumerate(queries))
    for key in removed & set(range(len(queries))):
        engine.remove(key)
    keys = [key for key, query in enumerate(queries) if key not in removed and query.evaluate(record)]
    text = json.dumps(record)
    assert engine.match(record) == keys
    assert engine.match_json(text) == keys
    assert engine.keys(engine.match_batch(pa.table({"properties": [text]}))[0].as_py()) == keys


def test_a_query_that_is_removed_no_longer_asks() -> None:
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add_many([("a", tamis.selector("a = 1")), ("b", tamis.selector("b.c = 1"))])
    text = json.dumps({"a": 1, "b": {"c": BEYOND}})
    with pytest.raises(ValueError, match="64 bits"):
        engine.match_json(text)
    engine.remove("b")
    assert engine.match_json(text) == ["a"]
    assert engine.match_batch(pa.table({"properties": [text]})).to_pylist() == [[0]]


def test_what_stands_beside_an_asked_name_in_a_mapping_is_not_read() -> None:
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add("a", tamis.selector("detail.state = 'on'"))
    detail = {"state": "on", "size": BEYOND, "deep": json.loads("[" * 90 + "]" * 90)}
    assert engine.match_json(json.dumps({"detail": detail, "more": BEYOND})) == ["a"]
    assert engine.match_json(json.dumps({"detail": [{"state": "off"}, detail]})) == ["a"]


@pytest.mark.parametrize("value", [object(), BEYOND, "\ud800", [object()], {"b": object()}])
def test_a_dict_is_checked_also_where_no_query_asks(value: object) -> None:
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add("a", tamis.selector("a = 1"))
    with pytest.raises((TypeError, ValueError), match="other"):
        engine.match({"a": 1, "other": value})  # type: ignore[dict-item]


@pytest.mark.parametrize("is_opened", [False, True])
def test_a_match_gives_keys_ids_a_bitmap_or_a_count(tmp_path: Any, is_opened: bool) -> None:
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add_many((f"key {n}", tamis.selector(f"a > {n}")) for n in range(600))
    engine.remove("key 2")
    if is_opened:
        engine.save(tmp_path / "engine")
        engine = tamis.Engine.open(tmp_path / "engine")
    for record in ({"a": 0}, {"a": 5}, {"a": 599.5}):
        keys, text = engine.match(record), json.dumps(record)
        ids = engine.match(record, as_="ids")
        assert engine.keys(ids) == keys == engine.match_json(text)
        assert ids == engine.match_json(text, as_="ids")
        assert ids == engine.match_batch(pa.Table.from_pylist([record]))[0].as_py()
        assert engine.match(record, as_="count") == engine.match_json(text, as_="count") == len(keys)
        bitmap = engine.match(record, as_="bitmap")
        assert bitmap == engine.match_json(text, as_="bitmap")
        assert [bit for bit in range(len(bitmap)) if bitmap.test(bit)] == ids
    with pytest.raises(ValueError, match="'keys', 'ids', 'bitmap' or 'count', not 'set'"):
        engine.match({}, as_="set")  # type: ignore[call-overload]
