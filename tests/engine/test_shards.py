"""Shards give the answers of one engine with all queries, and a message meets few of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis.engine.shard_directory import DIRECTORY, LISTED_MAX, ShardDirectory
from tamis.engine.shards import SHARDS_MAX, positions_path, snapshot_path, write_shards
from tamis.errors import ConfigError, SnapshotError, TamisError
from tests import oracle

TOPICS = ["", "a", "a.b", "a.b.c", "b", "b.a"]
PATTERNS = ["a.#", "#", "*.b", "a.*", "b", "a.b.c"]

topic_queries = st.one_of(
    st.builds(tamis.topic, st.sampled_from(PATTERNS), dialect=st.sampled_from(["amqp", "openamq", "openamq-program"])),
    st.sampled_from(TOPICS).map(lambda topic: tamis.selector(f"topic = '{topic}'")),
    st.sampled_from(TOPICS).map(lambda topic: tamis.selector(f"topic IN ('x', '{topic}')")),
)
equalities = st.tuples(st.sampled_from(oracle.NAMES), oracle.scalars).map(lambda pair: tamis.fields(dict([pair])))
others = st.sampled_from(
    [
        tamis.selector("ANYCASE(A) = 'x'"),
        tamis.selector("NOT (a <> 1)"),
        tamis.selector("NOT (NOT a = 1 OR NOT b = 'x')"),
        tamis.selector("\"topic\" = 'a'"),
        tamis.selector("\"a \"\" b\" = 'it''s'"),
        tamis.selector("CONTAINS(body, 'frost')"),
        tamis.selector("TRUE"),
    ]
)
leaves = st.one_of(
    equalities, equalities, topic_queries, others, oracle.trees.map(lambda it: tamis.selector(oracle.render(it)))
)


@st.composite
def a_query(draw: st.DrawFn) -> tamis.Query:
    """Draw a query: one to three parts under AND and OR, some of them negated."""
    query = draw(leaves)
    for _ in range(draw(st.integers(0, 2))):
        other = draw(leaves)
        query = query & other if draw(st.booleans()) else query | other
    return ~query if draw(st.integers(0, 7)) == 0 else query


@st.composite
def a_message(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a record with a topic and perhaps a body."""
    record = {**draw(oracle.plain_messages), "topic": draw(st.sampled_from(TOPICS))}
    if draw(st.booleans()):
        record["body"] = draw(st.sampled_from(["frost tonight", "sun"]))
    return record


def routed(folder: Path, records: Iterable[Mapping[str, Any]]) -> list[list[int]]:
    """Return the shards that each record meets."""
    table = pa.table({"properties": [json.dumps(it) for it in records]})
    found: list[list[int]] = ShardDirectory(folder / DIRECTORY).route(table).field("shards").to_pylist()
    return found


def matched(folder: Path, record: Mapping[str, Any]) -> list[str]:
    """Return the keys of the queries that a record satisfies, in the shards that it meets."""
    found: list[tuple[int, str]] = []
    for shard in routed(folder, [record])[0]:
        engine = tamis.Engine.open(snapshot_path(folder, shard))
        ids = engine.match_json(json.dumps(record), as_="ids")
        found += zip(np.load(positions_path(folder, shard))[ids].tolist(), engine.keys(ids), strict=True)
    return [key for _, key in sorted(found)]


@settings(max_examples=100)
@given(
    st.lists(a_query(), max_size=12),
    st.lists(a_message(), min_size=1, max_size=6),
    st.integers(1, 5),
    st.sampled_from([0, 1, 2, LISTED_MAX]),
)
def test_shards_match_what_one_engine_matches(
    queries: list[tamis.Query], records: list[dict[str, Any]], shards: int, listed_max: int
) -> None:
    engine: tamis.Engine[str] = tamis.Engine()
    pairs = [(f"q{number}", query) for number, query in enumerate(queries)]
    engine.add_many(pairs)
    with TemporaryDirectory() as scratch, patch("tamis.engine.shard_directory.LISTED_MAX", listed_max):
        folder = Path(scratch, "shards")
        summary = write_shards(pairs, folder, shards)
        assert summary.queries == len(queries)
        assert summary.shards <= min(shards, len(queries))
        for record in records:
            assert matched(folder, record) == engine.match_json(json.dumps(record))


def ones(folder: Path, text: str) -> list[int]:
    return routed(folder, [json.loads(text)])[0]


