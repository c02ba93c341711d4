"""An engine behaves as a collection of keys: iteration, repr, a notebook's table, copies and pickles."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tamis
from tamis.engine import engine as engine_module

WAYS: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
ids_of_ways = ["copy", "deepcopy", "pickle"]


@pytest.fixture
def engine() -> tamis.Engine[str]:
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add("z", tamis.selector("price > 100"))
    engine.add("gone", tamis.selector("price > 100"))
    engine.add("a", tamis.selector("grp UNDER 'eu'"))
    engine.add("z", tamis.selector("price > 10"))
    engine.remove("gone")
    engine.hierarchy("grp", {"eu": None, "de": "eu"})
    return engine


def test_iteration_gives_the_keys_in_their_order_and_bears_changes(engine: tamis.Engine[str]) -> None:
    assert list(engine) == ["z", "a"]
    assert (len(engine), "z" in engine, "gone" in engine) == (2, True, False)
    for key in engine:
        engine.remove(key)
    assert list(engine) == []
    assert not engine


def test_the_repr_counts() -> None:
    engine: tamis.Engine[int] = tamis.Engine()
    assert repr(engine) == "<tamis.Engine of 0 subscriptions>"
    engine.add(1, tamis.selector("a = 1"))
    assert repr(engine) == "<tamis.Engine of 1 subscription>"
    engine.add_many((number, tamis.selector("a = 1")) for number in range(1_000))
    assert repr(engine) == "<tamis.Engine of 1,000 subscriptions>"


def test_a_notebook_shows_the_report_of_an_engine(engine: tamis.Engine[str]) -> None:
    engine.add("<b>", tamis.selector("FALSE"))
    shown = engine._repr_html_()
    assert shown.startswith("<table>")
    assert "<tr><th>subscriptions</th><td>3</td></tr>" in shown
    assert "<tr><th>never true</th><td>1: &#x27;&lt;b&gt;&#x27;</td></tr>" in shown


def test_a_notebook_does_not_wait_for_the_report_of_a_large_engine(
    engine: tamis.Engine[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_REPORTED_MAX", 1)
    assert "tamis.Engine of 2 subscriptions" in engine._repr_html_()
    assert "engine.report()" in engine._repr_html_()


def test_a_notebook_shows_an_explanation_row_by_row(engine: tamis.Engine[str]) -> None:
    shown = engine.explain("z", {"price": 7})._repr_html_()
    assert "<caption>no</caption>" in shown
    assert "<tr><th>price &gt; 10</th><td>FALSE</td><td>7</td></tr>" in shown
    assert "<th>price</th><td>missing</td>" in engine.explain("z", {})._repr_html_()


@pytest.mark.parametrize("way", WAYS, ids=ids_of_ways)
def test_a_copy_is_an_engine_of_its_own(engine: tamis.Engine[str], way: Callable[[Any], Any]) -> None:
    same = way(engine)
    assert type(same) is tamis.Engine
    assert list(same) == ["z", "a"]
    assert same.query("z") == engine.query("z")
    assert same.match({"price": 20, "grp": "de"}) == ["z", "a"]
    same.remove("z")
    engine.remove("a")
    assert (list(same), list(engine)) == (["a"], ["z"])


@pytest.mark.parametrize("way", WAYS, ids=ids_of_ways)
def test_a_copy_keeps_the_ids(engine: tamis.Engine[str], way: Callable[[Any], Any]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"price": [20]})
    assert way(engine).match_batch(table).to_pylist() == engine.match_batch(table).to_pylist() == [[0]]


@pytest.mark.parametrize("way", WAYS, ids=ids_of_ways)
def test_what_no_snapshot_keeps_is_refused_by_name(way: Callable[[Any], Any]) -> None:
    with_frozenset: tamis.Engine[frozenset[int]] = tamis.Engine()
    with_frozenset.add(frozenset({1}), tamis.selector("a = 1"))
    with pytest.raises(
        TypeError, match=r"pickled and copied as a snapshot, as save\(\) writes it: key frozenset\(\{1\}\)"
    ):
        way(with_frozenset)
    with_function: tamis.Engine[str] = tamis.Engine()
    with_function.add("key", tamis.opaque("mine", lambda properties, topic, body: True))
    with pytest.raises(TypeError, match="as a snapshot, as save.* writes it: .*mine"):
        way(with_function)


def test_the_type_of_the_keys_can_be_written_at_run_time() -> None:
    assert tamis.Engine[str]().match({}) == []
    assert "Engine[str]" in repr(tamis.Engine[str])


@pytest.mark.parametrize("way", WAYS, ids=ids_of_ways)
def test_a_copy_of_a_bitmap_is_equal_and_changes_alone(way: Callable[[Any], Any]) -> None:
    bitmap = tamis.Bitmap(100)
    for index in (0, 63, 99):
        bitmap.set(index)
    same = way(bitmap)
    assert same == bitmap
    same.clear(63)
    assert (same != bitmap, bitmap.count(), same.count()) == (True, 3, 2)
    assert repr(same) == "<tamis.Bitmap of 100 bits, 2 set>"
    assert tamis.Bitmap(8) != tamis.Bitmap(9)
    assert tamis.Bitmap(8) != "a bitmap"


def test_a_damaged_pickle_of_a_bitmap_is_refused() -> None:
    with pytest.raises(ValueError, match="no bitmap of tamis"):
        tamis.Bitmap(8).__setstate__(b"TAMISBM1 and nothing more")


@pytest.mark.parametrize("way", WAYS, ids=ids_of_ways)
def test_a_copy_of_a_query_is_equal(way: Callable[[Any], Any]) -> None:
    query = tamis.fields({"a": 1, "b": tamis.ANY}) | tamis.text("frost")
    assert way(query) == query
