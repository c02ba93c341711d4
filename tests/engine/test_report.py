"""The report on an engine counts correctly, and its claims hold for every message."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tamis
from tests import oracle
from tests.engine.test_engine import TREE, queries

TEXTS = {
    "james": "author = 'James' AND source = 'CNN'",
    "same": "author = 'James' AND source = 'CNN'",
    "turned": "source = 'CNN' AND author = 'James'",
    "cnn": "source IN ('CNN', 'BBC')",
    "expensive": "price > 150",
    "wide": "price > 100",
    "odd": "price = 1 AND NOT price < 5",
    "list": "price = 1 AND price = 2",
    "all": "EXISTS(price) OR NOT EXISTS(price)",
    "null": "price IS NULL",
}


@pytest.fixture
def engine() -> tamis.Engine:
    engine = tamis.Engine()
    engine.add_many((key, tamis.selector(text)) for key, text in TEXTS.items())
    return engine


def test_the_report_names_keys(engine: tamis.Engine) -> None:
    report = engine.report()
    assert (report.subscriptions, report.distinct_queries) == (10, 9)
    assert (report.predicates, report.distinct_predicates) == (16, 10)
    assert report.shared[:2] == [("author = 'James'", 3), ("source = 'CNN'", 3)]
    assert report.duplicates == [["james", "same"]]
    assert report.never_true == ["odd"]  # not "list": a list may have both elements
    assert report.always_true == ["all"]
    assert {"all", "null"} <= set(report.unindexable)
    assert not {"james", "cnn"} & set(report.unindexable)
    assert report.served_by == [("values", 1), ("ranges", 3), ("summaries", 6)]
    assert report.covered_subscriptions == 4
    assert report.covered == [
        ("james", "cnn"),
        ("same", "cnn"),
        ("turned", "james"),
        ("turned", "cnn"),
        ("expensive", "wide"),
    ]
    assert report.bytes > 100
    assert {expensive.key for expensive in report.most_expensive} == set(TEXTS) - {"same"}
    assert all(expensive.cost_us > 0 for expensive in report.most_expensive)
    assert [tamis.selector(expensive.text).opaques() for expensive in report.most_expensive] == [
        [] for _ in report.most_expensive
    ]


def test_the_report_is_readable_and_goes_into_json(engine: tamis.Engine) -> None:
    report = engine.report()
    shown = str(report)
    assert shown.startswith("10 subscriptions, 9 distinct queries, ")
    assert "\nduplicates: 1: 'james' = 'same'\n" in shown
    assert "\nnever true: 1: 'odd'\n" in shown
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["shared"][0] == {"text": "author = 'James'", "subscriptions": 3}
    assert plain["covered"][0] == {"key": "james", "by": "cnn"}
    assert plain["duplicates"] == [["james", "same"]]
    assert str(tamis.Engine().report()) == "0 subscriptions, 0 distinct queries, 0 bytes\n0 predicates, 0 distinct"


def test_an_opened_and_changed_snapshot_is_reported_too(engine: tamis.Engine, tmp_path: Path) -> None:
    engine.save(tmp_path / "engine")
    opened = tamis.Engine.open(tmp_path / "engine")
    assert opened.report().covered == engine.report().covered
    opened.remove("wide")
    opened.add("same", tamis.selector("price > 120"))
    report = opened.report()
    assert report.duplicates == []
    assert ("expensive", "same") in report.covered
    assert opened.names() == ["author", "price", "source"]
    assert opened.all_keys() == [key for key in TEXTS if key != "wide"]
    assert str(opened.query("same")) == "price > 120"
    with pytest.raises(KeyError):
        opened.query("wide")


def test_a_report_may_be_made_while_the_engine_changes(engine: tamis.Engine) -> None:
    done = threading.Event()

    def change() -> None:
        for number in range(300):
            engine.add(("new", number), tamis.selector(f"price = {number}"))
            engine.remove(("new", number))
        done.set()

    thread = threading.Thread(target=change)
    thread.start()
    while not done.is_set():
        assert engine.report().never_true == ["odd"]
    thread.join()


elements = st.one_of(oracle.scalars, st.none(), st.just(tamis.PRESENT), st.just(float("nan")))
values = st.one_of(elements, st.lists(elements, max_size=3))
properties = st.dictionaries(st.sampled_from([*oracle.NAMES, "c"]), values, max_size=5)
messages = st.tuples(
    properties,
    st.sampled_from(["", "a", "a.b", "a.b.c", "forex.usd"]),
    st.sampled_from([None, "", "garlic and rhubarb", "the rhubarb", b"\xff"]),
)


@settings(max_examples=150)
@given(st.lists(queries, min_size=2, max_size=12), st.lists(messages, min_size=1, max_size=30))
def test_what_the_report_says_holds_of_every_message(asked: list[tamis.Query], sent: list[Any]) -> None:
    engine = tamis.Engine()
    engine.hierarchy("a", TREE)
    engine.add_many(enumerate([*asked, *(query & other for query, other in pairwise(asked))]))
    report = engine.report()
    for message in sent:
        matched = set(engine.match(*message))
        assert not matched & set(report.never_true)
        assert matched >= set(report.always_true)
        for narrow, wide in report.covered:
            assert narrow not in matched or wide in matched, (str(engine.query(narrow)), str(engine.query(wide)))


@settings(max_examples=100)
@given(oracle.trees, oracle.trees)
def test_a_query_is_covered_by_each_part_that_it_is_made_of(one: oracle.Tree, other: oracle.Tree) -> None:
    part, rest = tamis.selector(oracle.render(one)), tamis.selector(oracle.render(other))
    engine = tamis.Engine()
    engine.add("part", part)
    engine.add("both", part & rest)
    report = engine.report()
    assume(not report.never_true and not report.always_true and part & rest != part)
    assert report.covered == [("both", "part")]


def test_each_time_in_the_core_comes_with_its_matches(engine: tamis.Engine) -> None:
    times = engine.time_matches([({"price": 120}, "", None), ({}, "", None)], rounds=3)
    assert [matched for _, _, matched in times] == [2, 2]
    assert all(wall > 0 for wall, _, _ in times)
