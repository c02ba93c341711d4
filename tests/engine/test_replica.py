"""Compares engines that changes keep in step with the engine that was changed, and with brute force."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis import selector
from tamis.engine import Engine
from tamis.engine.replica import Addition, EngineChange, apply_change, change_engine
from tamis.errors import QueryError, SnapshotError

KEYS = st.sampled_from("abcdef")
STEPS = st.lists(st.dictionaries(KEYS, st.none() | st.integers(0, 9), max_size=4), min_size=1, max_size=12)


def _step(engine: Engine[str], wanted: dict[str, int | None]) -> EngineChange:
    """Give each key its limit; None removes it."""
    removed = [key for key in wanted if key in engine]
    added = [Addition(key, f"x > {limit}") for key, limit in wanted.items() if limit is not None]
    return change_engine(engine, removed, added, {})


@given(STEPS, st.integers(0, 11), st.integers(0, 10))
@settings(max_examples=150, deadline=None)
def test_a_replica_is_as_the_original(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, int | None]], saved_after: int, x: int
) -> None:
    path = tmp_path_factory.mktemp("replica") / "e.tamis"
    original: Engine[str] = Engine()
    model: dict[str, int] = {}
    changes = []
    saved_after = min(saved_after, len(steps) - 1)
    for number, step in enumerate(steps):
        changes.append(_step(original, step))
        for key, limit in step.items():
            model.pop(key, None)
            if limit is not None:
                model[key] = limit
        if number == saved_after:
            original.save(path)
    replica: Engine[str] = Engine.open(path)
    for change in changes[saved_after + 1 :]:
        apply_change(replica, EngineChange.decode(change.encode()))
    wanted = [key for key, limit in model.items() if x > limit]
    for engine in (original, replica):
        assert sorted(engine.match({"x": x})) == sorted(wanted)
        assert engine.keys(engine.match({"x": x}, as_="ids")) == engine.match({"x": x})
    assert replica.match({"x": x}, as_="ids") == original.match({"x": x}, as_="ids")
    assert replica.all_keys() == original.all_keys()
    replica.add("new", selector("x > 100"))
    assert len(replica) == len(model) + 1
    for key in model:
        replica.remove(key)
    assert list(replica) == ["new"]


def test_keys_of_every_kind_and_hierarchies_travel(tmp_path: Path) -> None:
    original: Engine[object] = Engine()
    original.save(tmp_path / "e.tamis")
    keys = ["text", 7, b"bytes", ("key", 3)]
    tree = {"American": "Options", "Options": None}
    change = change_engine(original, [], [Addition(key, "grp UNDER 'Options'") for key in keys], {"grp": tree})
    replica: Engine[object] = Engine.open(tmp_path / "e.tamis")
    apply_change(replica, EngineChange.decode(change.encode()))
    assert replica.match({"grp": "American"}) == keys


def test_a_change_of_another_state_is_refused() -> None:
    original: Engine[str] = Engine()
    first = change_engine(original, [], [Addition("a", "x = 1")], {})
    second = change_engine(original, [], [Addition("b", "x = 1")], {})
    replica: Engine[str] = Engine()
    with pytest.raises(SnapshotError, match="a change begins with the id 1, and the next one here is 0"):
        apply_change(replica, second)
    apply_change(replica, first)
    apply_change(replica, second)
    assert replica.match({"x": 1}) == ["a", "b"]


def test_a_query_that_cannot_be_compiled_changes_nothing() -> None:
    engine: Engine[str] = Engine()
    change_engine(engine, [], [Addition("a", "x = 1")], {})
    with pytest.raises(QueryError):
        change_engine(engine, ["a"], [Addition("b", "x >> 1")], {})
    with pytest.raises(KeyError):
        change_engine(engine, ["nobody"], [], {})
    assert engine.match({"x": 1}) == ["a"]
