"""Compares expensive predicates, which are Python functions, with three-valued logic in plain Python."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis.reference import BruteForce

NAMES = ["a", "b", "c"]
Tree = tuple[Any, ...]


class Asked:
    """Functions that return the property of their name, fail if it is text, and count their calls."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.queries = {name: tamis.opaque(name, self.function(name), cost_us=i) for i, name in enumerate(NAMES)}

    def function(self, name: str) -> Callable[[dict[str, Any], str, object], Any]:
        def answer(properties: dict[str, Any], topic: str, body: object) -> Any:
            self.calls[name] += 1
            if properties.get(name) == "raise":
                raise LookupError("no answer")
            return properties.get(name)

        return answer


leaves = st.tuples(st.sampled_from(["expensive", "cheap"]), st.sampled_from(NAMES))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=4)),
    ),
    max_leaves=12,
)
answers = st.sampled_from([True, False, None, "raise", 3])
messages = st.dictionaries(st.sampled_from(NAMES), answers)


def query_of(tree: Tree, asked: Asked) -> tamis.Query:
    kind, rest = tree
    if kind == "expensive":
        return asked.queries[rest]
    if kind == "cheap":
        return tamis.selector(rest)
    if kind == "not":
        return ~query_of(rest, asked)
    first, *others = (query_of(operand, asked) for operand in rest)
    for other in others:
        first = first & other if kind == "and" else first | other
    return first


def bounds(tree: Tree, properties: dict[str, Any], expensive_is_known: bool) -> tuple[int, int]:
    """Return the minimum and the maximum that the result can be: 0 is false, 1 unknown, 2 true."""
    kind, rest = tree
    if kind == "expensive" and not expensive_is_known:
        return 0, 2
    if kind in ("expensive", "cheap"):
        value = properties.get(rest)
        rank = 2 * value if isinstance(value, bool) else 1
        return rank, rank
    if kind == "not":
        low, high = bounds(rest, properties, expensive_is_known)
        return 2 - high, 2 - low
    least = min if kind == "and" else max
    lows, highs = zip(*(bounds(operand, properties, expensive_is_known) for operand in rest), strict=True)
    return least(lows), least(highs)


@settings(max_examples=300)
@given(trees, messages)
def test_a_query_is_what_three_valued_logic_says_and_asks_only_what_is_open(tree: Tree, message: Any) -> None:
    asked = Asked()
    query = query_of(tree, asked)
    expected, _ = bounds(tree, message, expensive_is_known=True)
    assert query.evaluate(message) is [False, None, True][expected]
    assert all(count == 1 for count in asked.calls.values())
    low, high = bounds(tree, message, expensive_is_known=False)
    if low == high:
        assert not asked.calls


@settings(max_examples=200)
@given(st.lists(trees, max_size=12), st.lists(messages, max_size=4))
def test_an_engine_agrees_with_brute_force_and_asks_at_most_once_a_message(forest: Any, sent: Any) -> None:
    asked = Asked()
    engine, brute = tamis.Engine(), BruteForce()
    for key, tree in enumerate(forest):
        engine.add(key, query_of(tree, asked))
        brute.add(key, query_of(tree, asked))
    for message in sent:
        expected = brute.match(message)
        asked.calls.clear()
        assert engine.match(message) == expected
        assert all(count == 1 for count in asked.calls.values())


def test_fifty_queries_of_one_function_ask_it_once() -> None:
    asked = Asked()
    engine = tamis.Engine()
    engine.add_many((i, asked.queries["a"] & tamis.selector(f"n >= {i}")) for i in range(50))
    assert engine.match({"a": True, "n": 30}) == list(range(31))
    assert asked.calls == {"a": 1}


def test_nothing_is_asked_when_something_cheaper_has_decided() -> None:
    asked = Asked()
    engine = tamis.Engine()
    engine.add("both", asked.queries["a"] & tamis.selector("deleted = FALSE"))
    engine.add("deep", (asked.queries["a"] | tamis.selector("x = 1")) & tamis.selector("NOT deleted"))
    engine.add("either", asked.queries["b"] | tamis.selector("deleted"))
    assert engine.match({"a": True, "b": True, "deleted": True}) == ["either"]
    assert not asked.calls


def test_the_cheaper_of_two_functions_is_asked_first() -> None:
    asked = Asked()
    assert (asked.queries["c"] & asked.queries["a"]).evaluate({"a": False, "c": True}) is False
    assert asked.calls == {"a": 1}


def test_an_exception_or_a_strange_answer_is_unknown_and_counted() -> None:
    asked = Asked()
    query = asked.queries["a"]
    for value, count, reason in (
        (True, 0, None),
        ("raise", 1, "LookupError: no answer"),
        (1, 2, "TypeError: expected True, False or None, not int"),
        ("yes", 3, "TypeError: expected True, False or None, not str"),
        (None, 3, "TypeError: expected True, False or None, not str"),
    ):
        assert query.evaluate({"a": value}) is (True if value is True else None)
        ((name, cost_us, _, errors, measured_us, last_error),) = query.opaques()
        assert (name, cost_us, errors, last_error) == ("a", 0.0, count, reason)
        assert measured_us is not None
        assert measured_us > 0
    ((_, _, calls, *_),) = (query & tamis.selector("x")).opaques()
    assert calls == 5