def test_a_message_meets_the_shard_of_its_value_and_no_other(tmp_path: Path) -> None:
    rules = {f"q{number}": f"user = 'u{number % 100}' AND price > {number}" for number in range(1_000)}
    summary = write_shards(rules, tmp_path / "shards", 4)
    assert summary == (1_000, 4, 0)
    met = routed(tmp_path / "shards", [{"user": f"u{number}"} for number in range(100)])
    assert all(met)
    assert sum(map(len, met)) <= 103  # a value on the border of two shards leads to both
    sizes = [len(tamis.Engine.open(snapshot_path(tmp_path / "shards", shard))) for shard in range(4)]
    assert sizes == [250] * 4
    assert routed(tmp_path / "shards", [{"user": "u100"}, {"price": 5}, {"user": None}]) == [[], [], []]


def test_numbers_lists_and_nested_names_lead_where_they_match(tmp_path: Path) -> None:
    rules = {"one": "n = 1", "true": "n = TRUE", "text": "n = '1'", "half": "n = 0.5", "deep": "a.b = 'x'"}
    write_shards(rules, tmp_path / "shards", 5)
    by_key = {key: shard for shard in range(5) for key in tamis.Engine.open(snapshot_path(tmp_path / "shards", shard))}
    assert len(by_key) == 5
    for text, keys in [
        ('{"n": 1}', ["one"]),
        ('{"n": 1.0}', ["one"]),
        ('{"n": true}', ["true"]),
        ('{"n": "1"}', ["text"]),
        ('{"n": [0.5, "1", 7]}', ["text", "half"]),
        ('{"a": {"b": "x"}}', ["deep"]),
        ('{"a": [{"b": "y"}, {"b": ["x"]}]}', ["deep"]),
        ('{"a.b": "x", "a": {"b": "y"}}', ["deep"]),
        ('{"a.b": "y", "a": {"b": "x"}}', []),
    ]:
        assert ones(tmp_path / "shards", text) == sorted(by_key[key] for key in keys), text


def test_queries_are_filed_by_the_value_that_the_fewest_need(tmp_path: Path) -> None:
    rules = {f"q{number}": f"region = 'EU' AND user = 'u{number}'" for number in range(40)}
    write_shards(rules, tmp_path / "shards", 4)
    assert routed(tmp_path / "shards", [{"region": "EU"}, {"region": "EU", "user": "u3"}])[0] == []
    assert len(ones(tmp_path / "shards", '{"region": "US", "user": "u3"}')) == 1


def test_queries_without_an_access_key_share_shards_that_every_message_meets(tmp_path: Path) -> None:
    rules = {f"k{number}": f"user = 'u{number}'" for number in range(50)}
    rules |= {f"r{number}": f"price > {number} OR user = 'u1'" for number in range(50)}
    summary = write_shards(rules, tmp_path / "shards", 6)
    assert (summary.shards, summary.met_by_all) == (6, 3)
    assert ones(tmp_path / "shards", "{}") == [0, 1, 2]
    assert len(ones(tmp_path / "shards", '{"user": "u7"}')) == 4


def test_a_very_frequent_value_fills_several_shards(tmp_path: Path) -> None:
    rules = {f"q{number}": f"region = 'EU' AND price > {number}" for number in range(90)}
    write_shards({**rules, "us": "region = 'US'"}, tmp_path / "shards", 3)
    assert ones(tmp_path / "shards", '{"region": "EU"}') == [0, 1, 2]
    assert len(ones(tmp_path / "shards", '{"region": "US"}')) == 1


def test_topics_lead_to_shards(tmp_path: Path) -> None:
    rules = [(f"t{number}", f"mail.user{number}.#", "topic") for number in range(40)]
    summary = write_shards(rules, tmp_path / "shards", 4)
    assert summary.met_by_all == 0
    assert len(ones(tmp_path / "shards", '{"topic": "mail.user7.new"}')) == 1
    assert ones(tmp_path / "shards", '{"topic": "mail.other.new"}') == []


def test_many_values_lead_to_shards_by_ranges(tmp_path: Path) -> None:
    rules: dict[str, Any] = {f"u{number}": f"user = 'u{number:05}'" for number in range(4_000)}
    rules |= {f"n{number}": f"n = {number - 2_000}" for number in range(4_000)}
    rules |= {f"t{number}": (f"mail.u{number:05}.#", "topic") for number in range(4_000)}
    write_shards(rules, tmp_path / "shards", 6)
    directory = tmp_path / "shards" / DIRECTORY
    assert len(tamis.Engine.open(directory)) <= 12
    for name, values in [
        ("user", [f"u{number:05}" for number in range(0, 4_000, 50)]),
        ("n", [-2_000, -1_000.0, -1, 0, 0.5, 1_999]),
        ("topic", ["mail.u00000", "mail.u00003.x", "mail.u03999.new.x"]),
    ]:
        met = routed(tmp_path / "shards", [{name: value} for value in values])
        assert [len(it) for it in met] == [1] * len(values), name
        assert met == sorted(met)
    nowhere = [
        {"user": "t"},
        {"user": "v"},
        {"user": 5},
        {"n": 2_000},
        {"n": True},
        {"topic": "mail"},
        {"topic": "mail.u04"},
    ]
    assert routed(tmp_path / "shards", nowhere) == [[]] * len(nowhere)


