"""Compares the engine with brute force: new, changed, saved and opened, over batches and in threads."""

from __future__ import annotations

import json
import threading
from collections.abc import Hashable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis.cli.output import to_json
from tamis.reference import BruteForce
from tests import oracle

TOPICS = ["", "a", "a.b", "a.b.c", "forex.usd"]
BODIES = [None, "", "garlic and rhubarb", "the rhubarb", b"\xff"]

queries = st.one_of(
    oracle.trees.map(lambda tree: tamis.selector(oracle.render(tree))),
    st.sampled_from(["#", "a.*", "a.#.c", "forex.usd", "*", ""]).map(tamis.topic),
    st.sampled_from(["a.*", "#"]).map(lambda p: tamis.topic(p, dialect="openamq")),
    st.dictionaries(
        st.sampled_from(oracle.NAMES), st.one_of(oracle.scalars, st.just(tamis.ANY)), min_size=1, max_size=3
    ).flatmap(lambda c: st.sampled_from(["all", "any"]).map(lambda require: tamis.fields(c, require=require))),
    st.sampled_from(["garlic", "the rhubarb", "and"]).map(tamis.text),
    st.just(tamis.near("garlic", "rhubarb", 2)),
    st.just(tamis.selector('A = "x" OR C.D LIKE %a%', dialect="cbm")),
    st.just(tamis.selector("a UNDER 'x' OR b = 1")),
)
queries = st.one_of(queries, st.tuples(queries, queries).map(lambda two: two[0] & two[1]), queries.map(lambda q: ~q))
messages = st.tuples(oracle.messages, st.sampled_from(TOPICS), st.sampled_from(BODIES))
keys = st.one_of(st.integers(0, 20), st.text(max_size=2), st.tuples(st.integers(0, 3), st.binary(max_size=2)))
TREE = {"xy": "x", "x": None}


def both(pairs: list[tuple[Hashable, tamis.Query]]) -> tuple[tamis.Engine, BruteForce]:
    engine, brute = tamis.Engine(), BruteForce()
    engine.hierarchy("a", TREE)
    brute.hierarchy("a", TREE)
    engine.add_many(pairs)
    for key, query in pairs:
        brute.add(key, query)
    return engine, brute


@settings(max_examples=300)
@given(st.lists(st.tuples(keys, queries), max_size=25), st.lists(messages, max_size=6))
def test_the_engine_agrees_with_brute_force(pairs: Any, sent: Any) -> None:
    engine, brute = both(pairs)
    assert len(engine) == len(dict(pairs))
    for message in sent:
        assert engine.match(*message) == brute.match(*message)


changes = st.lists(st.tuples(st.sampled_from(["add", "add", "remove"]), keys, queries), max_size=20)


def test_keys_of_a_snapshot_are_read_once_and_only_those_that_are_asked_for(tmp_path: Path) -> None:
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add_many((f"q{i}", tamis.selector(f"a = {i % 2}")) for i in range(1_000))
    engine.save(tmp_path / "engine")
    opened: tamis.Engine[str] = tamis.Engine.open(tmp_path / "engine")
    even, odd = [f"q{i}" for i in range(0, 1_000, 2)], [f"q{i}" for i in range(1, 1_000, 2)]
    for _ in range(2):
        assert opened.match({"a": 0}) == even
        assert len(opened._keys.by_id.missing(list(range(1_000)))) == 500
    assert opened.keys([3, 2, 3]) == ["q3", "q2", "q3"]
    opened.remove("q1")
    opened.add("new", tamis.selector("a = 1"))
    assert opened.match({"a": 1}) == [*odd[1:], "new"]
    for unknown in (1, 1_001, 10**6, -1, 2**64):
        with pytest.raises(KeyError, match=str(unknown)):
            opened.keys([0, unknown])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(keys, queries), max_size=15), changes, messages)
