from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tamis as library
from tamis.cli.bench.workload import selector_text, truth
from tests.cli.conftest import Tamis

FILTERS = [
    ["and", ["eq", "deleted", False], ["in", "cfi", ["A", "B"]], ["not", ["or", ["eq", "x", 1], ["eq", "cfi", "B"]]]],
    ["between", "price", 10, 20],
    ["or", ["gt", "price", 100], ["and", ["ne", "cfi", "A"], ["le", "price", 5]]],
    ["nin", "cfi", ["it's", "B"]],
    ["eq", "order by", 1],
]
MESSAGES: list[dict[str, Any]] = [
    {"deleted": False, "cfi": "A", "x": 2, "price": 15},
    {"price": 101},
    {"cfi": "C", "price": 5},
    {"order by": 1, "cfi": "it's"},
    {},
]


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    folder = tmp_path / "workload"
    folder.mkdir()
    (folder / "schema.json").write_text("{}")
    lines = (json.dumps({"id": number, "f": expression}) for number, expression in enumerate(FILTERS))
    (folder / "filters.jsonl").write_text("\n".join(lines))
    (folder / "messages.jsonl").write_text("\n".join(map(json.dumps, MESSAGES)))
    return folder


@pytest.mark.usefixtures("workload")
def test_a_workload_is_built_checked_and_timed(tamis: Tamis) -> None:
    done = tamis("bench", "engine", "--workload", "workload", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["filters"], found["messages"], found["checked"], found["rounds"]) == (5, 5, 5, 3)
    assert found["matches_per_message"] == 1.4
    assert 0 <= found["parse_seconds"] <= found["build_seconds"]
    assert found["bytes_per_filter"] > 0
    for unit in ("us", "cpu_us"):
        assert 0 <= found[f"p50_{unit}"] <= found[f"p80_{unit}"] <= found[f"p90_{unit}"] <= found[f"p99_{unit}"]
    done = tamis("bench", "engine", "--workload", "workload", "--filters", "2", "--messages", "3")
    assert done.stdout.startswith("2 filters, 3 messages (3 of them checked), ")


def test_mistakes_are_explained(tamis: Tamis, workload: Path) -> None:
    done = tamis("bench", "engine", "--workload", ".")
    assert (done.returncode, "there is no schema.json in it" in done.stderr) == (2, True)
    (workload / "filters.jsonl").write_text('{"f": ["like", "a", "b"]}')
    done = tamis("bench", "engine", "--workload", "workload")
    assert (done.returncode, "expected a filter of a known kind, not 'like'" in done.stderr) == (2, True)
    (workload / "filters.jsonl").write_text('{"f": \n')
    done = tamis("bench", "engine", "--workload", "workload")
    assert (done.returncode, "filters.jsonl, line 1: expected JSON" in done.stderr) == (2, True)


names = st.sampled_from(["a", "b", "topic", "between", "c d", 'q"'])
values = st.one_of(st.booleans(), st.integers(-2, 2), st.sampled_from(["x", "y", "it's"]))
numbers = st.integers(-2, 2)
leaves = st.one_of(
    st.tuples(st.sampled_from(["eq", "ne"]), names, values),
    st.tuples(st.sampled_from(["lt", "le", "gt", "ge"]), names, numbers),
    st.tuples(st.sampled_from(["in", "nin"]), names, st.lists(values, min_size=1, max_size=3)),
    st.tuples(st.just("between"), names, numbers, numbers),
).map(list)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner).map(list),
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)).map(lambda t: [t[0], *t[1]]),
    ),
    max_leaves=6,
)


@given(expressions, st.dictionaries(names, values, max_size=5))
def test_a_filter_as_text_is_what_the_format_defines(expression: list[Any], message: dict[str, Any]) -> None:
    assert library.selector(selector_text(expression)).evaluate(message) is truth(expression, message)
