"""Tests expensive predicates that packages register as entry points."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow as pa
import pytest

import tamis
from tamis.engine.shard_directory import DIRECTORY, ShardDirectory
from tamis.engine.shards import snapshot_path, write_shards
from tamis.errors import ConfigError
from tamis.query import compile_query, predicates

MODULE = """\
def even(properties, topic, body):
    calls.append(properties["n"])
    return properties["n"] % 2 == 0


even.cost_us = 0.5
calls = []
number = 7
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package as pip does: a module and the metadata with its entry points."""
    (tmp_path / "parities.py").write_text(MODULE)
    metadata = tmp_path / "parities-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: parities\nVersion: 1\n")
    points = "[tamis.predicates]\neven = parities:even\nnumber = parities:number\ngone = no_such_module:x\n"
    (metadata / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    predicates.load_predicate.cache_clear()
    predicates._shared.cache_clear()


def test_the_entry_points_of_installed_packages_are_found() -> None:
    assert isinstance(predicates.registered()["even"], EntryPoint)


def test_a_query_names_a_predicate_alone_or_with_a_selector(tmp_path: Path) -> None:
    engine = tamis.Engine()
    engine.add("even", compile_query("even", "predicate"))
    engine.add("both", compile_query("even: n > 3", "predicate"))
    assert [engine.match({"n": n}) for n in (1, 2, 4)] == [[], ["even"], ["even", "both"]]
    import parities  # type: ignore[import-not-found]

    assert parities.calls == [1, 2, 4]  # once per message, though two queries name it
    assert engine.report().opaque[0].cost_us == 0.5
    engine.save(tmp_path / "q.tamis", opaque="names")
    assert predicates.open_registered(tmp_path / "q.tamis").match({"n": 8}) == ["even", "both"]


def test_queries_in_shards_name_predicates(tmp_path: Path) -> None:
    rules = [
        ("even", "even: n > 3", "predicate"),
        *((f"q{number}", f"n = {number}", "selector") for number in range(9)),
    ]
    assert write_shards(rules, tmp_path / "shards", 3).met_by_all == 1
    assert predicates.open_registered(snapshot_path(tmp_path / "shards", 0)).match({"n": 8}) == ["even"]
    import parities

    calls = list(parities.calls)
    directory = ShardDirectory(tmp_path / "shards" / DIRECTORY)
    assert directory.asked(["n", "other"]) == (["n", "other"], True, True)
    found = directory.route(pa.table({"n": [8, 20], "other": [1, 2]})).field("shards").to_pylist()
    assert [len(shards) for shards in found] == [2, 1]
    assert parities.calls == calls  # the directory calls none


def test_a_predicate_that_cannot_be_had_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="registers the predicate 'evn'; did you mean 'even'\\?; expected an entry"):
        compile_query("evn", "predicate")
    with pytest.raises(ConfigError, match="'gone' cannot be imported from no_such_module:x: ModuleNotFoundError"):
        compile_query("gone", "predicate")
    with pytest.raises(ConfigError, match="'number': expected a function, not int"):
        compile_query("number", "predicate")
    with pytest.raises(tamis.QueryError, match="the name of a registered predicate"):
        compile_query(" : a = 1", "predicate")
    engine = tamis.Engine()
    engine.add("other", tamis.opaque("other", lambda properties, topic, body: True))
    engine.save(tmp_path / "q.tamis", opaque="names")
    with pytest.raises(ConfigError, match="no installed package registers the predicate 'other'"):
        predicates.open_registered(tmp_path / "q.tamis")
