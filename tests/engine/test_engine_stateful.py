"""Compares any sequence of changes, saves and opens with brute force over a dict of queries."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

import tamis
from tamis.reference import BruteForce
from tests.engine.test_engine import TREE, keys, messages, queries

EXPENSIVE = {"expensive": lambda properties, topic, body: properties.get("flag")}


def many(count: int, query: tamis.Query) -> list[tuple[Hashable, tamis.Query]]:
    """Add enough subscriptions for a merge in a thread, a fifth of them with one query."""
    number = tamis.selector("price >= 0")
    spread = [tamis.selector(f"a = {i % 7} AND b <> 'x{i}' OR price = {i}") for i in range(0, count, 5)]
    return [((i,), query if i % 5 == 0 else number if i % 5 == 1 else spread[i // 5]) for i in range(count)]


class Changes(RuleBasedStateMachine):
    known = Bundle("known")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.saved = 0
        self.engine, self.brute = tamis.Engine(), BruteForce()
        self.expected: dict[Hashable, tamis.Query] = {}

    def teardown(self) -> None:
        self.folder.cleanup()

    def add_all(self, pairs: list[tuple[Hashable, tamis.Query]]) -> None:
        self.engine.add_many(pairs)
        for key, query in pairs:
            self.brute.add(key, query)
            self.expected[key] = query

    @initialize(tree=st.sampled_from([TREE, {"x": None}]))
    def start(self, tree: dict[str, str | None]) -> None:
        self.grow(tree)

    @rule(tree=st.sampled_from([TREE, {"x": None, "xy": None}, {"": "x", "x": None}, {}]))
    def grow(self, tree: dict[str, str | None]) -> None:
        self.engine.hierarchy("a", tree)
        self.brute.hierarchy("a", tree)

    @rule(target=known, key=keys, query=queries)
    def add(self, key: Hashable, query: tamis.Query) -> Hashable:
        self.add_all([(key, query)])
        return key

    @rule(target=known, key=keys, query=queries)
    def add_one_that_asks_a_function(self, key: Hashable, query: tamis.Query) -> Hashable:
        self.add_all(
            [(key, query & tamis.opaque("expensive", EXPENSIVE["expensive"]))]
            if "expensive" not in self.names()
            else []
        )
        return key

    def names(self) -> set[str]:
        return {name for query in self.expected.values() for name, *_ in query.opaques()}

    @rule(pairs=st.lists(st.tuples(keys, queries), max_size=30))
    def add_several(self, pairs: list[tuple[Hashable, tamis.Query]]) -> None:
        self.add_all(pairs)

    @rule(count=st.sampled_from([17, 200, 1_100, 3_000]), query=queries)
    def add_thousands(self, count: int, query: tamis.Query) -> None:
        self.add_all(many(count, query))

    @rule(key=known)
    def remove(self, key: Hashable) -> None:
        if key in self.expected:
            self.engine.remove(key)
            self.brute.remove(key)
            del self.expected[key]
        with pytest.raises(KeyError):
            self.engine.remove(key)

    @rule(keep=st.integers(2, 50))
    @precondition(lambda self: len(self.expected) > 100)
    def remove_most(self, keep: int) -> None:
        for place, key in enumerate(list(self.expected)):
            if place % keep:
                self.engine.remove(key)
                self.brute.remove(key)
                del self.expected[key]

    @rule(opens=st.booleans(), verify=st.booleans())
    def save(self, opens: bool, verify: bool) -> None:
        path = Path(self.folder.name) / f"queries-{self.saved % 2}"
        self.saved += 1
        self.engine.save(path, opaque="names")
        if opens:
            self.engine = tamis.Engine.open(path, verify=verify, opaque=EXPENSIVE)

    @rule(message=messages)
    def match(self, message: Any) -> None:
        assert self.engine.match(*message) == self.brute.match(*message)

    @rule(message=messages, key=known)
    def explain(self, message: Any, key: Hashable) -> None:
        if key in self.expected:
            explained = self.engine.explain(key, *message).result
            assert explained is self.expected[key].evaluate(*message, hierarchies=self.brute._hierarchies)

    @invariant()
    def it_has_what_it_should_have(self) -> None:
        assert len(self.engine) == len(self.expected)
        assert self.engine.match({"price": 5, "a": 3}) == self.brute.match({"price": 5, "a": 3})


Changes.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestChanges = Changes.TestCase
