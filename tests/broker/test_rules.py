"""The control plane answers the data plane about permissions and queries of the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.broker.rules import Rules
from tamis.broker.users.access import Access
from tamis.broker.users.user import ALL, Limits, TopicPermission, User
from tamis.query import QuerySpec
from tamis.store import Store

ACCESS = Access({"ann": User("ann", limits=Limits(queues=3)).permitted("/", ALL)}, ("/",), Limits(connections=9), True)


def test_permissions_are_those_of_the_users_in_force() -> None:
    rules = Rules(ACCESS, None)
    assert rules.allowed("ann", "read", "/", "q", None)
    assert rules.limits("ann") == (9, 3)
    assert not rules.has_topic_rules("ann", "/")
    topics = User("ann").permitted_topics("/", "amq.topic", TopicPermission())
    rules.access = Access({"ann": topics}, ("/",), Limits(), True)
    assert not rules.allowed("ann", "read", "/", "q", None)
    assert rules.has_topic_rules("ann", "/")


def test_a_stored_query_is_the_one_that_is_valid_now(tmp_path: Path) -> None:
    path = tmp_path / "tamis.sqlite"
    rules = Rules(ACCESS, path)
    with pytest.raises(LookupError, match="there is no store at tamis.sqlite yet"):
        rules.stored_query("expensive")
    with Store.open(path) as store:
        store.add_query(QuerySpec(key="expensive", text="price > 10", language="selector"))
        store.add_query(QuerySpec(key="expensive", text="price > 100", language="selector"))
        assert rules.stored_query("expensive") == ("selector", "price > 100")
        with pytest.raises(LookupError, match="the store has no query 'cheap'"):
            rules.stored_query("cheap")


def test_without_a_store_there_are_no_stored_queries(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="the broker has no store"):
        Rules(ACCESS, None).stored_query("expensive")
    (tmp_path / "none").write_text("no store")
    with pytest.raises(LookupError, match="the store cannot be read"):
        Rules(ACCESS, tmp_path / "none").stored_query("expensive")