def test_a_function_sees_the_message_as_tamis_does() -> None:
    seen: list[Any] = []
    query = tamis.opaque("see", lambda *message: bool(seen.append(message)))
    instant = datetime(2002, 8, 22, 18, 26, 25, tzinfo=UTC)
    properties = {
        "i": 1,
        "b": True,
        "f": 0.5,
        "t": "é",
        "n": None,
        "p": tamis.PRESENT,
        "d": instant,
        "m": {"l": [1, "x"]},
    }
    engine = tamis.Engine()
    engine.add("see", query)
    for body, expected in ((None, None), ("text", "text"), (b"text", "text"), (b"\xff\x00", b"\xff\x00"), ("", "")):
        assert query.evaluate(properties, "a.b", body) is False
        assert engine.match(properties, "a.b", body) == []
        assert seen == [(properties, "a.b", expected)] * 2
        assert all(given[0] is not properties for given in seen)
        seen.clear()
    query.evaluate({"naive": datetime(2002, 8, 22), "bytes": b"x", "tuple": (1,)})
    assert seen.pop() == ({"naive": datetime(2002, 8, 22, tzinfo=UTC), "bytes": "x", "tuple": [1]}, "", None)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_asks_once_a_row(threads: int) -> None:
    asked = Asked()
    engine = tamis.Engine()
    engine.add("a", asked.queries["a"])
    engine.add("not b", ~asked.queries["b"] & asked.queries["a"])
    rows = [{"a": i % 2 == 0, "b": i % 3 == 0} for i in range(1_000)]
    matched = engine.match_batch(pa.Table.from_pylist(rows), threads=threads).to_pylist()
    assert matched == [
        engine_ids for row in rows for engine_ids in [[0] * row["a"] + [1] * (row["a"] and not row["b"])]
    ]
    assert asked.calls["a"] == len(rows)


def test_many_threads_ask_once_a_message_each() -> None:
    asked = Asked()
    engine = tamis.Engine()
    engine.add_many((i, asked.queries["a"]) for i in range(10))
    found: list[object] = []

    def match() -> None:
        found.extend(engine.match({"a": True}) for _ in range(200))

    threads = [threading.Thread(target=match) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(range(10))] * 800
    ((_, _, calls, errors, *_),) = asked.queries["a"].opaques()
    assert (calls, errors) == (800, 0)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_the_call_and_no_other_function_is_asked(stop: type[BaseException]) -> None:
    asked = Asked()

    def interrupted(properties: dict[str, Any], topic: str, body: object) -> bool:
        raise stop

    query = tamis.opaque("interrupted", interrupted, cost_us=0)
    engine = tamis.Engine()
    engine.add("interrupted", query)
    engine.add("other", asked.queries["c"])
    for call in (
        lambda: (query & asked.queries["c"]).evaluate({}),
        lambda: engine.match({}),
        lambda: engine.explain("interrupted", {}),
        lambda: engine.near_misses({}),
        lambda: engine.match_batch(pa.table({"c": [True]})),
    ):
        with pytest.raises(stop):
            call()
    engine.remove("interrupted")
    assert engine.match({"c": True}) == ["other"]


def test_an_interrupt_in_a_thread_of_a_batch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_type))

    def interrupted(properties: dict[str, Any], topic: str, body: object) -> bool | None:
        if properties["i"] == 0:
            raise SystemExit
        return True

    engine = tamis.Engine()
    engine.add("interrupted", tamis.opaque("interrupted", interrupted))
    matched = engine.match_batch(pa.table({"i": list(range(1_000))}), threads=2).to_pylist()
    assert matched == [[]] + [[0]] * 999
    assert told == [SystemExit]


def test_explain_and_near_misses_show_a_function_by_its_name() -> None:
    asked = Asked()
    engine = tamis.Engine()
    engine.add("x", asked.queries["a"] & tamis.selector("price > 10"))
    explanation = engine.explain("x", {"a": True, "price": 5})
    assert explanation.result is False
    assert explanation.predicates == [("OPAQUE('a')", None, True), ("price > 10", 5, False)]
    assert engine.near_misses({"a": True, "price": 5}) == ["x"]
    assert asked.calls == {"a": 2}


def test_a_query_of_a_function_equals_itself_alone() -> None:
    first, second = (tamis.opaque("same", bool) for _ in range(2))
    assert first == first
    assert first != second
    assert first & tamis.selector("a") == first & tamis.selector("a")
    assert hash(first | second) == hash(first | second)
    assert len({first, second, first}) == 2
    assert str(~first & tamis.selector("a = 1")) == "NOT OPAQUE('same') AND a = 1"
    assert repr(first) == "<tamis.Query OPAQUE('same')>"
    assert copy.copy(first) is first
    assert copy.deepcopy([first]) == [first]
    assert first.tree() == ("predicate", first)


