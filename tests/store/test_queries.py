"""The store keeps versions and revisions of queries, and which of them were valid when."""

from __future__ import annotations

import itertools
import multiprocessing
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import ConfigError, QueryError
from tamis.query import QuerySpec
from tamis.store import ImportCounts, Store


def test_a_query_comes_back_as_it_was_added(store: Store) -> None:
    spec = QuerySpec("frost", "NEAR(body, 'a', 'b')", "selector", "ann", ("x", "y"), ("outbox",), line=7)
    record = store.add_query(spec)
    assert record == store.get_query("frost")
    assert (record.key, record.version, record.text, record.owner) == ("frost", 1, spec.text, "ann")
    assert (record.tags, record.deliveries) == (("x", "y"), ("outbox",))
    assert record.created_at.utcoffset() is not None


def test_the_same_content_again_changes_nothing(store: Store) -> None:
    first = store.add_query(QuerySpec("k", "a = 1"))
    assert store.add_query(QuerySpec("k", "a = 1", line=9)) == first
    assert store.revision() == 1


@pytest.mark.parametrize(
    "changed",
    [
        QuerySpec("k", "a = 2"),
        QuerySpec("k", "a = 1", "boolean"),
        QuerySpec("k", "a = 1", owner="bob"),
        QuerySpec("k", "a = 1", tags=("t",)),
        QuerySpec("k", "a = 1", deliveries=("d",)),
    ],
)
def test_other_content_is_the_next_version(store: Store, changed: QuerySpec) -> None:
    store.add_query(QuerySpec("k", "a = 1"))
    assert store.add_query(changed).version == 2
    assert [record.version for record in store.query_history("k")] == [1, 2]
    assert store.revision() == 2


def test_a_version_number_is_never_used_again(store: Store) -> None:
    store.add_query(QuerySpec("k", "a = 1"))
    store.remove_query("k")
    assert store.add_query(QuerySpec("k", "a = 1")).version == 2


def test_a_query_with_an_error_leaves_the_store_as_it_was(store: Store) -> None:
    with pytest.raises(QueryError):
        store.add_queries([QuerySpec("good", "a = 1"), QuerySpec("bad", "a >> 3")])
    assert store.list_queries() == []
    assert store.revision() == 0


def test_what_is_not_there_is_a_key_error(store: Store) -> None:
    with pytest.raises(KeyError):
        store.get_query("nobody")
    with pytest.raises(KeyError):
        store.remove_query("nobody")
    with pytest.raises(ValueError, match="key"):
        store.add_query(QuerySpec("", "a = 1"))


def test_queries_are_listed_by_owner(store: Store) -> None:
    store.add_queries([QuerySpec("a", "x = 1", owner="ann"), QuerySpec("b", "x = 2", owner="bob")])
    assert [record.key for record in store.list_queries("ann")] == ["a"]
    assert [record.key for record in store.list_queries()] == ["a", "b"]


def test_a_file_is_imported_in_one_revision(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("a: x = 1\nb: x = 2\n")
    assert store.import_queries(file) == ImportCounts(2, 0, 0)
    file.write_text("a: x = 1\nb: x = 3\nc: x = 4\n")
    assert store.import_queries(file) == ImportCounts(1, 1, 1)
    assert store.import_queries(file) == ImportCounts(0, 0, 3)
    assert store.revision() == 2
    assert [record.key for record in store.list_queries()] == ["a", "b", "c"]


def test_an_error_in_a_file_has_its_line_and_a_caret(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("a: x = 1\n# more\nbad: x >> 3\n")
    with pytest.raises(ConfigError, match=r"queries.txt, line 3: query 'bad'.*\n.*x >> 3\n.*\^"):
        store.import_queries(file)
    assert store.list_queries() == []


@pytest.mark.serial
def test_a_thousand_queries_are_added_in_a_moment(store: Store) -> None:
    specs = [QuerySpec(f"q{number}", f"a = {number}") for number in range(1000)]
    began = time.perf_counter()
    store.add_queries(specs)
    assert time.perf_counter() - began < 2  # measured: 0.04 s
    assert [record.key for record in store.list_queries()] == [spec.key for spec in specs]


KEYS = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.sampled_from(["x = 1", "x = 2", "x = 3"])
CHANGES = st.one_of(
    st.tuples(st.just("add"), st.lists(st.tuples(KEYS, TEXTS), min_size=1, max_size=3)),
    st.tuples(st.just("remove"), KEYS),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(CHANGES, max_size=15))
def test_every_past_revision_is_what_a_dict_was_then(tmp_path_factory: pytest.TempPathFactory, changes: list) -> None:
    model: dict[str, str] = {}
    history = {0: []}
    with Store.open(tmp_path_factory.mktemp("store") / "s.sqlite") as store:
        for verb, what in changes:
            before = dict(model)
            if verb == "add":
                model.update(dict(what))
                store.add_queries([QuerySpec(key, text) for key, text in what])
            elif what in model:
                del model[what]
                store.remove_query(what)
            else:
                with pytest.raises(KeyError):
                    store.remove_query(what)
            if model != before:
                assert store.revision() == max(history) + 1
                history[store.revision()] = list(model.items())
            assert store.revision() == max(history)
        for revision, expected in history.items():
            assert [(record.key, record.text) for record in store.queries_at(revision)] == expected
        for first, last in itertools.product(history, repeat=2):
            before, after = dict(history[first]), dict(history[last])
            changed = store.changed_keys(first, last)
            assert {key for key in "abcd" if before.get(key) != after.get(key)} <= changed
            found = {record.key: record.text for record in store.queries_of(changed, last)}
            assert found == {key: text for key, text in after.items() if key in changed}
        versions = [(record.key, record.version) for key in "abcd" for record in store.query_history(key)]
        assert len(set(versions)) == len(versions)


def _add_many(path: Path, owner: str, count: int) -> None:
    with Store.open(path) as store:
        for number in range(count):
            store.add_query(QuerySpec(f"{owner}-{number}", f"a = {number}", owner=owner))
            store.add_query(QuerySpec("shared", f"a = {number} AND b = '{owner}'"))


def test_several_processes_add_at_once(tmp_path: Path) -> None:
    path, context = tmp_path / "s.sqlite", multiprocessing.get_context("spawn")
    owners = ("ann", "bob", "eve")
    processes = [context.Process(target=_add_many, args=(path, owner, 20)) for owner in owners]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    with Store.open(path, create=False) as store:
        assert {len(store.list_queries(owner)) for owner in owners} == {20}
        assert store.revision() == 120
        assert [record.version for record in store.query_history("shared")] == list(range(1, 61))