def test_changes_are_seen_by_the_next_match_also_in_an_opened_snapshot(
    tmp_path_factory: pytest.TempPathFactory, pairs: Any, changed: Any, message: Any
) -> None:
    engine, brute = both(pairs)
    path = tmp_path_factory.mktemp("snapshot") / "engine.tamis"
    engine.save(path)
    opened = tamis.Engine.open(path, verify=True)
    assert opened.match(*message) == brute.match(*message)
    for kind, key, query in changed:
        if kind == "add":
            for matcher in (engine, opened, brute):
                matcher.add(key, query)
        elif key in engine:
            for matcher in (engine, opened, brute):
                matcher.remove(key)
        assert engine.match(*message) == opened.match(*message) == brute.match(*message)
        assert len(engine) == len(opened)
        assert (key in engine) == (key in opened)
    opened.save(path)
    assert tamis.Engine.open(path).match(*message) == brute.match(*message)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(keys, queries), max_size=15),
    st.lists(messages, min_size=1, max_size=5),
    st.sampled_from([1, 2, 3]),
)
def test_a_batch_gives_what_single_matches_give(pairs: Any, sent: Any, threads: int) -> None:
    engine, _ = both(pairs)
    sent = [(as_json(properties), topic, None if isinstance(body, bytes) else body) for properties, topic, body in sent]

    table = pa.table(
        {
            "topic": pa.array([topic for _, topic, _ in sent], pa.string()),
            "properties": pa.array([json.dumps(properties) for properties, _, _ in sent], pa.string()),
            "body": pa.array([body for _, _, body in sent], pa.string()),
        }
    )
    matched = engine.match_batch(table, threads=threads)
    assert isinstance(matched, pa.ListArray)
    assert matched.type.value_type == pa.uint64()
    assert [engine.keys(ids) for ids in matched.to_pylist()] == [engine.match(*message) for message in sent]


def as_json(properties: Any) -> Any:
    """Return properties as JSON has them: times as texts."""
    return json.loads(to_json(properties))


def test_a_batch_takes_structs_maps_and_plain_columns() -> None:
    engine = tamis.Engine()
    engine.add("rich", tamis.selector("price > 100"))
    engine.add("james", tamis.selector("author.name = 'James'"))
    rows = [{"price": 120, "author": {"name": "James"}}, {"price": None, "author": {"name": "Jo"}}]
    assert engine.match_batch(pa.Table.from_pylist(rows)).to_pylist() == [[0, 1], []]
    nested = pa.table({"properties": pa.array(rows)})
    assert engine.match_batch(nested).to_pylist() == [[0, 1], []]
    mapped = pa.table({"properties": pa.array([[("price", 101.5)], []], pa.map_(pa.string(), pa.float64()))})
    assert engine.match_batch(mapped).to_pylist() == [[0], []]
    chunked = pa.concat_tables([mapped, mapped])
    assert engine.match_batch(chunked, threads=2).to_pylist() == [[0], [], [0], []]
    assert engine.match_batch(pa.record_batch(nested.to_batches()[0])).to_pylist() == [[0, 1], []]
    with pytest.raises(TypeError, match="Arrow"):
        engine.match_batch([1])
    with pytest.raises(ValueError, match="row 1"):
        engine.match_batch(pa.table({"properties": ["{}", "{"]}))
    for threads in (0, -1):
        with pytest.raises(ValueError, match="threads"):
            engine.match_batch(nested, threads=threads)
    assert engine.match_batch(nested, threads=2**70).to_pylist() == [[0, 1], []]


def test_a_batch_goes_on_past_rows_that_cannot_be_read_and_says_which() -> None:
    engine = tamis.Engine()
    engine.add("one", tamis.selector("a = 1"))
    chunks = [pa.table({"properties": texts}) for texts in (['{"a": 1}'], ['{"a": 1}', "{bad", "[1]"], ['{"a": 2}'])]
    table = pa.concat_tables(chunks)
    with pytest.raises(ValueError, match="^column 'properties', row 2: "):
        engine.match_batch(table)
    ids = [[0], [0], None, None, []]
    assert engine.match_batch(table, errors="null").to_pylist() == ids
    beside = engine.match_batch(table, errors="column")
    assert beside.field("ids").to_pylist() == ids
    reasons = beside.field("error").to_pylist()
    assert [reason is None for reason in reasons] == [True, True, False, False, True]
    assert reasons[3] == "column 'properties': expected an object: names and values"
    with pytest.raises(ValueError, match="errors: expected 'raise', 'null' or 'column', not 'skip'"):
        engine.match_batch(table, errors="skip")  # type: ignore[arg-type]