def test_a_function_is_not_written_down(tmp_path: Path) -> None:
    query = tamis.opaque("in_my_list", bool) & tamis.selector("a = 1")
    engine = tamis.Engine()
    engine.add("x", query)
    with pytest.raises(TypeError, match="'in_my_list' is a function and cannot be pickled"):
        pickle.dumps(query)
    with pytest.raises(TypeError, match="'in_my_list' is a function and cannot be saved"):
        engine.save(tmp_path / "queries.tamis")
    assert not list(tmp_path.iterdir())
    with pytest.raises(tamis.QueryError, match="a function cannot be read from text"):
        tamis.selector(str(query))


def test_a_property_may_be_called_opaque() -> None:
    assert tamis.selector("opaque = 1 AND OPAQUE").evaluate({"opaque": 1, "OPAQUE": True}) is True


def test_what_is_no_expensive_predicate_is_refused() -> None:
    for name, function, cost_us, error in (
        ("", bool, 1, ValueError),
        ("x", None, 1, TypeError),
        ("x", "bool", 1, TypeError),
        ("x", bool, -1, ValueError),
        ("x", bool, float("nan"), ValueError),
        ("x", bool, float("inf"), ValueError),
    ):
        with pytest.raises(error):
            tamis.opaque(name, function, cost_us=cost_us)  # type: ignore[arg-type]
    with pytest.raises(tamis.QueryError, match="at most"):
        tamis.opaque("x" * 70_000, bool)


def test_functions_are_saved_by_name_and_given_again_when_the_snapshot_is_opened(tmp_path: Path) -> None:
    asked, again = Asked(), Asked()
    engine = tamis.Engine()
    engine.add_many((i, asked.queries["a"] & tamis.selector(f"n >= {i}")) for i in range(100))
    engine.add("deep", tamis.selector("n = 7") | ~(asked.queries["b"] & asked.queries["c"]))
    sent = [
        {"a": a, "b": b, "c": c, "n": n}
        for a in (True, None)
        for b in (True, False)
        for c in (True, False)
        for n in (7, 70)
    ]
    expected = [engine.match(message) for message in sent]
    engine.save(tmp_path / "first", opaque="names")
    functions = {name: again.function(name) for name in NAMES} | {"never asked": bool}
    for verify in (False, True):
        opened = tamis.Engine.open(tmp_path / "first", verify=verify, opaque=functions)
        assert [opened.match(message) for message in sent] == expected
        assert all(again.calls[name] for name in NAMES)
    opened.add("new", tamis.opaque("new", lambda properties, topic, body: True, cost_us=2))
    opened.save(tmp_path / "second", opaque="names")
    twice = tamis.Engine.open(tmp_path / "second", opaque=functions | {"new": functions["a"]})
    assert [twice.match(message) for message in sent] == [
        keys + (["new"] if message["a"] else []) for message, keys in zip(sent, expected, strict=True)
    ]
    explanation = twice.explain("deep", sent[0])
    assert [text for text, _, _ in explanation.predicates] == ["n = 7", "OPAQUE('b')", "OPAQUE('c')"]


def test_one_function_of_a_snapshot_is_one_again_and_is_asked_once(tmp_path: Path) -> None:
    asked = Asked()
    engine = tamis.Engine()
    engine.add_many((i, asked.queries["a"] & tamis.selector(f"n >= {i}")) for i in range(50))
    engine.save(tmp_path / "queries", opaque="names")
    opened = tamis.Engine.open(tmp_path / "queries", opaque={"a": asked.function("a")})
    assert opened.match({"a": True, "n": 30}) == list(range(31))
    assert asked.calls == {"a": 1}


def test_a_snapshot_is_not_opened_without_its_functions_and_the_first_that_is_missing_is_named(tmp_path: Path) -> None:
    asked = Asked()
    engine = tamis.Engine()
    engine.add("x", asked.queries["a"] & asked.queries["b"])
    engine.save(tmp_path / "queries", opaque="names")
    for functions, missing in ((None, "'a'"), ({}, "'a'"), ({"a": bool}, "'b'"), ({"b": bool}, "'a'")):
        with pytest.raises(TypeError, match=f"names the expensive predicate {missing}"):
            tamis.Engine.open(tmp_path / "queries", opaque=functions)
    with pytest.raises(TypeError, match="opaque 'b': expected a function, not int"):
        tamis.Engine.open(tmp_path / "queries", opaque={"a": bool, "b": 1})  # type: ignore[dict-item]


def test_two_functions_of_one_name_are_not_saved(tmp_path: Path) -> None:
    engine = tamis.Engine()
    engine.add_many((i, tamis.opaque("same", bool)) for i in range(2))
    with pytest.raises(TypeError, match="two expensive predicates are called 'same'"):
        engine.save(tmp_path / "queries", opaque="names")
    assert not list(tmp_path.iterdir())
    engine.remove(1)
    engine.save(tmp_path / "queries", opaque="names")
    with pytest.raises(ValueError, match="expected 'names' or None"):
        engine.save(tmp_path / "queries", opaque="pickle")  # type: ignore[arg-type]
