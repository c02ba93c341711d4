"""Tests the snapshot files of revisions, without Spark."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import ConfigError
from tamis.query import QuerySpec, predicates
from tamis.spark.matching import recorded
from tamis.spark.matching.rules import _of_file
from tamis.spark.matching.worker import match_rows, open_engine
from tamis.spark.snapshots import KEPT_MAX, Snapshots
from tamis.store import QueryRecord, Store
from tests.spark.revisits import revisits


class Revisions:
    """A source whose revision n holds one query, n < x; it counts the calls."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def queries_at(self, revision: int) -> list[QueryRecord]:
        self.asked.append(revision)
        return [QueryRecord("q", revision, f"x > {revision}", "selector", "", (), (), datetime.now(UTC))]

    def queries_of(self, keys: Collection[str], revision: int) -> list[QueryRecord]:
        return [query for query in self.queries_at(revision) if query.key in keys]

    def changed_keys(self, revision: int, other: int) -> set[str]:
        return {"q"}

    def hierarchies_at(self, revision: int) -> dict[str, dict[str, str | None]]:
        return {}


def test_a_revision_is_made_once(tmp_path: Path) -> None:
    source = Revisions()
    snapshots = Snapshots(source, tmp_path / "work")
    for _ in range(3):
        with snapshots.at(7) as snapshot:
            assert open_engine(snapshot.state()).match({"x": 8}) == [("q", 7)]
            assert snapshot.names_of([0]) == [("q", 7)]
    assert source.asked == [7]


def test_a_few_changes_need_no_new_file(tmp_path: Path) -> None:
    snapshots = Snapshots(Revisions(), tmp_path)
    for revision in (1, 2, 3, 2, 9):
        with snapshots.at(revision) as snapshot:
            engine = open_engine(snapshot.state())
            assert engine.match({"x": revision + 1}) == [("q", revision)]
            assert engine.match({"x": revision}) == []
    assert len(list(tmp_path.iterdir())) == 1


def test_many_changes_need_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "CHANGES_BYTES_MAX", 1_000)
    snapshots, changes = Snapshots(Revisions(), tmp_path), []
    for revision in range(100):
        with snapshots.at(revision) as snapshot:
            assert open_engine(snapshot.state()).match({"x": 100}) == [("q", revision)]
            changes.append(len(snapshot.changes))
    assert changes[:12] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert len(list(tmp_path.iterdir())) <= 2


def test_old_files_go_and_those_in_use_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "CHANGED_MAX", 0)
    snapshots = Snapshots(Revisions(), tmp_path)
    with snapshots.at(1) as used:
        file = Path(used.state()[0])
        for revision in range(2, 12):
            with snapshots.at(revision):
                pass
        assert file.exists()
        assert len(list(tmp_path.iterdir())) == KEPT_MAX + 1
    with snapshots.at(12):
        pass
    assert not file.exists()
    assert len(list(tmp_path.iterdir())) == KEPT_MAX


def test_files_of_an_earlier_run_are_not_trusted(tmp_path: Path) -> None:
    old = tmp_path / "queries-3.tamis"
    old.write_bytes(b"of another store")
    with Snapshots(Revisions(), tmp_path).at(3) as snapshot:
        assert open_engine(snapshot.state()).match({"x": 4}) == [("q", 3)]


def test_a_revision_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    snapshots = Snapshots(Revisions(), tmp_path / "work")
    (tmp_path / "work").rmdir()
    with pytest.raises(OSError, match="No such file"), snapshots.at(1):
        pass
    (tmp_path / "work").mkdir()
    with snapshots.at(1) as snapshot:
        assert open_engine(snapshot.state()).match({"x": 2}) == [("q", 1)]


class History:
    """A source of given revisions: key -> limit."""

    def __init__(self, revisions: list[dict[str, int]]) -> None:
        self.revisions = revisions

    def queries_at(self, revision: int) -> list[QueryRecord]:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        queries = self.revisions[revision].items()
        return [QueryRecord(key, limit, f"x > {limit}", "selector", "", (), (), now) for key, limit in queries]

    def queries_of(self, keys: Collection[str], revision: int) -> list[QueryRecord]:
        return [query for query in self.queries_at(revision) if query.key in keys]

    def changed_keys(self, revision: int, other: int) -> set[str]:
        before, after = self.revisions[revision], self.revisions[other]
        return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}

    def hierarchies_at(self, revision: int) -> dict[str, dict[str, str | None]]:
        return {}


@given(
    st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=12),
    st.integers(0, 7),
    st.sampled_from([0, 2, recorded.CHANGED_MAX]),
)
@settings(max_examples=100, deadline=None)
def test_a_snapshot_made_from_another_is_as_one_made_anew(
    tmp_path_factory: pytest.TempPathFactory,
    revisions: list[dict[str, int]],
    asked: list[tuple[int, bool]],
    x: int,
    changed_max: int,
) -> None:
    snapshots = Snapshots(History(revisions), tmp_path_factory.mktemp("work"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded, "CHANGED_MAX", changed_max)
        for of, snapshot in revisits(snapshots, asked, len(revisions)):
            wanted = {(key, limit) for key, limit in revisions[of].items() if x > limit}
            ids = match_rows(snapshot.state(), ["x"], [pa.array([x])], ids=True).to_pylist()[0]
            assert set(snapshot.names_of(ids)) == wanted
            assert snapshot.asked(["x", "y"])[0][: len(revisions[of])][:1] == ["x"][: len(revisions[of])]


def test_a_snapshot_follows_the_hierarchies_of_its_revision(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        store.set_hierarchy("grp", {"American": "Options", "Options": None})
        store.add_query(QuerySpec("q", "grp UNDER 'Options'"))
        first = store.revision()
        store.set_hierarchy("grp", {"Bermudan": "Options", "Options": None})
        second = store.revision()
        snapshots = Snapshots(store, tmp_path / "work")
        for revision, wanted in ((first, "American"), (second, "Bermudan"), (first, "American")):
            with snapshots.at(revision) as snapshot:
                engine = open_engine(snapshot.state())
                assert [value for value in ("American", "Bermudan") if engine.match({"grp": value})] == [wanted]


def test_a_snapshot_names_registered_predicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def even(properties: dict[str, int], topic: str, body: str | None) -> bool:
        return properties["n"] % 2 == 0

    monkeypatch.setattr(predicates, "load_predicate", lambda name: {"even": even}[name])
    with Store.open(tmp_path / "s.sqlite") as store:
        store.add_query(QuerySpec("even", "even: n > 3", "predicate"))
        snapshots = Snapshots(store, tmp_path / "work")
        for key in ("even", "another"):
            with snapshots.at(store.revision()) as snapshot:
                found = match_rows(snapshot.state(), ["n"], [pa.array([2, 4])], ids=True).to_pylist()
                keys = [[key for key, _ in snapshot.names_of(ids)] for ids in found]
                assert keys == [[], ["even"]], f"the first snapshot, or one made from it with {key}"
            store.add_query(QuerySpec("other", "n > 100"))


def test_rules_in_a_file_follow_its_hierarchies_and_under_without_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "q.toml"
    file.write_text('[[query]]\nkey = "q"\ntext = "grp UNDER \'Options\'"\n')
    with pytest.raises(ConfigError, match="query 'q': UNDER needs a hierarchy of 'grp', and there is none"):
        _of_file(file, {})
    with file.open("a") as more:
        more.write('[[hierarchy]]\nattribute = "grp"\nparents = { American = "Options", Options = "" }\n')
    assert _of_file(file, {}).match({"grp": "American"}) == ["q"]