def test_a_batch_may_have_any_column_that_no_query_asks_for() -> None:
    engine = tamis.Engine()
    engine.add("one", tamis.selector("a = 1 AND b.c IS NULL"))
    spans = pa.array([1, 2], pa.duration("s"))
    table = pa.table({"a": [1, 2], "span": spans, "large": pa.array([2**64 - 1, 1], pa.uint64())})
    assert engine.match_batch(table).to_pylist() == [[0], []]
    assert engine.asked(["a", "b", "c", "span"]) == (["a", "b"], False, False)
    engine.add("long", tamis.selector("span > 1 OR CONTAINS(body, 'frost')"))
    assert engine.asked(["span"]) == (["span"], False, True)
    for errors in ("raise", "null"):
        with pytest.raises(TypeError, match="column 'span': a column of type Duration"):
            engine.match_batch(table, errors=errors)  # type: ignore[arg-type]
    seen = []
    engine = tamis.Engine()
    engine.add("all", tamis.opaque("all", lambda properties, topic, body: seen.append(properties) or True))
    engine.match_batch(pa.table({"a": [1], "never named": [2]}))
    assert seen == [{"a": 1, "never named": 2}]


def test_an_array_that_is_no_rows_is_refused() -> None:
    engine = tamis.Engine()
    engine.add("rich", tamis.selector("price > 100"))
    for array in (pa.array([120]), pa.array(["x"]), pa.nulls(2), pa.array([[120]]), pa.chunked_array([[120]])):
        with pytest.raises(TypeError):
            engine.match_batch(array)
    with pytest.raises(TypeError, match="null"):
        engine.match_batch(pa.array([{"price": 120}, None]))
    assert engine.match_batch(pa.array([{"price": 120}, {"price": None}])).to_pylist() == [[0], []]


def test_hits_count_the_criteria_that_are_true() -> None:
    engine = tamis.Engine()
    engine.add("selector", tamis.selector("currency = 'EUR'"))
    engine.add(0, tamis.fields({"currency": "USD", "urgent": tamis.ANY}))
    engine.add(1, tamis.fields({"currency": "EUR"}))
    engine.add(2, tamis.fields({"market": "forex", "currency": "EUR"}))
    engine.add(3, tamis.fields({"urgent": tamis.ANY}))
    assert engine.hits({"currency": "JPY", "urgent": tamis.PRESENT}) == [(0, 1, 2), (3, 1, 1)]
    assert engine.hits({"market": "forex", "currency": "EUR"}) == [(1, 1, 1), (2, 2, 2)]


def test_keys_compare_as_in_a_dict_and_keep_their_place(tmp_path: Path) -> None:
    engine = tamis.Engine()
    engine.add_many(
        [(1, tamis.selector("a = 1")), ("b", tamis.selector("a = 1")), ((1, b"x", ("y",)), tamis.selector("a = 1"))]
    )
    engine.add(True, tamis.selector("a = 2"))  # True == 1: the query is replaced and its position kept
    engine.add(True, tamis.selector("a = 1"))
    assert engine.match({"a": 1}) == [1, "b", (1, b"x", ("y",))]
    engine.save(tmp_path / "e")
    opened = tamis.Engine.open(tmp_path / "e")
    assert opened.match({"a": 1}) == [1, "b", (1, b"x", ("y",))]
    assert 1.0 in opened
    opened.remove(1.0)
    assert opened.match({"a": 1}) == ["b", (1, b"x", ("y",))]
    with pytest.raises(KeyError):
        opened.remove(1)
    engine.add(1.5, tamis.selector("TRUE"))
    with pytest.raises(TypeError, match=r"1\.5"):
        engine.save(tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_ids_of_keys_are_those_of_batches(tmp_path: Path) -> None:
    engine: tamis.Engine[Any] = tamis.Engine()
    engine.add_many((key, tamis.selector(f"a >= {limit}")) for limit, key in enumerate(["x", ("y", 1), 2]))
    engine.save(tmp_path / "e.tamis")
    for one in (engine, tamis.Engine.open(tmp_path / "e.tamis")):
        found = one.match({"a": 1})
        assert one.ids(found) == one.match({"a": 1}, as_="ids")
        assert one.keys(one.ids([2, "x"])) == [2, "x"]
        with pytest.raises(KeyError, match="nobody"):
            one.ids(["x", "nobody"])
        with pytest.raises(TypeError, match="expected a key that can be hashed"):
            one.ids([[]])  # type: ignore[list-item]


def test_add_many_is_all_or_nothing() -> None:
    engine = tamis.Engine()
    with pytest.raises(TypeError, match="'b'"):
        engine.add_many([("a", tamis.selector("TRUE")), ("b", "TRUE")])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="hash"):
        engine.add_many([("a", tamis.selector("TRUE")), ([], tamis.selector("TRUE"))])  # type: ignore[list-item]
    assert len(engine) == 0


