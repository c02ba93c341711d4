"""Newsgroups of a server that speaks RFC 3977: numbers, expiry, crossposts, TLS, logins, failures."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from tamis.adapters.adapter import Adapter
from tamis.adapters.sources.live import nntp, nntp_client
from tamis.adapters.sources.live.nntp import NntpOptions, NntpSource
from tamis.errors import AdapterError
from tests.adapters.live_reader import Reader, readers
from tests.adapters.mailbox_server import in_tls
from tests.adapters.news_server import PASSWORD, USER, NewsServer, news_server
from tests.adapters.reading import mail, subjects

Open = Callable[..., Reader]


def article(number: int, text: str = "Hello") -> bytes:
    return mail(number, text).replace(b"\n", b"\r\n")


@pytest.fixture
def server() -> Iterator[NewsServer]:
    with news_server() as server:
        yield server


@pytest.fixture
def opened(server: NewsServer, tmp_path: Path) -> Iterator[Open]:
    with readers(NntpSource, tmp_path) as make:
        usual = {"host": "127.0.0.1", "port": server.port, "groups": "alt.test", "tls": "none"}
        yield lambda **options: make(**usual | options)


@pytest.mark.parametrize("lists", [True, False])
def test_each_article_is_read_once(server: NewsServer, opened: Open, lists: bool) -> None:
    server.lists = lists
    server.post(article(1, "one\n.\n..two"), article(2))
    reader = opened()
    rows = reader.next()
    assert subjects(rows) == ["number 1", "number 2"]
    assert (rows[0].body, rows[0].partition) == ("one\n.\n..two\n", "nntp://127.0.0.1/alt.test")
    assert reader.later() == []
    server.post(article(3))
    del server.groups["alt.test"][2]  # cancelled
    server.post(article(4))
    reader.restart()
    assert subjects(reader.later()) == ["number 3", "number 4"]


def test_an_article_in_two_groups_is_one_message_whatever_the_server_adds(server: NewsServer, opened: Open) -> None:
    server.post(article(1))
    server.post(b"Xref: news alt.other:1\r\n" + article(1), article(2), group="alt.other")
    rows = opened(groups="alt.test, alt.other").next()
    assert subjects(rows) == ["number 1", "number 2"]
    server.post(b"Path: elsewhere\r\n" + article(1), group="alt.third")
    (again,) = opened(groups="alt.third").next()
    assert again.identity == rows[0].identity


def test_with_next_only_what_comes_later_is_read(server: NewsServer, opened: Open) -> None:
    server.post(article(1))
    reader = opened(starting_offset="next")
    assert reader.next() == []
    server.post(article(2))
    assert subjects(reader.later()) == ["number 2"]


def test_a_look_takes_at_most_max_messages_and_the_next_is_at_once(
    server: NewsServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nntp, "NUMBERS_MAX", 3)
    server.post(*map(article, range(5)))
    reader = opened(max_messages=2)
    assert [len(reader.next()) for _ in range(4)] == [2, 2, 1, 0]


def test_what_expired_before_it_was_read_is_one_dead_letter(server: NewsServer, opened: Open) -> None:
    server.post(article(1))
    reader = opened()
    reader.next()
    server.post(article(2), article(3), article(4))
    server.expire(3)
    assert subjects(reader.later()) == ["articles 2 to 3 expired before they were read", "number 4"]
    server.expire(4)
    assert reader.later() == []  # a group may be empty


def test_a_group_that_never_was_read_has_nothing_to_miss(server: NewsServer, opened: Open) -> None:
    server.post(article(1), article(2))
    server.expire(1)
    assert subjects(opened().next()) == ["number 2"]


def test_a_group_that_is_numbered_anew_is_read_again_and_its_articles_are_known(
    server: NewsServer, opened: Open
) -> None:
    server.post(*map(article, range(5)))
    reader = opened()
    reader.next()
    server.groups["alt.test"] = {}
    server.post(article(4), article(5))
    assert subjects(reader.later()) == [
        "the group was read up to article 5 and now ends at 2: it was renumbered",
        "number 5",
    ]


def test_an_article_that_is_too_large_is_a_dead_letter(
    server: NewsServer, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("MESSAGE_BYTES_MAX", 300), ("RAW_KEPT_BYTES", 50)):
        monkeypatch.setattr(nntp, name, value)
    monkeypatch.setattr(nntp_client, "READ_BYTES", 64)  # lines come in parts
    long = article(1, "x" * 300 + "\n." + "y" * 300)
    server.post(long, article(2, "z" * 200))
    large, small = opened().next()
    assert "at most 300 are read" in str(large.error)
    assert large.raw == long[:50]
    assert small.body == "z" * 200 + "\n"


def test_a_group_that_fails_is_told_once_and_the_others_are_read(server: NewsServer, opened: Open) -> None:
    server.post(article(1))
    reader = opened(groups="alt.nowhere, alt.test")
    told, read = subjects(reader.next())
    assert (told, read) == ("number 1", "127.0.0.1, alt.nowhere: GROUP alt.nowhere: 411 no such newsgroup")
    server.post(article(2))
    assert subjects(reader.later()) == ["number 2"]


def test_a_connection_that_ended_is_made_anew_and_nothing_is_lost(server: NewsServer, opened: Open) -> None:
    server.post(*map(article, range(300)))
    server.hangs_up_after = 150
    reader = opened()
    found = subjects(reader.next())
    with pytest.raises(AdapterError, match="the server ended the connection; the next try is at"):
        reader.next()
    server.hangs_up_after = None
    assert found + subjects(reader.later()) == [f"number {n}" for n in range(300)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"groups": "alt.nowhere"}, "127.0.0.1, alt.nowhere: GROUP alt.nowhere: 411 no such newsgroup"),
        ({"port": 1}, "Connection refused"),
        ({"tls": "tls", "timeout_s": 5}, "127.0.0.1, alt.test: "),
        ({"tls": "starttls"}, "STARTTLS: 500 unknown command"),
    ],
)
def test_a_failure_says_why(opened: Open, options: dict[str, object], said: str) -> None:
    with pytest.raises(AdapterError) as error:
        opened(**options).next()
    assert said in str(error.value)
    assert "the next try is at" in str(error.value)


def test_a_password_is_sent_in_tls_and_checked(
    server: NewsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "password").write_text(PASSWORD + "\n")
    monkeypatch.setenv("WRONG", "onion")
    server.locked = True
    server.post(article(1))
    usual = {"host": "localhost", "groups": "alt.test", "user": USER}
    right = {"ca_file": str(tmp_path / "ca.pem"), "password_file": str(tmp_path / "password")}
    with in_tls(server.port, authority.issue_cert("localhost")) as port, readers(NntpSource, tmp_path) as make:
        assert len(make(port=port, **usual, **right).next()) == 1
        with pytest.raises(AdapterError, match="AUTHINFO PASS: 481 wrong name or password"):
            make(port=port, **usual, ca_file=right["ca_file"], password_env="WRONG").next()
        with pytest.raises(AdapterError, match="(?i)certificate"):
            make(port=port, **usual, password_env="WRONG").next()
    with readers(NntpSource, tmp_path / "open") as make, pytest.raises(AdapterError, match="480 authentication"):
        make(port=server.port, tls="none", host="127.0.0.1", groups="alt.test").next()


def test_starttls_comes_before_the_password(
    server: NewsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("NEWS_PASSWORD", PASSWORD)
    server.locked, server.context = True, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server.context)
    server.post(article(1))
    login = {"user": USER, "password_env": "NEWS_PASSWORD", "tls": "starttls", "ca_file": str(tmp_path / "ca.pem")}
    with readers(NntpSource, tmp_path) as make:
        assert len(make(host="localhost", port=server.port, groups="alt.test", **login).next()) == 1
    assert server.asked[0] == "STARTTLS"


def test_a_server_that_says_nothing_holds_up_a_look_for_its_time_only(opened: Open) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, pytest.raises(AdapterError, match="(?i)timed out|no whole answer"):
        opened(port=silent.getsockname()[1], timeout_s=1).next()


def test_a_test_of_the_adapter_reads_the_newest_and_changes_nothing(server: NewsServer, tmp_path: Path) -> None:
    server.post(*map(article, range(30)))
    options = {"host": "127.0.0.1", "port": server.port, "groups": "alt.test", "tls": "none"}
    health = Adapter("news", "nntp", spool=str(tmp_path / "spool"), **options).test()
    assert (health.readable, health.sampled, health.reason) == (True, 20, None)
    assert not (tmp_path / "spool").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"groups": " , "}, "expected names of newsgroups"),
        ({"user": USER}, "expected user with password_env or password_file, or neither"),
        ({"user": USER, "password_env": "HOME", "tls": "none"}, "needs tls"),
        ({"ca_file": "nowhere"}, "no certificates can be read"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(AdapterError) as error:
        NntpSource(NntpOptions(**{"host": "news.example.org", "groups": "alt.test"} | options)).check()  # type: ignore[arg-type]
    assert said in str(error.value)
