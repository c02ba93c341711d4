"""Queries in shards that change match as one engine with the same queries, without Spark."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis.query.spec import compile_query
from tamis.spark.matching.followed_state import InShards, Step
from tamis.spark.matching.shards import recorded as recorded_shards
from tamis.spark.matching.worker import match_ids_timed, match_rows, read_state
from tamis.spark.snapshots import KEPT_MAX, Snapshots
from tamis.store import QueryRecord
from tests.spark.revisits import revisits

TEXTS = [
    "user = 'a'",
    "user = 'b' AND n > 1",
    "user IN ('a', 'c')",
    "n = 1 OR n = 2",
    "user = 'c' OR n > 2",
    "n < 2",
    "NOT (user = 'a')",
    "grp UNDER 'top'",
    "user = 'b' AND grp UNDER 'top'",
    "topic = 'mail.a'",
    "other = 'x'",
]
MESSAGES = pa.table(
    {
        "topic": ["mail.a", "", "mail.b", "", "mail.a", ""],
        "properties": [
            '{"user": "a", "n": 1}',
            '{"user": "b", "n": 3, "grp": "x"}',
            '{"user": "c", "grp": "y"}',
            "{",
            "{}",
            '{"n": 2, "other": 99999999999999999999}',
        ],
    }
)
READABLE = MESSAGES.take([0, 1, 2, 4])

Revision = tuple[dict[str, str], dict[str, str | None]]
"""The queries, key -> text, and a hierarchy of `grp`."""


class History:
    """A source of given revisions; the version of a query is the position of its text."""

    def __init__(self, revisions: list[Revision]) -> None:
        self.revisions = revisions

    def queries_at(self, revision: int) -> list[QueryRecord]:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        queries = self.revisions[revision][0].items()
        return [QueryRecord(key, TEXTS.index(text), text, "selector", "", (), (), now) for key, text in queries]

    def each_query_at(self, revision: int) -> Iterator[QueryRecord]:
        return iter(self.queries_at(revision))

    def queries_of(self, keys: Collection[str], revision: int) -> list[QueryRecord]:
        return [query for query in self.queries_at(revision) if query.key in keys]

    def changed_keys(self, revision: int, other: int) -> set[str]:
        before, after = self.revisions[revision][0], self.revisions[other][0]
        return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}

    def hierarchies_at(self, revision: int) -> dict[str, dict[str, str | None]]:
        return {"grp": self.revisions[revision][1]}


def engine_of(revision: Revision) -> tamis.Engine[str]:
    engine: tamis.Engine[str] = tamis.Engine()
    engine.hierarchy("grp", revision[1])
    engine.add_many([(key, compile_query(text)) for key, text in revision[0].items()])
    return engine


def parts(table: pa.Table) -> tuple[list[str], list[pa.Array]]:
    return table.column_names, [column.combine_chunks() for column in table.columns]


def wanted_of(revision: Revision) -> list[set[str] | None]:
    """Return the keys of each message that one engine gives; None for a message that it cannot read."""
    engine = engine_of(revision)
    found = engine.match_batch(MESSAGES, errors="null").to_pylist()
    return [None if ids is None else set(engine.keys(ids)) for ids in found]


TREES: list[dict[str, str | None]] = [{"x": "top", "top": None}, {"y": "top", "top": None}]
REVISIONS = st.tuples(
    st.dictionaries(st.sampled_from("abcdefghij"), st.sampled_from(TEXTS), max_size=10), st.sampled_from(TREES)
)


@given(
    st.lists(REVISIONS, min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=8),
    st.integers(1, 5),
    st.sampled_from([0, 4, 1_000]),
)
@settings(max_examples=40, deadline=None)
def test_each_revision_matches_as_in_one_engine_and_names_its_queries(
    tmp_path_factory: pytest.TempPathFactory,
    revisions: list[Revision],
    asked: list[tuple[int, bool]],
    shards: int,
    changed: int,
) -> None:
    snapshots = Snapshots(History(revisions), tmp_path_factory.mktemp("work"), shards=shards)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded_shards, "CHANGED_MIN", changed)
        for of, snapshot in revisits(snapshots, asked, len(revisions)):
            wanted, texts = wanted_of(revisions[of]), revisions[of][0]
            found = match_ids_timed(snapshot.state(), *parts(MESSAGES))
            for ids, error, keys in zip(
                found.field("ids").to_pylist(), found.field("error").to_pylist(), wanted, strict=True
            ):
                assert (ids is None, error is not None) == (keys is None, keys is None)
                names = None if ids is None else snapshot.names_of(ids)
                assert names is None or sorted(names) == sorted((k, TEXTS.index(texts[k])) for k in keys or ())


@given(st.lists(REVISIONS, min_size=1, max_size=5), st.integers(1, 4), st.sampled_from([0, 1_000]))
@settings(max_examples=30, deadline=None)
def test_followed_queries_match_as_in_one_engine(
    tmp_path_factory: pytest.TempPathFactory, revisions: list[Revision], shards: int, changed: int
) -> None:
    folder = tmp_path_factory.mktemp("follow")
    followed, before = InShards(folder, "queries", shards), ({}, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded_shards, "CHANGED_MIN", changed)
        for number, revision in enumerate(revisions):
            (texts, tree), old = revision, before[0]
            added = [tamis_addition(key, text) for key, text in texts.items() if old.get(key) != text]
            removed = [key for key, text in old.items() if texts.get(key) != text]
            everything = functools.partial(all_of, revision)
            followed.change(Step(removed, added, {"grp": tree} if tree != before[1] else {}, everything))
            text, files = followed.write()
            assert all(path.is_file() for path in files)
            (state := folder / f"state-{number}.json").write_text(text)
            matched = match_rows(read_state(str(state)), *parts(MESSAGES), errors="null").to_pylist()
            assert [None if keys is None else set(keys) for keys in matched] == wanted_of(revision)
            assert len(followed) == len(texts)
            before = revision


def tamis_addition(key: str, text: str) -> Any:
    from tamis.engine.replica import Addition

    return Addition(key, text)


def all_of(revision: Revision) -> Any:
    return [tamis_addition(key, text) for key, text in revision[0].items()], {"grp": revision[1]}


def test_a_row_that_cannot_be_read_raises_if_it_is_asked_to(tmp_path: Path) -> None:
    revision: Revision = ({"a": TEXTS[0], "b": TEXTS[10]}, TREES[0])
    with Snapshots(History([revision]), tmp_path, shards=2).at(0) as snapshot:
        assert match_rows(snapshot.state(), *parts(READABLE), ids=True).to_pylist() == [[0], [], [], []]
        with pytest.raises(ValueError, match="column 'properties', row 3"):
            match_rows(snapshot.state(), *parts(MESSAGES), ids=True)


def test_one_edit_writes_no_shards_and_files_that_nobody_uses_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revisions: list[Revision] = [({"a": TEXTS[number % 4], "b": "n < 2"}, TREES[0]) for number in range(40)]
    snapshots = Snapshots(History(revisions), tmp_path, shards=2)
    with snapshots.at(0):
        before = {path for path in tmp_path.iterdir() if "s" in path.stem[16:]}
    for revision in range(1, 5):
        with snapshots.at(revision):
            pass
    assert {path for path in tmp_path.iterdir() if "s" in path.stem[16:]} == before
    monkeypatch.setattr(recorded_shards, "CHANGED_MIN", 0)
    snapshots = Snapshots(History(revisions), tmp_path, shards=2)
    counts = []
    for revision in range(20):
        with snapshots.at(revision):
            counts.append(len([path for path in tmp_path.iterdir() if path.suffix == ".npy"]))
    assert max(counts) == (KEPT_MAX + 1) * 2
    assert not before & set(tmp_path.iterdir())


def test_shards_that_could_not_be_written_are_written_at_the_next_try(tmp_path: Path) -> None:
    work = tmp_path / "work"
    snapshots = Snapshots(History([({"a": "n < 2"}, TREES[0])]), work, shards=2)
    work.chmod(0o500)
    work.rmdir()
    work.write_text("a file")
    with pytest.raises(OSError, match="work"), snapshots.at(0):
        pass
    work.unlink()
    work.mkdir()
    with snapshots.at(0) as snapshot:
        assert snapshot.names_of([0]) == [("a", 5)]


def test_an_id_that_no_query_has_is_refused(tmp_path: Path) -> None:
    with (
        Snapshots(History([({"a": "n < 2"}, TREES[0])]), tmp_path, shards=2).at(0) as snapshot,
        pytest.raises(KeyError, match="7"),
    ):
        snapshot.names_of([7])
