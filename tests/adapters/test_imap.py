"""Mailboxes of a real IMAP server: places, IDLE, TLS, secrets, failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from tamis.adapters.adapter import Adapter
from tamis.adapters.sources.live import imap
from tamis.adapters.sources.live.imap import ImapOptions, ImapSource
from tamis.errors import AdapterError
from tests.adapters.live_reader import Reader, readers
from tests.adapters.mailbox_server import PASSWORD, USER, MailServer, in_tls, mail_server
from tests.adapters.reading import mail, subjects

Open = Callable[..., Reader]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    monkeypatch.setenv("IMAP_PASSWORD", PASSWORD)
    with mail_server() as server:
        yield server


@pytest.fixture
def inbox(server: MailServer, tmp_path: Path) -> Iterator[Open]:
    with readers(ImapSource, tmp_path) as make:
        yield lambda **options: make(
            **{"host": "127.0.0.1", "port": server.port, "user": USER, "tls": "none", "password_env": "IMAP_PASSWORD"}
            | options
        )


def test_each_mail_is_read_once(server: MailServer, inbox: Open) -> None:
    server.deliver(mail(1), mail(2))
    reader = inbox()
    rows = reader.next()
    assert subjects(rows) == ["number 1", "number 2"]
    assert (rows[0].body, rows[0].partition) == ("Hello", "imap://jane@127.0.0.1/INBOX")
    assert reader.later() == []
    server.deliver(mail(3))
    reader.restart()
    assert subjects(reader.later()) == ["number 3"]


def test_after_a_change_of_uids_only_new_mails_are_read(server: MailServer, inbox: Open) -> None:
    server.deliver(mail(1), mail(2))
    reader = inbox()
    reader.next()
    server.do(server.folders["INBOX"].renumber)
    server.deliver(mail(3))
    assert subjects(reader.later()) == ["number 3"]


def test_a_mail_in_two_folders_is_one_message(server: MailServer, inbox: Open) -> None:
    server.deliver(mail(1))
    server.deliver(mail(1), mail(2), folder="Lists")
    assert sorted(subjects(inbox(folders="INBOX, Lists").next())) == ["number 1", "number 2"]


def test_with_next_only_what_comes_later_is_read(server: MailServer, inbox: Open) -> None:
    server.deliver(mail(1))
    reader = inbox(starting_offset="next")
    assert reader.next() == []
    server.deliver(mail(2))
    assert subjects(reader.later()) == ["number 2"]


def test_a_look_takes_at_most_max_messages_and_the_next_is_at_once(server: MailServer, inbox: Open) -> None:
    server.deliver(*map(mail, range(5)))
    reader = inbox(max_messages=2)
    assert [len(reader.next()) for _ in range(4)] == [2, 2, 1, 0]


def test_a_run_that_ends_reads_on_behind_mails_that_are_known(server: MailServer, inbox: Open) -> None:
    server.deliver(*map(mail, range(6)))
    reader = inbox(max_messages=2)
    for _ in range(3):
        assert len(reader.next()) == 2
    server.do(server.folders["INBOX"].renumber)
    server.deliver(mail(6))
    reader.restart()
    reader.now += 900
    reader.source.wait_until_settled()  # as a run with --once begins
    assert subjects(reader.next()) == ["number 6"]


def test_with_idle_a_new_mail_is_read_at_once(server: MailServer, inbox: Open) -> None:
    reader = inbox()
    assert reader.next() == []
    server.deliver(mail(1))
    until = time.monotonic() + 30
    while not (rows := reader.next()) and time.monotonic() < until:
        time.sleep(0.02)  # the clock of the reader stands still: no look is due
    assert subjects(rows) == ["number 1"]


def test_a_connection_that_ended_is_made_anew(server: MailServer, inbox: Open) -> None:
    reader = inbox()
    reader.next()
    server.hang_up()
    server.deliver(mail(1))
    assert subjects(reader.later()) == ["number 1"]


def test_a_mail_that_is_too_large_is_a_dead_letter(
    server: MailServer, inbox: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imap, "MESSAGE_BYTES_MAX", 200)
    monkeypatch.setattr(imap, "RAW_KEPT_BYTES", 50)
    server.deliver(mail(1, "x" * 500), mail(2))
    rows = inbox().next()
    assert "at most 200 are read" in str(rows[0].error)
    assert rows[0].raw == mail(1, "x" * 500)[:50]
    assert subjects(rows[1:]) == ["number 2"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"password_env": "WRONG"}, "127.0.0.1 refused the login"),
        ({"folders": "Nowhere"}, "127.0.0.1: select failed"),
        ({"port": 1}, "Connection refused"),
        ({"tls": "tls", "timeout_s": 5}, "127.0.0.1: "),
    ],
)
def test_a_failure_says_why(
    inbox: Open, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], said: str
) -> None:
    monkeypatch.setenv("WRONG", "onion")
    with pytest.raises(AdapterError) as error:
        inbox(**options).next()
    assert said in str(error.value)
    assert "the next try is at" in str(error.value)


def test_tls_is_checked_against_the_certificates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IMAP_PASSWORD", PASSWORD)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "password").write_text(PASSWORD + "\n")
    secret = {"host": "localhost", "user": USER, "password_file": str(tmp_path / "password")}
    with (
        mail_server() as server,
        in_tls(server.port, authority.issue_cert("localhost")) as port,
        readers(ImapSource, tmp_path) as make,
    ):
        server.deliver(mail(1))
        assert len(make(port=port, ca_file=str(tmp_path / "ca.pem"), **secret).next()) == 1
        with pytest.raises(AdapterError, match="(?i)certificate"):
            make(port=port, **secret).next()


def test_a_test_of_the_adapter_reads_the_newest_and_changes_nothing(server: MailServer, tmp_path: Path) -> None:
    server.deliver(*map(mail, range(30)))
    options = {"host": "127.0.0.1", "port": server.port, "user": USER, "tls": "none", "password_env": "IMAP_PASSWORD"}
    health = Adapter("inbox", "imap", spool=str(tmp_path / "spool"), **options).test()
    assert (health.readable, health.sampled, health.reason) == (True, 20, None)
    assert not (tmp_path / "spool").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "expected one of password_env, password_file, token_env and token_file"),
        ({"password_env": "NOT_SET"}, "the environment variable NOT_SET is not set"),
        ({"password_file": "nowhere"}, "expected a file whose first line is the password"),
        ({"password_env": "IMAP_PASSWORD", "tls": "none"}, "needs tls"),
        ({"password_env": "IMAP_PASSWORD", "folders": " "}, "expected names of folders"),
        ({"password_env": "IMAP_PASSWORD", "ca_file": "nowhere"}, "no certificates can be read"),
    ],
)
def test_a_wrong_option_is_refused(monkeypatch: pytest.MonkeyPatch, options: dict[str, str], said: str) -> None:
    monkeypatch.setenv("IMAP_PASSWORD", PASSWORD)
    with pytest.raises(AdapterError) as error:
        ImapSource(ImapOptions(host="mail.example.org", user=USER, **options)).check()  # type: ignore[arg-type]
    assert said in str(error.value)
