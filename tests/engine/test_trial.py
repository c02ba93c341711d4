"""A query is tried on messages: what it matches, what it nearly matches, and why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis.engine.trial import Failed, Trial, failed_predicates

PREDICATES = st.sampled_from(
    ["a = 1", "b = 2", "c > 0", "a IS NULL", "b IN (1, 2)", "c BETWEEN 0 AND 1", "d LIKE 'x%'", "EXISTS(d)", "TRUE"]
)
TEXTS = st.recursive(
    PREDICATES,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=8,
)
VALUES = st.sampled_from([None, 0, 1, 2, 3])
MESSAGES = st.fixed_dictionaries({}, optional={"a": VALUES, "b": VALUES, "c": VALUES, "d": st.sampled_from(["x", "y"])})


def near(text: str, message: dict[str, Any]) -> tuple[int, tuple[Failed, ...]]:
    """Return by how many predicates the engine says that a query misses a message, and those that are to blame."""
    query, engine = tamis.selector(text), tamis.Engine()
    engine.add("q", query)
    failed = failed_predicates(query, engine.explain("q", message))
    if engine.match(message):
        return 0, failed
    return next(count for count in range(1, 20) if engine.near_misses(message, off_by=count)), failed


@settings(max_examples=300, deadline=None)
@given(TEXTS, MESSAGES)
def test_as_many_predicates_are_to_blame_as_the_engine_counts(text: str, message: dict[str, Any]) -> None:
    count, failed = near(text, message)
    assert len(failed) == count


@pytest.mark.parametrize(
    ("text", "message", "failed"),
    [
        ("a = 1 AND b = 2", {"a": 1, "b": 3}, [("b = 2", 3)]),
        ("a = 1 AND NOT b = 2", {"a": 1, "b": 2}, [("NOT b = 2", 2)]),
        ("a = 1 AND (b = 2 OR (c = 1 AND d = 1))", {"a": 1}, [("b = 2", None)]),
        ("NOT (a = 1 OR b = 2)", {"a": 1, "b": 3}, [("NOT a = 1", 1)]),
        ("NOT (a = 1 AND b = 2)", {"a": 1, "b": 2}, [("NOT a = 1", 1)]),
        ("a = 1", {"a": 1}, []),
    ],
)
def test_the_predicate_that_is_to_blame_is_named(text: str, message: dict[str, Any], failed: list[Any]) -> None:
    assert list(near(text, message)[1]) == failed


def test_a_trial_counts_and_keeps_the_last_and_the_nearest() -> None:
    trial = Trial(tamis.selector("a = 1 AND b = 2 AND c = 3"), near=2, samples=2)
    for number in range(4):
        trial.add(number, {"a": 1, "b": 2, "c": 3}, "", None)
    for number in range(4, 8):
        trial.add(number, {"a": 1, "b": 2 if number == 5 else 0}, "", None)
    trial.add(8, {}, "", None)
    assert (trial.read, trial.matched, dict(trial.missed)) == (9, 4, {2: 3, 1: 1})
    assert dict(trial.failed) == {"b = 2": 3, "c = 3": 4}
    assert [it.place for it in trial.matches] == [2, 3]
    assert [it.place for it in trial.misses] == [7, 5]  # the nearest last
    with pytest.raises(TypeError):
        trial.add(9, {"a": object()}, "", None)
    assert trial.read == 9


def test_a_trial_follows_hierarchies() -> None:
    trial = Trial(tamis.selector("g UNDER 'Options'"), {"g": {"American": "Options", "Options": None}})
    trial.add(0, {"g": "American"}, "", None)
    assert trial.matched == 1
