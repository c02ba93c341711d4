"""A wrong argument gets an error that begins with the argument's name."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.words import Signature, stop_words, words

QUERY: Any = tamis.selector("a = 1")
ENGINE: Any = tamis.Engine()
ENGINE.add("key", QUERY)
TAMIS: Any = tamis
HALF = "\ud83d"  # half of a surrogate pair, as json.loads('"\\ud83d"') gives


class WithoutHash:
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "WithoutHash()"


WRONG_TYPES: list[tuple[Callable[[], object], str]] = [
    (lambda: TAMIS.selector(None), "text: expected text, not NoneType"),
    (lambda: TAMIS.selector("a = 1", dialect=3), "dialect: expected text, not int"),
    (lambda: TAMIS.boolean(b"a == 1"), "text: expected text, not bytes"),
    (lambda: TAMIS.topic(5), "pattern: expected text, not int"),
    (lambda: TAMIS.topic("a", dialect=None), "dialect: expected text, not NoneType"),
    (lambda: TAMIS.prefix(5), "text: expected text, not int"),
    (lambda: TAMIS.prefix("a", on=5), "on: expected text, not int"),
    (lambda: TAMIS.regex(5), "pattern: expected text, not int"),
    (lambda: TAMIS.regex("a", on=None), "on: expected text, not NoneType"),
    (lambda: TAMIS.text(["frost"]), "phrase: expected text, not list"),
    (lambda: TAMIS.near(1, "b"), "a: expected text, not int"),
    (lambda: TAMIS.near("a", None), "b: expected text, not NoneType"),
    (lambda: TAMIS.near("a", "b", "5"), "distance: expected an integer, not str"),
    (lambda: TAMIS.near("a", "b", 2.5), "distance: expected an integer, not float"),
    (lambda: TAMIS.fields(3), "criteria: expected a mapping of name -> value, not int"),
    (lambda: TAMIS.fields([("a", 1)]), "criteria: expected a mapping of name -> value, not list"),
    (lambda: TAMIS.fields({1: 2}), "criteria: a name: expected text, not int"),
    (lambda: TAMIS.fields({"a": None}), "field 'a': nothing equals None"),
    (lambda: TAMIS.opaque(3, print), "name: expected text, not int"),
    (lambda: TAMIS.opaque("mine", 3), "opaque 'mine': expected a function, not int"),
    (lambda: TAMIS.opaque("mine", print, "3"), "cost_us: expected a number, not str"),
    (lambda: TAMIS.compile_query(3), "text: expected text, not int"),
    (lambda: TAMIS.compile_query(3, "near"), "text: expected text, not int"),
    (lambda: TAMIS.compile_query("a = 1", ["selector"]), "language: expected text, not list"),
    (lambda: TAMIS.load_queries(3), "path: expected a path (str or os.PathLike), not int"),
    (lambda: ENGINE.add([], QUERY), "key []: unhashable type: 'list'; expected a key that can be hashed"),
    (lambda: ENGINE.add(("a", []), QUERY), "key ('a', []): unhashable type: 'list'"),
    (lambda: ENGINE.add(WithoutHash(), QUERY), "key WithoutHash(): unhashable type: 'WithoutHash'"),
    (lambda: ENGINE.add("k", "a = 1"), "key 'k': expected a tamis.Query, not str"),
    (lambda: ENGINE.add_many({"k": QUERY}), "pairs: expected pairs of key and query, not dict; of a mapping"),
    (lambda: ENGINE.add_many(3), "pairs: expected pairs of key and query, not int"),
    (lambda: ENGINE.add_many([QUERY]), "pairs: expected (key, query), not tamis.selector("),
    (lambda: ENGINE.add_many([("k", QUERY, 3)]), "pairs: expected (key, query), not ('k', "),
    (lambda: ENGINE.remove([]), "key []: unhashable type: 'list'"),
    (lambda: ENGINE.query({}), "key {}: unhashable type: 'dict'"),
    (lambda: ENGINE.explain([], {}), "key []: unhashable type: 'list'"),
    (lambda: ENGINE.match("a"), "properties: expected a mapping, not str"),
    (lambda: ENGINE.match([1]), "properties: expected a mapping, not list"),
    (lambda: ENGINE.match({1: 2}), "properties: expected a text key, not int"),
    (lambda: ENGINE.match({}, topic=5), "topic: expected text, not int"),
    (lambda: ENGINE.match({}, body=5), "body: expected str, bytes or None, not int"),
    (lambda: ENGINE.match({}, signature="x"), "signature: expected a tamis.words.Signature, not str"),
    (lambda: ENGINE.match_batch(3), "table: expected an Arrow table"),
    (lambda: ENGINE.match_batch(3, threads="2"), "threads: expected an integer, not str"),
    (lambda: ENGINE.keys(3), "ids: expected integers"),
    (lambda: ENGINE.keys(["a"]), "ids: expected integers"),
    (lambda: ENGINE.hits({}, topic=3), "topic: expected text, not int"),
    (lambda: ENGINE.explain("key", {}, topic=5), "topic: expected text, not int"),
    (lambda: ENGINE.near_misses({}, off_by="1"), "off_by: expected an integer, not str"),
    (lambda: ENGINE.near_misses({}, limit=None), "limit: expected an integer, not NoneType"),
    (lambda: ENGINE.time_matches([3]), "messages: expected (properties, topic, body) or bytes, not int"),
    (lambda: ENGINE.time_matches([], rounds="3"), "rounds: expected an integer, not str"),
    (lambda: ENGINE.hierarchy(3, {}), "attribute: expected text, not int"),
    (lambda: ENGINE.hierarchy("g", 3), "parents: expected a mapping of value -> parent or None, not int"),
    (lambda: ENGINE.hierarchy("g", {"a": 3}), "parents: the parent of 'a': expected text, not int"),
    (lambda: ENGINE.hierarchy("g", {3: None}), "parents: a value: expected text, not int"),
    (lambda: ENGINE.save(3), "path: expected a path (str or os.PathLike), not int"),
    (lambda: tamis.Engine.open(TAMIS), "path: expected a path (str or os.PathLike), not module"),
    (lambda: TAMIS.Engine.open("x", verify="yes"), "verify: expected True or False, not str"),
    (lambda: TAMIS.Engine.open("x", opaque=["a"]), "opaque: expected a mapping of name -> function, not list"),
    (lambda: TAMIS.Engine.open("x", opaque={1: print}), "opaque: expected a name, not 1"),
    (lambda: TAMIS.Engine.open("x", opaque={"mine": 1}), "opaque 'mine': expected a function, not int"),
    (lambda: QUERY.evaluate(3), "properties: expected a mapping, not int"),
    (lambda: QUERY.evaluate({}, 3), "topic: expected text, not int"),
    (lambda: QUERY.evaluate({}, body=3), "body: expected str, bytes or None, not int"),
    (lambda: QUERY.evaluate({}, hierarchies=3), "hierarchies: expected a mapping of attribute -> {value: parent"),
    (lambda: QUERY.evaluate({}, hierarchies={"g": 3}), "hierarchies['g']: expected a mapping of value -> parent"),
    (lambda: QUERY.evaluate({}, hierarchies={3: {}}), "hierarchies: an attribute: expected text, not int"),
    (lambda: QUERY.evaluate({}, hierarchies={"g": {"a": 3}}), "hierarchies['g']: the parent of 'a': expected text"),
    (lambda: QUERY.evaluate({}, signature=3), "signature: expected a tamis.words.Signature, not int"),
    (lambda: QUERY.highlight({}, 3), "topic: expected text, not int"),
    (lambda: TAMIS.Bitmap("3"), "size: expected an integer, not str"),
    (lambda: TAMIS.Bitmap(8).set(None), "index: expected an integer, not NoneType"),
    (lambda: TAMIS.Bitmap(8).next_set("a"), "index: expected an integer, not str"),
    (lambda: TAMIS.Bitmap(8).write(3), "file: expected an open binary file, not int"),
    (lambda: TAMIS.Bitmap(8).write(io.StringIO()), "file: expected an open binary file, not StringIO"),
    (lambda: TAMIS.Bitmap.read(io.StringIO("x" * 8)), "file: expected an open binary file, not StringIO"),
    (lambda: Signature(3), "text: expected text, not int"),  # type: ignore[arg-type]
    (lambda: Signature("a", 3), "stop_words: expected words, not int"),  # type: ignore[arg-type]
    (lambda: Signature("a", [3]), "stop_words: a word: expected text, not int"),  # type: ignore[list-item]
    (lambda: Signature("a").positions(3), "term: expected text, not int"),  # type: ignore[arg-type]
    (lambda: words(3), "text: expected text, not int"),  # type: ignore[arg-type]
    (lambda: stop_words(3), "wanted: expected text or words, not int"),  # type: ignore[arg-type]
    (lambda: stop_words([3]), "wanted: a word: expected text, not int"),  # type: ignore[list-item]
]

WRONG_VALUES: list[tuple[Callable[[], object], str]] = [
    (
        lambda: tamis.selector(f"a = '{HALF}'"),
        "text: expected Unicode text, found half of a surrogate pair at character 5",
    ),
    (lambda: tamis.text(HALF), "phrase: expected Unicode text"),
    (lambda: tamis.fields({HALF: 1}), "criteria: a name: expected Unicode text"),
    (lambda: tamis.fields({"a": HALF}), "property 'a': expected Unicode text"),
    (lambda: ENGINE.match({"a": {"b": ["x", "y" + HALF]}}), "property 'a.b': expected Unicode text, found half of a"),
    (lambda: ENGINE.match({HALF: 1}), "properties: a key: expected Unicode text"),
    (lambda: ENGINE.match({}, topic=HALF), "topic: expected Unicode text"),
    (lambda: ENGINE.match({}, body=HALF), "body: expected Unicode text"),
    (lambda: ENGINE.hierarchy("g", {"a": "b"}), "the parent 'b' is not declared"),
    (lambda: ENGINE.hierarchy("g", {"a": "b", "b": "a"}), "a cycle through '"),
    (lambda: TAMIS.near("a", "b", 0), "distance: expected at least 1, not 0"),
    (lambda: TAMIS.fields({}), "fields: expected at least one criterion"),
    (lambda: TAMIS.selector("a = 1", dialect="sql"), "dialect: expected 'jms' or 'cbm', not 'sql'"),
    (lambda: ENGINE.match_batch(3, threads=0), "threads: expected at least 1, not 0"),
    (lambda: ENGINE.near_misses({}, off_by=0), "off_by: expected at least 1, not 0"),
    (lambda: ENGINE.near_misses({}, limit=-1), "limit: expected at least 1, not -1"),
    (lambda: ENGINE.time_matches([], rounds=-3), "rounds: expected at least 0, not -3"),
    (lambda: ENGINE.save("x", opaque=3), "opaque: expected 'names' or None, not 3"),
    (lambda: TAMIS.Bitmap(2**33), "size: expected 0 to 4294967296, not 8589934592"),
    (lambda: TAMIS.Bitmap(8) & TAMIS.Bitmap(9), "expected bitmaps of the same size, not of 8 and 9 bits"),
]


@pytest.mark.parametrize(("call", "expected"), WRONG_TYPES, ids=[expected for _, expected in WRONG_TYPES])
def test_an_argument_of_a_wrong_type_is_named(call: Callable[[], object], expected: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(("call", "expected"), WRONG_VALUES, ids=[expected for _, expected in WRONG_VALUES])
def test_an_argument_with_a_wrong_value_is_named(call: Callable[[], object], expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value).startswith(expected)


def test_numbers_larger_than_anything_mean_all_there_is(tmp_path: Path) -> None:
    assert ENGINE.near_misses({"a": 2}, limit=10**30) == ["key"]
    assert tamis.near("a", "b", 10**12).evaluate(body="a " + "x " * 100 + "b") is True
    for index in (8, -1, 2**40, -(2**200)):
        with pytest.raises(IndexError, match=r"index: expected 0 to 8 \(exclusive\), not "):
            tamis.Bitmap(8).test(index)


def test_a_refused_batch_of_pairs_leaves_the_engine_as_it_was() -> None:
    engine: tamis.Engine[str] = tamis.Engine()
    with pytest.raises(TypeError):
        engine.add_many([("a", tamis.selector("a = 1")), ("b", "a = 1")])  # type: ignore[list-item]
    assert list(engine) == []
    engine.add_many({"a": tamis.selector("a = 1")}.items())
    assert list(engine) == ["a"]
