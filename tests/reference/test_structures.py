"""Tests the parts of the references: a query's tree, its normal form, and structures that leave no trace."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis import reference
from tamis.reference.queries.be_tree import CNode
from tamis.reference.queries.normal_form import conjunctions
from tamis.reference.queries.query_matcher import predicates, truth
from tests import oracle
from tests.engine.test_engine import queries

from .kinds import QUERY_MATCHERS, TOPIC_MATCHERS


def test_the_tree_of_a_query_names_what_an_index_can_use() -> None:
    query = tamis.selector("a = 1 AND NOT (b.c IN ('x', 2.5) OR 5 > d) AND e LIKE 'x%' AND f BETWEEN 1 AND 2")
    equality, membership, order, pattern, between = predicates(query.tree())
    assert query.tree() == (
        "and",
        [
            ("=", "a", [1], equality),
            ("not", ("or", [("=", "b.c", ["x", 2.5], membership), ("range", "d", None, 5, order)])),
            ("predicate", pattern),
            ("range", "f", 1, 2, between),
        ],
    )
    assert str(pattern) == "e LIKE 'x%'"
    assert membership.evaluate({"b": {"c": 2.5}}) is True


@settings(max_examples=300)
@given(query=queries, message=oracle.messages)
def test_a_tree_means_what_its_query_means(query: tamis.Query, message: Any) -> None:
    assert truth(query.tree(), lambda predicate: predicate.evaluate(message)) is query.evaluate(message)


@settings(max_examples=300)
@given(query=queries, message=oracle.messages)
def test_a_normal_form_is_true_when_its_query_is(query: tamis.Query, message: Any) -> None:
    parts = conjunctions(query.tree(), 1000)
    assert parts is not None
    is_true = any(all(one.predicate.evaluate(message) is one.wanted for one in part) for part in parts)
    assert is_true is (query.evaluate(message) is True)


SELECTORS = [f"a = {n % 7} AND (b > {n} OR NOT c = 'x{n % 3}') AND d LIKE '%{n % 5}%'" for n in range(40)]


@pytest.mark.parametrize("name", QUERY_MATCHERS)
def test_removing_every_query_leaves_no_trace(name: str) -> None:
    matcher = QUERY_MATCHERS[name]()
    for _ in range(2):  # the second time it replaces the existing ones
        for number, text in enumerate(SELECTORS):
            matcher.add(number, tamis.selector(text))
    assert matcher.match({"a": 1, "b": 100, "d": "123"})
    for number in range(len(SELECTORS)):
        matcher.remove(number)
    assert traces(matcher) == []
    assert matcher.match({"a": 1, "b": 100, "d": "123"}) == []
    with pytest.raises(KeyError):
        matcher.remove(0)


@pytest.mark.parametrize("name", TOPIC_MATCHERS)
def test_removing_every_pattern_leaves_no_trace_but_known_topics(name: str) -> None:
    matcher = TOPIC_MATCHERS[name]()
    for _ in range(2):
        for number, pattern in enumerate(["a.b", "a.*", "#", "#.a.#", "*.*.*", "", "a.b.#"]):
            matcher.add(number, pattern, "openamq")
    assert matcher.match("a.b") == [0, 1, 2, 4]
    for number in range(7):
        matcher.remove(number)
    assert matcher.match("a.b") == []
    known = {"_rows", "_numbers", "_with_word", "_with_length", "_subscriptions", "_states"}
    left = set(traces(matcher))
    assert left <= known if re.match("Inverted|WordCache|LazyDfa", name) else not left
    with pytest.raises(KeyError):
        matcher.remove(0)


def traces(matcher: object) -> list[str]:
    """Return a matcher's non-empty attributes, except counters, bounds and the last evaluation."""
    kept = {"evaluated", "_identifiers", "_hierarchies"}
    return [
        name
        for name, value in vars(matcher).items()
        if name not in kept
        and (
            (isinstance(value, dict | list | set) and value)
            or (isinstance(value, CNode) and (value.leaf or value.p_nodes))
            or (name == "_root" and getattr(value, "children", None))
            or (name == "_nfa" and value.children)
        )
    ]


def test_a_be_tree_of_many_looks_at_few() -> None:
    tree = reference.BeTree()
    for number in range(1000):
        tree.add(number, tamis.selector(f"symbol = 'S{number}' AND price BETWEEN {number} AND {number + 5}"))
    assert tree.match({"symbol": "S500", "price": 502}) == [500]
    assert len(tree.evaluated) < 50


def test_decision_diagrams_share_and_do_not_grow_with_copies() -> None:
    diagrams = reference.Bdd()
    for number in range(50):
        diagrams.add(number, tamis.selector("a = 1 AND (b = 2 OR c = 3)"))
    assert diagrams.node_count == 3
    assert diagrams.match({"a": 1, "c": 3}) == list(range(50))
    assert len(diagrams.evaluated) == 3


@settings(max_examples=100)
@given(added=st.lists(queries, max_size=8))
def test_decision_diagrams_are_ordered_and_reduced(added: list[tamis.Query]) -> None:
    diagrams = reference.Bdd()
    for number, query in enumerate(added):
        diagrams.add(number, query)
    nodes = list(diagrams._nodes.values())
    for node in nodes:
        edges = (node.if_true, node.if_false, node.if_unknown)
        assert len(set(edges)) > 1
        assert all(isinstance(edge, bool) or edge.variable > node.variable for edge in edges)
    assert len({(node.predicate, node.if_true, node.if_false, node.if_unknown) for node in nodes}) == len(nodes)


def test_what_is_never_true_or_always_true_has_no_nodes_of_its_own() -> None:
    diagrams = reference.Bdd()
    diagrams.add("never", tamis.selector("a = 1 AND NOT a = 1"))
    assert diagrams.node_count == 0
    assert diagrams.match({"a": 1}) == diagrams.match({}) == []


def test_an_unknown_dialect_and_bad_criteria_are_refused_and_nothing_is_added() -> None:
    trie = reference.Trie()
    with pytest.raises(ValueError, match="dialect: expected 'amqp'"):
        trie.add("a", "a.b", "mqtt")  # type: ignore[arg-type]
    table = reference.InvertedFields()
    with pytest.raises(ValueError, match="at least one"):
        table.add("a", {})
    for matcher in (trie, table):
        with pytest.raises(KeyError):
            matcher.remove("a")