def test_a_foreign_or_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    with pytest.raises(FileNotFoundError):
        tamis.Engine.open(path)
    for content in (b"", b"hello", b"PK\x03\x04" * 100):
        path.write_bytes(content)
        with pytest.raises(tamis.SnapshotError):
            tamis.Engine.open(path)
    engine = tamis.Engine()
    engine.add("a", tamis.selector("a = 1 AND b LIKE '%x%'"))
    engine.save(path)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.with_suffix(".cut").write_bytes(whole[:size])
        with pytest.raises(tamis.SnapshotError):
            tamis.Engine.open(path.with_suffix(".cut"))


def test_matching_and_changing_from_many_threads_sees_whole_states() -> None:
    engine = tamis.Engine()
    engine.add("always", tamis.selector("a = 1"))
    failures: list[object] = []
    stop = threading.Event()

    def change() -> None:
        for _ in range(300):
            engine.add_many([("left", tamis.selector("a = 1")), ("right", tamis.selector("a = 1"))])
            engine.remove("right")
            engine.remove("left")
        stop.set()

    def match() -> None:
        while not stop.is_set():
            if engine.match({"a": 1}) not in (["always"], ["always", "left"], ["always", "left", "right"]):
                failures.append(engine.match({"a": 1}))

    threads = [threading.Thread(target=work) for work in (change, match, match)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_explain_tells_the_value_and_verdict_of_every_predicate() -> None:
    engine = tamis.Engine()
    engine.add("big-tick", tamis.selector("price > 100 AND symbol IN ('A', 'B') AND lot = 1"))
    why = engine.explain("big-tick", {"price": 120, "symbol": "C"})
    assert why.result is False
    assert why.predicates == [("price > 100", 120, True), ("symbol IN ('A', 'B')", "C", False), ("lot = 1", None, None)]
    assert why.missing == ["lot"]
    assert str(why).startswith("no: price > 100 is true (120); symbol IN ('A', 'B') is FALSE ('C')")
    assert why.to_dict()["predicates"][0] == {"text": "price > 100", "value": 120, "result": True}
    with pytest.raises(KeyError):
        engine.explain("other", {})


def test_an_instant_that_python_cannot_have_is_shown_without_its_value() -> None:
    engine = tamis.Engine()
    engine.add("early", tamis.selector("d < TIMESTAMP '2002-08-22T00:00:00Z'"))
    seen: list[object] = []
    engine.add("asked", tamis.opaque("asked", lambda properties, topic, body: seen.append(properties["d"])))
    before_the_year_1 = {"d": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))}
    assert engine.match(before_the_year_1) == ["early"]
    assert seen == [tamis.PRESENT]
    [(_, value, result)] = engine.explain("early", before_the_year_1).predicates
    assert (value, result) == (tamis.PRESENT, True)


def test_near_misses_are_off_by_so_many_predicates() -> None:
    engine = tamis.Engine()
    engine.add("true", tamis.selector("a = 1"))
    engine.add("one", tamis.selector("a = 1 AND b = 2"))
    engine.add("least", tamis.selector("(a = 2 AND b = 2) OR c = 3"))
    engine.add("pushed", tamis.selector("NOT (a = 1 OR b IS NULL)"))
    engine.add("unknown", tamis.selector("b > 1"))
    assert engine.near_misses({"a": 1}) == ["one", "least", "unknown"]
    assert engine.near_misses({"a": 1}, off_by=2) == ["pushed"]
    assert engine.near_misses({"a": 1}, limit=2) == ["one", "least"]
    assert engine.near_misses({"a": 1}, limit=2**70) == ["one", "least", "unknown"]
    assert engine.near_misses({"a": 1}, off_by=2**70) == []
    with pytest.raises(ValueError, match="at least 1"):
        engine.near_misses({}, off_by=0)
