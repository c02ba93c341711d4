"""The store keeps hierarchies with their versions, and takes UNDER only where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.errors import ConfigError, StoreError
from tamis.query import HierarchySpec, QueryFile, QuerySpec
from tamis.store import Store

TREE = {"American": "Options", "European": "Options", "Options": None}


def test_a_hierarchy_comes_back_as_it_was_set(store: Store) -> None:
    record = store.set_hierarchy("grp", TREE)
    assert (record.attribute, record.version, record.parents, record.origin, record.valid) == (
        *("grp", 1, TREE),
        *(None, True),
    )
    assert store.set_hierarchy("grp", dict(reversed(TREE.items()))) == record
    assert store.set_hierarchy("grp", {"Options": None}).version == 2
    assert [(it.version, it.valid) for it in store.hierarchy_history("grp")] == [(1, False), (2, True)]
    assert [it.attribute for it in store.list_hierarchies()] == ["grp"]


def test_a_past_revision_has_the_hierarchy_of_then(store: Store) -> None:
    store.set_hierarchy("grp", TREE)
    store.add_query(QuerySpec("q", "grp UNDER 'Options'"))
    before = store.revision()
    store.set_hierarchy("grp", {"Options": None})
    assert store.hierarchies_at(before) == {"grp": TREE}
    assert store.hierarchies_at(store.revision()) == {"grp": {"Options": None}}
    assert store.hierarchies_at(0) == {}
    assert store.query_history("q") == store.list_queries()


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ({"a": "b"}, "'a': its parent 'b' is not a value of the hierarchy"),
        ({"a": "b", "b": "a"}, "a cycle"),
        ({"American": "Option", "Options": None}, "did you mean 'Options'?"),
    ],
)
def test_what_is_no_tree_is_refused(store: Store, parents: dict[str, str | None], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        store.set_hierarchy("grp", parents)
    assert "the hierarchy of 'grp'" in str(caught.value)
    assert expected in str(caught.value)
    assert store.revision() == 0


def test_under_without_a_hierarchy_is_refused_by_name(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "q.txt"
    file.write_text("under: grp UNDER 'Options'\n")
    for add in (
        lambda: store.add_query(QuerySpec("under", "grp UNDER 'Options'")),
        lambda: store.add_query(QuerySpec("under", "grp UNDER Options", "boolean")),
        lambda: store.import_queries(file),
        lambda: store.apply_files([QueryFile(file, (QuerySpec("under", "grp UNDER 'Options'"),))]),
    ):
        with pytest.raises(
            ConfigError, match=r"query 'under': UNDER needs a hierarchy of 'grp'.*tamis hierarchy set grp"
        ):
            add()
    assert store.revision() == 0


def test_a_hierarchy_stays_while_a_query_needs_it(store: Store) -> None:
    with pytest.raises(KeyError):
        store.remove_hierarchy("grp")
    store.set_hierarchy("grp", TREE)
    store.add_query(QuerySpec("q", "x = 1 OR grp UNDER 'Options'"))
    with pytest.raises(ConfigError, match="query 'q': UNDER needs"):
        store.remove_hierarchy("grp")
    store.remove_query("q")
    store.remove_hierarchy("grp")
    assert store.list_hierarchies() == []
    assert store.set_hierarchy("grp", TREE).version == 2


def test_a_hierarchy_of_a_file_is_changed_there(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.touch()
    store.apply_files([QueryFile(file, hierarchies=(HierarchySpec("grp", TREE),))])
    store.set_hierarchy("grp", TREE)
    for change in (lambda: store.set_hierarchy("grp", {}), lambda: store.remove_hierarchy("grp")):
        with pytest.raises(StoreError, match=r"the hierarchy of 'grp' belongs to the file .*pipeline.toml"):
            change()
    changed = store.apply_files([QueryFile(file, hierarchies=(HierarchySpec("grp", {}),))])
    assert [(it.kind, it.action, it.before, it.after) for it in changed.changes] == [
        ("hierarchy", "changed", {"parents": TREE}, {"parents": {}})
    ]
    removed = store.apply_files([QueryFile(file)])
    assert [(it.name, it.action) for it in removed.changes] == [("grp", "removed")]