@pytest.mark.parametrize("last", ["z", "\ud7ff", "\U0010ffff", ""])
def test_a_range_of_topics_has_all_that_begin_with_its_last(tmp_path: Path, last: str) -> None:
    rules = {last: f"topic = '{last}'", "pattern": (f"{last}.#", "topic"), "first": "topic = ''"}
    with patch("tamis.engine.shard_directory.LISTED_MAX", 0):
        write_shards({f"k{key}": it for key, it in rules.items()}, tmp_path / "shards", 1)
        for topic in ("", last, f"{last}.x", f"{last}.\U0010ffff"):
            assert ones(tmp_path / "shards", json.dumps({"topic": topic})) == [0]


def test_every_query_goes_to_one_shard_and_small_populations_have_fewer(tmp_path: Path) -> None:
    assert write_shards({}, tmp_path / "none", 4) == (0, 0, 0)
    assert ones(tmp_path / "none", '{"a": 1}') == []
    assert write_shards({"a": "a = 1", "b": "b > 1"}, tmp_path / "two", 8) == (2, 2, 1)
    assert write_shards({"a": "a = 1", "b": "b > 1"}, tmp_path / "one", 1) == (2, 1, 1)


def test_a_file_an_engine_and_hierarchies(tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("cheap: price < 10\nsymbol: symbol = 'A'\n")
    assert write_shards(tmp_path / "queries.txt", tmp_path / "file", 2).queries == 2
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add("under", tamis.selector("group UNDER 'Options'"))
    with pytest.raises(ConfigError, match="needs a hierarchy of 'group'"):
        write_shards(engine, tmp_path / "refused", 2)
    assert not (tmp_path / "refused").exists()
    write_shards(engine, tmp_path / "engine", 2, hierarchies={"group": {"Options": None, "American": "Options"}})
    assert matched(tmp_path / "engine", {"group": "American"}) == ["under"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine", "file", "queries.txt"]


def test_what_cannot_be_cut_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    for shards in (0, SHARDS_MAX + 1):
        with pytest.raises(ValueError, match=f"expected 1 to {SHARDS_MAX}"):
            write_shards({"a": "a = 1"}, folder, shards)
    with pytest.raises(ConfigError, match="query 'a': the key occurs twice"):
        write_shards([("a", "a = 1"), ("b", "a = 1"), ("a", "a = 2")], folder, 2)
    with pytest.raises(TamisError, match="query 'slow': .*is a function of this program; register it"):
        write_shards({"slow": tamis.opaque("slow", lambda *_: True)}, folder, 2)
    with pytest.raises(tamis.QueryError) as caught:
        write_shards({"bad": "a >"}, folder, 2)
    assert caught.value.__notes__ == ["in the query 'bad'"]
    assert list(tmp_path.iterdir()) == []
    folder.mkdir()
    (folder / "mine").touch()
    with pytest.raises(ConfigError, match="expected a new or an empty folder"):
        write_shards({"a": "a = 1"}, folder, 2)
    with pytest.raises(SnapshotError, match="expected the directory"):
        ShardDirectory(saved(tmp_path / "other.tamis"))


def saved(path: Path) -> Path:
    engine: tamis.Engine[str] = tamis.Engine()
    engine.add("a", tamis.selector("a = 1"))
    engine.save(path)
    return path


def test_a_row_that_no_shard_could_read_is_found_by_the_directory(tmp_path: Path) -> None:
    rules = {"a": "a = 1 AND b > 2", "c": "c = 1 AND ANYCASE(D) = 1"}
    write_shards(rules, tmp_path / "shards", 2)
    directory = ShardDirectory(tmp_path / "shards" / DIRECTORY)
    beyond = [f'{{"{name}": {1 << 70}}}' for name in ("a", "b", "c", "d", "e")]
    table = pa.table({"properties": [*beyond, "{", '{"a": 1}']})
    found = directory.route(table, errors="null")
    assert [it is None for it in found.field("shards").to_pylist()] == [True, True, True, True, False, True, False]
    assert [it is None for it in found.field("error").to_pylist()] == [False, False, False, False, True, False, True]
    with pytest.raises(ValueError, match="row 0"):
        directory.route(table)
    assert directory.asked(["a", "b", "c", "d", "D", "e"]) == (["a", "b", "c", "d", "D"], False, False)
