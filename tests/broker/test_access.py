"""Permissions, topic permissions and limits: the one function that AMQP, HTTP and the command line ask."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.broker.users.access import Access
from tamis.broker.users.patterns import check_pattern, is_match
from tamis.broker.users.user import ALL, Limits, Permission, TopicPermission, User
from tamis.errors import QueryError


def access(*users: User, vhosts: tuple[str, ...] = ("/", "other"), is_local_only: bool = True) -> Access:
    return Access({user.name: user for user in users}, vhosts, Limits(connections=100, queues=None), is_local_only)


ANN = User("ann").permitted("/", Permission(r"ann\..*", r"ann\..*|amq\.default", ".*"))


def test_a_verb_is_allowed_where_its_expression_matches_the_whole_name() -> None:
    rules = access(ANN)
    assert rules.allowed("ann", "configure", "/", "ann.queue")
    assert not rules.allowed("ann", "configure", "/", "joann.queue")
    assert not rules.allowed("ann", "write", "/", "bob.queue")
    assert rules.allowed("ann", "read", "/", "bob.queue")


def test_the_default_exchange_goes_by_its_name_in_permissions() -> None:
    assert access(ANN).allowed("ann", "write", "/", "")
    assert not access(ANN).allowed("ann", "configure", "/", "")


def test_who_or_what_is_not_there_may_nothing() -> None:
    rules = access(ANN)
    assert not rules.allowed("bob", "read", "/", "q")
    assert not rules.allowed("ann", "read", "other", "q")
    assert not access(User("ann").permitted("gone", ALL)).allowed("ann", "read", "gone", "q")


def test_an_administrator_has_no_more_messages_than_its_permissions_say() -> None:
    rules = access(User("root", roles=("administrator",)))
    assert rules.has_role("root", "monitoring")
    assert not rules.allowed("root", "read", "/", "q")


def test_topic_permissions_restrict_the_exchanges_that_they_name() -> None:
    own = TopicPermission(write=r"{username}\..*", read=r"news\..*")
    rules = access(User("a.b").permitted("/", ALL).permitted_topics("/", "amq.topic", own))
    assert rules.allowed("a.b", "write", "/", "amq.topic", "a.b.x")
    assert not rules.allowed("a.b", "write", "/", "amq.topic", "aXb.x"), "the name is text, not an expression"
    assert rules.allowed("a.b", "read", "/", "amq.topic", "news.x")
    assert not rules.allowed("a.b", "read", "/", "amq.topic", "a.b.x")
    assert rules.allowed("a.b", "write", "/", "other.topic", "anything")


def test_the_resource_is_asked_about_before_the_routing_key() -> None:
    own = TopicPermission(write=".*", read=".*")
    rules = access(User("ann").permitted("/", Permission()).permitted_topics("/", "amq.topic", own))
    assert not rules.allowed("ann", "write", "/", "amq.topic", "x")


@pytest.mark.parametrize("pattern", [".*", "a.*", "a|b", "(a)(b)?", "a{2,3}", "[^/]+", "", "^a$", r"\w+"])
@given(text=st.text(alphabet="ab/\n", max_size=5))
def test_a_pattern_is_anchored_as_full_match_is(pattern: str, text: str) -> None:
    expected = bool(pattern) and re.fullmatch(pattern, text, re.DOTALL) is not None
    if not (pattern == "^a$" and text == "a\n"):  # Python's $ also stands before a last line feed
        assert is_match(pattern, text, "user", "/") is expected


@given(st.text(max_size=8), st.text(max_size=8))
def test_a_name_that_is_put_in_stands_for_itself_alone(user: str, text: str) -> None:
    assert is_match("{username}x", text + "x", user, "/") is (text == user)
    assert is_match("{vhost}", user, "somebody", user) is True


@pytest.mark.parametrize("pattern", ["(", "a)|(b", r"(a)\1", "(?=a)", "(\\w{1000}){1000}", "x" * 1001, "(?x)a # b"])
def test_what_cannot_be_anchored_or_is_too_expensive_is_refused(pattern: str) -> None:
    with pytest.raises(QueryError):
        check_pattern(pattern)


def test_guest_comes_from_this_machine_while_the_broker_listens_on_it_alone() -> None:
    guest = User("guest", local_only=True)
    assert access(guest).may_log_in("guest", is_local=True) == ""
    assert "this machine only" in access(guest).may_log_in("guest", is_local=False)
    assert "this machine alone" in access(guest, is_local_only=False).may_log_in("guest", is_local=True)
    assert "no user" in access(guest).may_log_in("nobody", is_local=True)
    assert access(ANN, is_local_only=False).may_log_in("ann", is_local=False) == ""


def test_a_vhost_opens_for_those_who_have_permissions_in_it() -> None:
    rules = access(ANN)
    assert rules.may_open("ann", "/", 0) is None
    refused = [rules.may_open("ann", "other", 0), rules.may_open("ann", "nowhere", 0), rules.may_open("bob", "/", 0)]
    assert [it and it.code for it in refused] == [530, 530, 530]
    assert refused[1] is not None
    assert refused[1].text == "NOT_ALLOWED - vhost 'nowhere' not found"


def test_own_limits_count_before_those_of_everybody() -> None:
    bob = User("bob", limits=Limits(connections=2)).permitted("/", ALL)
    rules = access(ANN, bob)
    assert rules.limits("ann") == Limits(connections=100, queues=None)
    assert rules.may_open("bob", "/", 1) is None
    refused = rules.may_open("bob", "/", 2)
    assert refused is not None
    assert (refused.code, refused.text) == (530, "NOT_ALLOWED - connection refused: user 'bob' has 2 of 2 already")


def test_what_changed_is_known_by_user() -> None:
    before, bob = access(ANN, User("gone")), User("bob")
    after = access(ANN.permitted("/", ALL), bob)
    assert after.changed_users(before) == {"ann", "gone", "bob"}
    assert after.changed_users(after) == frozenset()
