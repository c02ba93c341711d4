"""A file of queries and the store agree once the file is applied, and the file rules over what stands in it."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import ConfigError, StoreError
from tamis.query import QuerySpec, load_query_file, load_query_files
from tamis.store import FileChanges, Store


def _apply(store: Store, file: Path, text: str, *, dry_run: bool = False) -> FileChanges:
    file.write_text(text)
    return store.apply_files([load_query_file(file)], dry_run=dry_run)


def _texts(store: Store) -> dict[str, str]:
    return {record.key: record.text for record in store.list_queries()}


def test_applying_adds_changes_and_removes_in_one_revision(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    store.add_query(QuerySpec("mine", "x = 0"))
    first = _apply(store, file, "a: x = 1\nb: x = 2\nc: x = 3\n")
    assert (first.count("added"), first.unchanged) == (3, 0)
    second = _apply(store, file, "a: x = 1\nb: x = 9\nd: x = 4\n")
    assert [
        (it.action, it.name, it.before and it.before["text"], it.after and it.after["text"]) for it in second.changes
    ] == [
        ("changed", "b", "x = 2", "x = 9"),
        ("added", "d", None, "x = 4"),
        ("removed", "c", "x = 3", None),
    ]
    assert second.unchanged == 1
    assert _texts(store) == {"mine": "x = 0", "a": "x = 1", "b": "x = 9", "d": "x = 4"}
    assert store.revision() == 3
    assert _apply(store, file, "a: x = 1\nb: x = 9\nd: x = 4\n").changes == ()
    assert store.revision() == 3


def test_a_dry_run_says_the_same_and_changes_nothing(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    _apply(store, file, "a: x = 1\nb: x = 2\n")
    wanted = "b: x = 3\nc: x = 4\n"
    planned = _apply(store, file, wanted, dry_run=True)
    assert (_texts(store), store.revision()) == ({"a": "x = 1", "b": "x = 2"}, 1)
    assert _apply(store, file, wanted) == planned


def test_a_query_that_stands_in_a_file_is_changed_there(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    _apply(store, file, "a: x = 1\n")
    assert store.get_query("a").origin == str(file)
    assert store.add_query(QuerySpec("a", "x = 1")).version == 1
    for change in (
        lambda: store.add_query(QuerySpec("a", "x = 2")),
        lambda: store.add_query(QuerySpec("a", "x = 1", deliveries=("mail",))),
        lambda: store.remove_query("a"),
    ):
        with pytest.raises(StoreError, match=r"query 'a' belongs to the file .*queries.txt; change it there"):
            change()
    file.unlink()
    assert store.add_query(QuerySpec("a", "x = 2")).origin is None
    store.remove_query("a")


def test_a_file_takes_over_what_was_added_by_hand(store: Store, tmp_path: Path) -> None:
    store.add_queries([QuerySpec("a", "x = 1"), QuerySpec("b", "x = 2")])
    changes = _apply(store, tmp_path / "q.txt", "a: x = 1\nb: x = 3\n")
    assert [(it.action, it.name) for it in changes.changes] == [("changed", "b")]
    assert [(record.version, record.origin) for record in store.list_queries()] == [
        (1, str(tmp_path / "q.txt")),
        (2, str(tmp_path / "q.txt")),
    ]


def test_two_files_do_not_fight_over_a_query(store: Store, tmp_path: Path) -> None:
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    _apply(store, first, "a: x = 1\n")
    for text in ("a: x = 1\n", "a: x = 2\n"):
        with pytest.raises(StoreError, match=r"query 'a' belongs to the file .*first.txt; remove it there"):
            _apply(store, second, text)
    _apply(store, first, "# nothing\n")
    _apply(store, second, "a: x = 2\n")
    first.unlink()
    assert store.get_query("a").origin == str(second)


def test_a_file_that_was_renamed_is_the_same_queries(store: Store, tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    _apply(store, old, "a: x = 1\nb: x = 2\n")
    old.rename(new)
    assert store.apply_files([load_query_file(new)]).changes == ()
    assert {record.origin for record in store.list_queries()} == {str(new)}


def test_an_error_changes_nothing_and_has_its_line(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "queries.toml"
    _apply(store, file, '[[query]]\nkey = "a"\ntext = "x = 1"\n')
    with pytest.raises(ConfigError, match=r"queries.toml, line 3: query 'b': expected"):
        _apply(store, file, '[[query]]\nkey = "b"\ntext = "x >> 1"\n')
    assert _texts(store) == {"a": "x = 1"}


FILES = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["x = 1", "x = 2"]))


@settings(max_examples=40, deadline=None)
@given(st.lists(FILES, max_size=6), FILES)
def test_the_store_holds_the_last_file_and_what_was_added_by_hand(
    tmp_path_factory: pytest.TempPathFactory, files: list[dict[str, str]], by_hand: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    own = {f"own-{key}": text for key, text in by_hand.items()}
    with Store.open(folder / "s.sqlite") as store:
        store.add_queries(QuerySpec(key, text) for key, text in own.items())
        for file in files:
            before = _texts(store)
            changes = _apply(store, folder / "q.txt", "".join(f"{key}: {text}\n" for key, text in file.items()))
            assert _texts(store) == {**own, **file}
            assert changes.count("added") == len(file.keys() - before.keys())
            assert changes.count("removed") == len(before.keys() - own.keys() - file.keys())
            assert changes.unchanged == sum(before.get(key) == text for key, text in file.items())


def _apply_folder(store: Store, folder: Path, texts: dict[str, str]) -> FileChanges:
    shutil.rmtree(folder)
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return store.apply_files(load_query_files(folder), folder=folder)


def test_a_folder_rules_over_what_stands_in_its_files(store: Store, tmp_path: Path) -> None:
    folder, beside = tmp_path / "rules", tmp_path / "rules2.txt"
    folder.mkdir()
    store.add_query(QuerySpec("mine", "x = 0"))
    _apply(store, beside, "beside: x = 1\n")
    toml = '[[query]]\nkey = "c"\ntext = "grp UNDER \'A\'"\n[[hierarchy]]\nattribute = "grp"\nparents = { A = "" }\n'
    texts = {"a.txt": "a: x = 1\nb: x = 2\n", "low/c.toml": toml, "README.md": "not a query", ".old/d.txt": "d: x = 1"}
    assert _apply_folder(store, folder, texts).count("added") == 4
    assert _texts(store).keys() == {"mine", "beside", "a", "b", "c"}

    moved = _apply_folder(store, folder, {"b.txt": "b: x = 2\n"})
    assert {(it.kind, it.name, it.action) for it in moved.changes} == {
        ("query", "a", "removed"),
        ("query", "c", "removed"),
        ("hierarchy", "grp", "removed"),
    }
    assert store.get_query("b").origin == str(folder / "b.txt")
    assert _apply_folder(store, folder, {}).count("removed") == 1
    assert _texts(store).keys() == {"mine", "beside"}


def test_a_query_in_two_files_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x: a = 1\n")
    (tmp_path / "b.txt").write_text("y: a = 1\nx: a = 2\n")
    with pytest.raises(ConfigError, match=r"b\.txt, line 2: the key 'x' is already in .*a\.txt, line 1"):
        load_query_files(tmp_path)


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "undo"]), st.integers(0, 2)), max_size=12))
@settings(max_examples=60, deadline=None)
def test_undo_takes_back_the_last_change(steps: list[tuple[str, int]]) -> None:
    states: list[str | None] = [None]  # the text before and after each change
    with TemporaryDirectory() as folder, Store.open(Path(folder) / "store.db") as store:
        for step, value in steps:
            now = states[-1]
            if step == "add" and now != f"x = {value}":
                store.add_query(QuerySpec("q", f"x = {value}"))
                states.append(f"x = {value}")
            elif step == "remove" and now is not None:
                store.remove_query("q")
                states.append(None)
            elif step == "undo" and len(states) > 1:
                record = store.undo_query("q")
                states.append(states[-2])
                assert (record and record.text) == states[-1]
            assert _texts(store).get("q") == states[-1]


def test_undo_of_what_stands_in_a_file_or_never_was_is_refused(store: Store, tmp_path: Path) -> None:
    _apply(store, tmp_path / "queries.txt", "a: x = 1\n")
    with pytest.raises(StoreError, match=r"query 'a' belongs to the file .*queries\.txt"):
        store.undo_query("a")
    with pytest.raises(KeyError):
        store.undo_query("b")
