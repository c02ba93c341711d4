"""Tests that a time and the text of a time, as JSON has it, give the same answers in every way to match."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis.cli.output import to_json
from tamis.reference import BruteForce
from tests import oracle

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
time_trees: st.SearchStrategy[oracle.Tree] = st.recursive(
    oracle.time_tests,
    lambda inner: st.one_of(
        inner.map(lambda tree: ("not", tree)),
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("or"), inner, inner),
    ),
    max_leaves=5,
)
time_queries = time_trees.map(lambda tree: tamis.selector(oracle.render(tree)))


@settings(max_examples=300)
@given(st.lists(time_queries, max_size=20), oracle.time_messages)
def test_a_message_that_was_printed_and_read_again_gives_the_same_answers(
    queries: list[tamis.Query], message: dict[str, Any]
) -> None:
    printed = to_json(message)
    engine: tamis.Engine[int] = tamis.Engine()
    engine.add_many(list(enumerate(queries)))
    expected = [key for key, query in enumerate(queries) if query.evaluate(message)]
    assert engine.match(message) == expected
    assert engine.match(json.loads(printed)) == expected
    assert engine.match_json(printed) == expected
    assert engine.match_json(printed.encode()) == expected
    assert engine.match_batch(pa.table({"properties": [printed]})).to_pylist() == [expected]
    for key, query in enumerate(queries):
        assert engine.explain(key, json.loads(printed)).result is query.evaluate(message)


@settings(max_examples=300)
@given(st.lists(oracle.trees.map(oracle.render), max_size=20), oracle.messages)
def test_texts_that_are_times_are_found_by_the_index_as_by_brute_force(
    texts: list[str], message: dict[str, Any]
) -> None:
    engine, brute = tamis.Engine[str](), BruteForce()
    for text in texts:
        query = tamis.selector(text)
        engine._add_all([(text, query)])
        brute.add(text, query)
    for sent in (message, json.loads(to_json(message))):
        assert engine.match(sent) == brute.match(sent)


def test_fields_that_ask_for_a_time_count_its_text() -> None:
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add("noon", tamis.fields({"when": NOON, "urgent": tamis.ANY}))
    for value in (NOON, "2026-01-31T12:00:00Z", ["x", "2026-01-31T12:00:00Z", NOON]):
        assert engine.hits({"when": value}) == [("noon", 1, 2)]
        assert engine.match({"when": value, "urgent": 1}) == ["noon"]
    assert engine.hits({"when": "2026-01-31T12:00:01Z"}) == []


def test_a_date_literal_stays_one_and_reads_dates() -> None:
    query = tamis.selector("day >= date '2026-01-31'")
    assert str(query) == "day >= DATE '2026-01-31'"
    assert tamis.selector(str(query)) == query
    assert query != tamis.selector("day >= TIMESTAMP '2026-01-31T00:00:00Z'")
    for day in ("2026-01-31", "2026-01-31T00:00:00Z", datetime(2026, 2, 1)):
        assert query.evaluate({"day": day}) is True
    assert query.evaluate({"day": "2026-01-30"}) is False
    assert tamis.selector("day >= TIMESTAMP '2026-01-01T00:00:00Z'").evaluate({"day": "2026-01-31"}) is False


@pytest.mark.parametrize("count", [1, 40, 2_000])
def test_thousands_of_ranges_of_times_find_the_text_of_a_time(count: int, tmp_path: Any) -> None:
    engine: tamis.Engine[int] = tamis.Engine()
    literals = [f"{2000 + number % 60}-01-31T12:00:00Z" for number in range(count)]
    engine.add_many(
        (number, tamis.selector(f"when {'=' if number % 2 else '>='} TIMESTAMP '{text}' AND n = {number}"))
        for number, text in enumerate(literals)
    )
    engine.save(tmp_path / "engine")
    for matcher in (engine, tamis.Engine[int].open(tmp_path / "engine", verify=True)):
        for number in range(0, count, 7):
            instant = "2030-01-31T13:00:00+01:00"
            expected = (2000 + number % 60 <= 2030) if number % 2 == 0 else number % 60 == 30
            assert (matcher.match({"when": instant, "n": number}) == [number]) is expected
