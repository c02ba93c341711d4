"""An owner changes their own queries, and nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import NotAllowedError
from tamis.query import QuerySpec
from tamis.store import Store
from tamis.store.queries import Queries

NOW = datetime(2026, 11, 23, tzinfo=UTC)
CHANGES: dict[str, Callable[[Queries, str], object]] = {
    "change": lambda queries, key: queries.add_query(QuerySpec(key, "x = 9")),
    "take": lambda queries, key: queries.add_query(QuerySpec(key, "x = 1", owner="ann")),
    "give": lambda queries, key: queries.add_query(QuerySpec(key, "x = 1", owner="ben")),
    "remove": lambda queries, key: queries.remove_query(key),
    "undo": lambda queries, key: queries.undo_query(key),
    "pause": lambda queries, key: queries.pause_query(key),
    "expire": lambda queries, key: queries.expire_query(key, NOW),
}


def state(store: Store) -> object:
    return store.revision(), store.list_queries(), [store.query_history(key) for key in "ab"]


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "give"])
@pytest.mark.parametrize(("owner", "whose"), [("ben", "is ben's"), ("", "has no owner")])
def test_an_owner_cannot_change_what_is_not_theirs(store: Store, change: str, owner: str, whose: str) -> None:
    store.add_queries([QuerySpec("a", "x = 0", owner=owner), QuerySpec("b", "x = 1", owner="ann")])
    store.add_query(QuerySpec("a", "x = 1", owner=owner))
    before = state(store)
    with pytest.raises(NotAllowedError, match=f"query 'a' {whose}; ann may only change queries of their own"):
        CHANGES[change](store.as_owner("ann"), "a")
    assert state(store) == before


@pytest.mark.parametrize("change", [name for name in CHANGES if name not in ("give", "take")])
def test_an_owner_changes_their_own_as_the_administrator_does(store: Store, change: str) -> None:
    store.add_query(QuerySpec("a", "x = 0", owner="ann"))
    store.add_query(QuerySpec("a", "x = 1", owner="ann"))
    CHANGES[change](store.as_owner("ann"), "a")
    assert store.revision() == 3
    assert {record.owner for record in store.query_history("a")} == {"ann"}


def test_what_an_owner_adds_is_theirs_and_cannot_be_given_away(store: Store) -> None:
    ann = store.as_owner("ann")
    assert ann.add_query(QuerySpec("a", "x = 1")).owner == "ann"
    for key in "ab":
        with pytest.raises(NotAllowedError, match=f"query '{key}' is ben's"):
            CHANGES["give"](ann, key)
    store.add_query(QuerySpec("a", "x = 1", owner="ben"))
    with pytest.raises(NotAllowedError):
        ann.undo_query("a")


def test_an_owner_reads_all(store: Store) -> None:
    store.add_queries([QuerySpec("a", "x = 0", owner="ann"), QuerySpec("b", "x = 1", owner="ben")])
    ann = store.as_owner("ann")
    assert ann.list_queries() == ann.queries_at(1) == store.list_queries()
    assert ann.get_query("b") == store.get_query("b")
    assert ann.query_history("a") == store.query_history("a")
    assert ann.revision() == 1


def test_undoing_cannot_take_a_query_from_its_former_owner(store: Store) -> None:
    store.add_query(QuerySpec("a", "x = 1", owner="ben"))
    store.add_query(QuerySpec("a", "x = 1", owner="ann"))
    with pytest.raises(NotAllowedError, match="query 'a' is ben's"):
        store.as_owner("ann").undo_query("a")
    store.remove_query("a")
    with pytest.raises(NotAllowedError, match="query 'a' is ann's"):
        store.as_owner("ben").undo_query("a")


def test_all_of_several_queries_are_added_or_none(store: Store) -> None:
    store.add_query(QuerySpec("b", "x = 0", owner="ben"))
    with pytest.raises(NotAllowedError):
        store.as_owner("ann").add_queries([QuerySpec("a", "x = 1"), QuerySpec("b", "x = 1")])
    assert [record.key for record in store.list_queries()] == ["b"]


def test_an_owner_has_a_name(store: Store) -> None:
    with pytest.raises(ValueError, match="the name of an owner"):
        store.as_owner("")


def test_an_owner_reaches_only_queries(store: Store) -> None:
    ann = store.as_owner("ann")
    assert not isinstance(ann, Store)
    for name in ("apply_files", "set_hierarchy", "record_outcomes", "as_administrator"):
        assert not hasattr(ann, name)


def test_queries_are_listed_by_tags(store: Store) -> None:
    store.add_queries([QuerySpec("a", "x = 1", tags=("t", "u")), QuerySpec("b", "x = 2", tags=("u",))])
    for tags, keys in (((), ["a", "b"]), (("u",), ["a", "b"]), (("u", "t"), ["a"]), (("v",), [])):
        assert [record.key for record in store.list_queries(tags=tags)] == keys


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ann", "ben"]), st.sampled_from(sorted(CHANGES)), st.sampled_from("ab"))))
def test_no_order_of_changes_lets_one_touch_what_another_has(
    tmp_path_factory: pytest.TempPathFactory, steps: list
) -> None:
    with Store.open(tmp_path_factory.mktemp("store") / "s") as store:
        store.add_queries([QuerySpec("a", "x = 1", owner="ann"), QuerySpec("b", "x = 1", owner="ben")])
        for name, change, key in steps:
            others = [record for record in store.list_queries() if record.owner != name]
            with suppress(NotAllowedError, KeyError):
                CHANGES[change](store.as_owner(name), key)
            assert [record for record in store.list_queries() if record.owner != name] == others
