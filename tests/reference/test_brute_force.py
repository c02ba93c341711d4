"""Every reference algorithm has the results of brute force, for any queries, messages and changes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis import reference
from tamis.reference import BruteForce
from tests import oracle
from tests.engine.test_engine import TREE, messages, queries

from .kinds import QUERY_MATCHERS, TOPIC_MATCHERS

keys = st.integers(0, 8)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("add"), keys, queries),
        st.tuples(st.just("add"), keys, queries),
        st.tuples(st.just("remove"), keys, st.none()),
        st.tuples(st.just("match"), st.none(), messages),
    ),
    min_size=4,
    max_size=20,
)


@pytest.mark.parametrize("name", QUERY_MATCHERS)
@settings(max_examples=60, deadline=None)
@given(done=actions, last=messages)
def test_a_reference_for_queries_agrees_with_brute_force(name: str, done: Any, last: Any) -> None:
    matcher, brute = QUERY_MATCHERS[name](), BruteForce()
    matcher.hierarchy("a", TREE)
    brute.hierarchy("a", TREE)
    known: set[int] = set()
    for action, key, argument in done:
        if action == "add":
            known.add(key)
            matcher.add(key, argument)
            brute.add(key, argument)
        elif action == "match":
            assert matcher.match(*argument) == brute.match(*argument)
        elif key in known:
            known.remove(key)
            matcher.remove(key)
            brute.remove(key)
    assert matcher.match(*last) == brute.match(*last)
    if isinstance(matcher, reference.GroupedInThreads):
        matcher.close()


equalities = st.tuples(st.sampled_from("abc"), st.sampled_from("=<>"), st.integers(0, 9)).map(
    lambda parts: tamis.selector(f"{parts[0]} {parts[1]} {parts[2]}")
)
conjunctions = st.lists(equalities, min_size=1, max_size=3).map(
    lambda parts: parts[0] if len(parts) == 1 else parts[0] & parts[-1]
)
small = st.dictionaries(
    st.sampled_from("abc"), st.one_of(st.integers(0, 9), st.floats(0, 9), st.lists(st.integers(0, 9), max_size=2))
)


@pytest.mark.parametrize("name", ["BeTree", "KIndex", "Bdd", "Grouped, a and price"])
@settings(max_examples=60, deadline=None)
@given(added=st.lists(conjunctions, min_size=20, max_size=60), removed=st.sets(st.integers(0, 59)), sent=small)
def test_many_conjunctions_of_few_attributes_are_told_apart(
    name: str, added: list[tamis.Query], removed: set[int], sent: Any
) -> None:
    matcher, brute = QUERY_MATCHERS[name](), BruteForce()
    for key, query in enumerate(added):
        matcher.add(key, query)
        brute.add(key, query)
    assert matcher.match(sent) == brute.match(sent)
    for key in removed & set(range(len(added))):
        matcher.remove(key)
        brute.remove(key)
    assert matcher.match(sent) == brute.match(sent)


@pytest.mark.parametrize("name", QUERY_MATCHERS)
def test_ranges_in_which_nothing_lies_have_a_place_too(name: str) -> None:
    matcher, brute = QUERY_MATCHERS[name](), BruteForce()
    for number in range(30):
        bounds = f"{number % 7} AND {number % 5}" if number % 3 else f"'{number}' AND {number}"
        for added in (matcher, brute):
            added.add(number, tamis.selector(f"a BETWEEN {bounds} AND b < {number}"))
    for sent in ({"a": 2, "b": 1}, {"a": [0, 6], "b": 20}, {"a": "2", "b": 0}, {}):
        assert matcher.match(sent) == brute.match(sent)
    for number in range(30):
        matcher.remove(number)
    assert matcher.match({"a": 2, "b": 1}) == []


words = st.sampled_from(["a", "b", "", "*", "#", "x"])
patterns = st.lists(words, max_size=5).map(".".join)
dialects = st.sampled_from(["amqp", "openamq", "openamq-program"])
topics = st.lists(words, max_size=5).map(".".join)
topic_actions = st.lists(
    st.one_of(
        st.tuples(st.just("add"), keys, st.tuples(patterns, dialects)),
        st.tuples(st.just("add"), keys, st.tuples(patterns, dialects)),
        st.tuples(st.just("remove"), keys, st.none()),
        st.tuples(st.just("match"), st.none(), topics),
    ),
    max_size=25,
)


@pytest.mark.parametrize("name", TOPIC_MATCHERS)
@settings(max_examples=150, deadline=None)
@given(done=topic_actions, last=st.lists(topics, max_size=6))
def test_a_reference_for_topics_agrees_with_brute_force(name: str, done: Any, last: list[str]) -> None:
    matcher, brute = TOPIC_MATCHERS[name](), BruteForce()
    known: set[int] = set()
    for action, key, argument in done:
        if action == "add":
            known.add(key)
            matcher.add(key, *argument)
            brute.add(key, tamis.topic(argument[0], dialect=argument[1]))
        elif action == "match":
            assert matcher.match(argument) == brute.match(topic=argument)
        elif key in known:
            known.remove(key)
            matcher.remove(key)
            brute.remove(key)
    for topic in last:
        assert matcher.match(topic) == brute.match(topic=topic)


criteria = st.dictionaries(
    st.sampled_from(oracle.NAMES), st.one_of(oracle.scalars, st.just(tamis.ANY)), min_size=1, max_size=3
)
required = st.sampled_from(["all", "any"])
field_actions = st.lists(st.tuples(st.booleans(), keys, criteria, required), max_size=15)


@settings(max_examples=300, deadline=None)
@given(done=field_actions, sent=st.lists(oracle.messages, max_size=4))
def test_the_reference_for_fields_agrees_with_brute_force_and_with_the_engine_on_hits(done: Any, sent: Any) -> None:
    table, brute, engine = reference.InvertedFields(), BruteForce(), tamis.Engine()
    for is_added, key, wanted, require in done:
        if is_added:
            table.add(key, wanted, require=require)
            for matcher in (brute, engine):
                matcher.add(key, tamis.fields(wanted, require=require))
        elif key in engine:
            for matcher in (table, brute, engine):
                matcher.remove(key)
    for message in sent:
        assert table.match(message) == brute.match(message)
        assert table.hits(message) == engine.hits(message)


INSTANT = datetime(2002, 8, 22, 18, 26, 25, tzinfo=UTC)
VALUES: list[Any] = [
    1,
    1.0,
    True,
    Decimal("1.5"),
    2**53 + 1,
    2.0**53,
    float("nan"),
    float("inf"),
    "1",
    b"x",
    b"\xff",
    "x",
    INSTANT,
    INSTANT.replace(tzinfo=None),
    None,
    tamis.PRESENT,
    [],
    [[], [None, [1]]],
    (1, "x"),
    {"d": 1},
    [{"d": 1}, {"d": [2, "x"]}, 3, {"e": 1}],
    {"d.e": 1, "d": {"e": 2}},
]
ASKED = [
    f"{name} {test}"
    for name in ("a", "a.d", "a.d.e")
    for test in (
        *("= 1", "= 1.5", "= TRUE", "= 'x'", "= '1'", "= 9007199254740993", "= 9007199254740992.0", "= 1e999"),
        *("IN (2, 'x')", "> 1", "BETWEEN 1 AND 2", "< 'y'", "= TIMESTAMP '2002-08-22T18:26:25Z'", "<> 1"),
        "<= TIMESTAMP '2002-08-22T18:26:25Z'",
    )
]


@pytest.mark.parametrize("name", ["KIndex", "BeTree", "Bdd", "Grouped, a and price", "CacheableUnits"])
def test_every_kind_of_value_is_found_by_its_hash_or_interval_as_by_evaluation(name: str) -> None:
    matcher, brute = QUERY_MATCHERS[name](), BruteForce()
    for text in ASKED:
        matcher.add(text, tamis.selector(text))
        brute.add(text, tamis.selector(text))
        matcher.add(f"NOT {text}", ~tamis.selector(text))
        brute.add(f"NOT {text}", ~tamis.selector(text))
    for value in VALUES:
        for message in ({"a": value}, {"a.d": value}, {"a": {"d": value}}, {"a": [value]}, {"a": {"d.e": value}}, {}):
            assert matcher.match(message) == brute.match(message), message


CRITERIA: list[Any] = [tamis.ANY, 1, 1.5, True, "x", "1", 2, 2**53 + 1, 2.0**53, INSTANT]


def test_every_kind_of_value_meets_the_criteria_that_the_engine_says_it_meets() -> None:
    table, engine = reference.InvertedFields(), tamis.Engine()
    for name in ("a", "a.d"):
        for wanted in CRITERIA:
            table.add((name, repr(wanted)), {name: wanted, "b": 1})
            engine.add((name, repr(wanted)), tamis.fields({name: wanted, "b": 1}))
    for value in VALUES:
        for message in ({"a": value}, {"a": {"d": value}, "b": 1}, {"a": [0, value], "b": [2, 1]}):
            assert table.hits(message) == engine.hits(message), message
            assert table.match(message) == engine.match(message), message
