"""The channel `smtp` against a real mail server on this machine."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import aiosmtplib
import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from pydantic import ValidationError

from tamis.config.deliveries import SmtpDelivery
from tamis.config.owners import OwnerConfig
from tamis.errors import ConfigError
from tamis.notify.channels.channel import ChannelError
from tamis.notify.confirm import ask_for_confirmation
from tamis.notify.engine import DeliveryCounts, NotificationEngine
from tamis.notify.unsubscribe import Links
from tamis.query import QuerySpec
from tamis.store import Store
from tests.faults.promises import times
from tests.free_port import free_port
from tests.notify.conftest import Clock
from tests.notify.killed_sender import send_and_kill
from tests.store.rows import fill, message, result

DROP = "drop"
_YEAR_S = 31_536_000.0


class Inbox:
    """What a server received, and its answers: a reply to the text, or `DROP` to accept it and hang up."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.answer: Callable[[int], str] = lambda number: "250 OK"
        self.refused: set[str] = set()
        self.put_off: set[str] = set()
        self.tried = 0
        self.answer_after_s = 0.0
        self.hangs_on: str | None = None
        self.envelopes: list[list[str]] = []
        self.poison: set[str] = set()
        self.failed: Counter[str] = Counter()

    async def handle_RCPT(  # noqa: N802 - the server's name for it
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return "550 5.1.1 no such user"
        if address in self.put_off:
            return "450 4.2.0 greylisted"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        message_id = message_from_bytes(envelope.content)["Message-ID"]
        if self.hangs_on in (None, message_id):
            await asyncio.sleep(self.answer_after_s)
        answer = "554 5.6.0 never" if message_id in self.poison else self.answer(self.tried)
        self.tried += 1
        self.failed[message_id] += not answer.startswith("250")
        if answer.startswith("250") or answer == DROP:
            self.received.append(envelope.content)
            self.envelopes.append(list(envelope.rcpt_tos))
        if answer == DROP:
            assert server.transport is not None
            server.transport.abort()
        return answer

    @property
    def ids(self) -> Counter[str]:
        """Return the number of mails that arrived, by Message-ID."""
        return Counter(message_from_bytes(content)["Message-ID"] for content in self.received)


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


Serve = Callable[..., int]


@pytest.fixture
def serve(inbox: Inbox) -> Iterator[Serve]:
    """Start a server; yield its port."""
    started = []

    def start(port: int = 0, **options: Any) -> int:
        controller = Controller(inbox, hostname="127.0.0.1", port=port or free_port(), ready_timeout=20, **options)
        controller.start()
        started.append(controller)
        return int(controller.port)

    yield start
    for controller in started:
        controller.stop()


def _config(port: int, **options: Any) -> SmtpDelivery:
    told = {"name": "mail", "type": "smtp", "host": "127.0.0.1", "port": port, "tls": "none", "back_off_s": [1.0]}
    addresses = {"from": "Tamis <tamis@example.org>", "to": ["ann@example.org"]}
    return SmtpDelivery.model_validate(told | addresses | options)


def _engine(store: Store, clock: Clock, port: int, **options: Any) -> NotificationEngine:
    return NotificationEngine(store, [_config(port, **options)], clock)


def _wanted(store: Store) -> set[str]:
    return {f"<{name}@tamis.invalid>" for name in store.notification_ids()}


def test_each_notification_is_one_mail(store: Store, clock: Clock, inbox: Inbox, serve: Serve) -> None:
    fill(store, 5, deliveries=("mail",))
    assert _engine(store, clock, serve()).deliver_pending() == DeliveryCounts(delivered=5)
    assert inbox.ids == Counter(_wanted(store))
    mail = message_from_bytes(inbox.received[0], policy=policy.default)
    assert mail["Subject"] == "[tamis] frost: message 0"
    assert mail["From"] == "Tamis <tamis@example.org>"


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """Return a file with an authority's certificate, and the TLS context of a server that it has signed."""
    authority = trustme.CA()
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return path, context


def _authenticate(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    assert isinstance(data, LoginPassword)
    return AuthResult(success=(data.login, data.password) == (b"ann", b"secret"), handled=False)


def test_it_logs_in_over_starttls(
    store: Store,
    clock: Clock,
    inbox: Inbox,
    serve: Serve,
    certificates: tuple[Path, ssl.SSLContext],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ca_file, context = certificates
    port = serve(tls_context=context, require_starttls=True, auth_required=True, authenticator=_authenticate)
    fill(store, 2, deliveries=("mail",))
    login = {"tls": "starttls", "ca_file": ca_file, "user": "ann", "password_env": "TAMIS_TEST_PASSWORD"}
    with pytest.raises(ConfigError, match="environment variable TAMIS_TEST_PASSWORD is not set"):
        _engine(store, clock, port, **login)
    monkeypatch.setenv("TAMIS_TEST_PASSWORD", "wrong")
    assert "535" in _engine(store, clock, port, **login).deliver_pending().troubles["mail"]
    monkeypatch.setenv("TAMIS_TEST_PASSWORD", "secret")
    assert _engine(store, clock, port, **login).deliver_pending().delivered == 2
    assert inbox.ids == Counter(_wanted(store))


def test_it_speaks_tls_from_the_first_byte(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve, certificates: tuple[Path, ssl.SSLContext]
) -> None:
    ca_file, context = certificates
    fill(store, 2, deliveries=("mail",))
    port = serve(ssl_context=context)
    assert _engine(store, clock, port, tls="tls", ca_file=ca_file).deliver_pending() == DeliveryCounts(delivered=2)
    assert inbox.ids == Counter(_wanted(store))


def test_a_server_without_the_tls_that_was_asked_for_gets_no_mail(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    fill(store, 1, deliveries=("mail",))
    counts = _engine(store, clock, serve(), tls="starttls").deliver_pending()
    assert "mail" in counts.troubles
    assert inbox.received == []


def test_a_server_that_nobody_vouches_for_gets_no_mail(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve, certificates: tuple[Path, ssl.SSLContext]
) -> None:
    fill(store, 1, deliveries=("mail",))
    port = serve(tls_context=certificates[1], require_starttls=True)
    assert "certificate" in _engine(store, clock, port, tls="starttls").deliver_pending().troubles["mail"].lower()
    assert inbox.received == []


def test_certificates_that_cannot_be_read_are_a_config_error(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.pem: no certificates can be read"):
        NotificationEngine(store, [_config(25, tls="tls", ca_file=tmp_path / "nowhere.pem")])


def test_a_temporary_refusal_is_tried_again(store: Store, clock: Clock, inbox: Inbox, serve: Serve) -> None:
    fill(store, 3, deliveries=("mail",))
    inbox.answer = lambda number: "451 4.7.1 greylisted" if number == 1 else "250 OK"
    engine = _engine(store, clock, serve())
    assert engine.deliver_pending() == DeliveryCounts(delivered=2, retried=1)
    (waiting,) = store.deliveries(state="pending")
    assert (waiting.attempts, waiting.reason) == (1, "451 4.7.1 greylisted")
    assert engine.deliver_pending() == DeliveryCounts()
    clock.move(1)
    assert engine.deliver_pending() == DeliveryCounts(delivered=1)
    assert inbox.ids == Counter(_wanted(store))


def test_poison_is_dead_after_five_tries_with_the_servers_words(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    fill(store, 1, deliveries=("mail",))
    inbox.answer = lambda number: "554 5.6.0 I will not take this"
    engine = _engine(store, clock, serve())
    for _ in range(9):
        engine.deliver_pending()
        clock.move(1)
    assert inbox.tried == 5
    (dead,) = store.deliveries(state="dead")
    assert (dead.attempts, dead.reason) == (5, "554 5.6.0 I will not take this (try 5 of 5)")


def test_recipients_that_are_refused_are_named(store: Store, clock: Clock, inbox: Inbox, serve: Serve) -> None:
    fill(store, 1, deliveries=("mail",))
    inbox.refused = {"nobody@example.org"}
    port = serve()
    engine = _engine(store, clock, port, to=["nobody@example.org"])
    assert engine.deliver_pending().retried == 1
    assert store.deliveries()[0].reason == "nobody@example.org: 550 5.1.1 no such user"
    clock.move(1)
    both = _engine(store, clock, port, to=["nobody@example.org", "ann@example.org"])
    assert both.deliver_pending().delivered == 1
    assert store.deliveries()[0].reason == "refused for nobody@example.org: 550 5.1.1 no such user"


EVERYBODY = ["ann@example.org", "Bob <bob@example.org>", "nobody@example.org", "ann@example.org"]


def test_a_recipient_who_was_put_off_is_tried_again_and_only_they(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    fill(store, 1, deliveries=("mail",))
    inbox.put_off, inbox.refused = {"bob@example.org"}, {"nobody@example.org"}
    port = serve()
    assert _engine(store, clock, port, to=EVERYBODY).deliver_pending() == DeliveryCounts(retried=1)
    (waiting,) = store.deliveries(state="pending")
    assert (waiting.attempts, waiting.reason) == (1, "bob@example.org: 450 4.2.0 greylisted")
    clock.move(1)
    inbox.put_off.clear()
    restarted = _engine(store, clock, port, to=EVERYBODY)  # who has it already is in the store
    assert restarted.deliver_pending() == DeliveryCounts(delivered=1)
    assert inbox.envelopes == [["ann@example.org"], ["bob@example.org"]]
    assert inbox.received[0] == inbox.received[1]
    assert set(inbox.ids) == _wanted(store)
    (done,) = store.deliveries()
    assert (done.state, done.reason) == ("delivered", "refused for nobody@example.org: 550 5.1.1 no such user")


def test_a_recipient_who_is_put_off_for_ever_is_named_in_the_dead_letter(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    fill(store, 1, deliveries=("mail",))
    inbox.put_off = {"bob@example.org"}
    engine = _engine(store, clock, serve(), to=EVERYBODY[:2], tries=3, back_off_s=[10.0, 60.0])
    for wait in (10, 60):
        assert engine.deliver_pending() == DeliveryCounts(retried=1)
        clock.move(wait - 1)
        assert engine.deliver_pending() == DeliveryCounts()
        clock.move(1)
    assert engine.deliver_pending() == DeliveryCounts(dead=1)
    (dead,) = store.deliveries(state="dead")
    assert dead.reason == "bob@example.org: 450 4.2.0 greylisted (try 3 of 3)"
    inbox.put_off.clear()
    assert store.retry_dead("mail") == 1
    clock.move(3600)
    assert engine.deliver_pending() == DeliveryCounts(delivered=1)
    assert inbox.envelopes == [["ann@example.org"], ["bob@example.org"]]


def _linking(store: Store, clock: Clock, port: int) -> NotificationEngine:
    links = Links("https://example.org/u", b"s" * 32)
    return NotificationEngine(store, [_config(port, to=EVERYBODY[:2])], clock, links=links)


def test_each_of_several_recipients_gets_a_copy_with_a_link_of_their_own(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    fill(store, 1, deliveries=("mail",))
    assert _linking(store, clock, serve()).deliver_pending() == DeliveryCounts(delivered=1)
    assert inbox.envelopes == [["ann@example.org"], ["bob@example.org"]]
    links = [message_from_bytes(content)["List-Unsubscribe"] for content in inbox.received]
    assert len(set(links)) == 2
    assert set(inbox.ids.values()) == {2}


@pytest.mark.parametrize("trouble", ["450 4.2.0 later", "421 4.3.2 closing", DROP])
def test_a_server_that_fails_between_two_copies_gets_only_the_second_again(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve, trouble: str
) -> None:
    fill(store, 1, deliveries=("mail",))
    inbox.answer = lambda tried: trouble if tried == 1 else "250 OK"
    engine = _linking(store, clock, serve())
    assert engine.deliver_pending() == DeliveryCounts(retried=1)
    clock.move(3600)
    assert engine.deliver_pending() == DeliveryCounts(delivered=1)
    counts = Counter(tuple(envelope) for envelope in inbox.envelopes)
    assert counts["ann@example.org",] == 1
    assert counts["bob@example.org",] == (2 if trouble == DROP else 1)


def test_a_recipient_who_is_no_longer_wanted_is_waited_for_no_more(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    fill(store, 1, deliveries=("mail",))
    inbox.put_off = {"bob@example.org"}
    port = serve()
    assert _engine(store, clock, port, to=EVERYBODY[:2]).deliver_pending() == DeliveryCounts(retried=1)
    clock.move(1)
    assert _engine(store, clock, port, to=EVERYBODY[:1]).deliver_pending() == DeliveryCounts(delivered=1)
    assert inbox.envelopes == [["ann@example.org"]]


def test_where_nobody_is_accepted_everybody_is_tried_again(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    fill(store, 1, deliveries=("mail",))
    inbox.refused, inbox.put_off = {"ann@example.org"}, {"bob@example.org"}
    engine = _engine(store, clock, serve(), to=EVERYBODY[:2])
    assert engine.deliver_pending() == DeliveryCounts(retried=1)
    clock.move(1)
    inbox.refused, inbox.put_off = {"ann@example.org", "bob@example.org"}, set()
    assert engine.deliver_pending() == DeliveryCounts(retried=1)
    (waiting,) = store.deliveries(state="pending")
    assert waiting.reason == "; ".join(f"{who}@example.org: 550 5.1.1 no such user" for who in ("ann", "bob"))
    clock.move(1)
    inbox.refused.clear()
    assert engine.deliver_pending() == DeliveryCounts(delivered=1)
    assert inbox.envelopes == [["ann@example.org", "bob@example.org"]]


def test_a_server_that_does_not_answer_costs_no_notification_a_try(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    fill(store, 40, deliveries=("mail",))
    inbox.answer_after_s = 3.0
    engine = _engine(store, clock, serve(), timeout_s=0.5, back_off_s=[10.0])
    for hanging in range(2):
        started = time.monotonic()
        counts = engine.deliver_pending()
        assert "no answer within 0.5 s" in counts.troubles["mail"], "the first of 40 says that the server hangs"
        assert time.monotonic() - started < 10
        assert {record.attempts for record in store.deliveries()} == {0}, hanging
        clock.move(10)
    inbox.answer_after_s = 0.0
    assert engine.deliver_pending() == DeliveryCounts(delivered=40)


def test_a_message_that_always_makes_the_server_hang_is_dead_in_the_end(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    fill(store, 6, deliveries=("mail",))
    poison = f"<{store.notifications(newest_first=False)[2].id}@tamis.invalid>"
    inbox.hangs_on = poison
    inbox.answer_after_s = 3.0
    engine = _engine(store, clock, serve(), timeout_s=0.5, tries=2, back_off_s=[1.0])
    for _ in range(8):
        engine.deliver_pending()
        clock.move(1)
        another = message(100 + len(inbox.received), partition="more")
        store.pin_batch(f"more {len(inbox.received)}", 0)
        store.commit_batch(f"more {len(inbox.received)}", 0, result([another]))
    (dead,) = store.deliveries(state="dead")
    assert (dead.attempts, f"<{dead.notification_id}@tamis.invalid>") == (2, poison)
    assert "no answer within 0.5 s" in str(dead.reason)
    assert {record.attempts for record in store.deliveries(state="delivered")} == {1}


def test_a_server_that_hangs_up_after_the_text_gets_it_again_under_the_same_id(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    fill(store, 3, deliveries=("mail",))
    inbox.answer = lambda number: DROP if number == 0 else "250 OK"
    engine = _engine(store, clock, serve())
    assert engine.deliver_pending() == DeliveryCounts(delivered=2, retried=1)
    clock.move(1)
    assert engine.deliver_pending() == DeliveryCounts(delivered=1)
    assert set(inbox.ids) == _wanted(store)
    assert sorted(inbox.ids.values()) == [1, 1, 2]


def test_a_server_that_is_closing_costs_no_notification_a_try(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    fill(store, 2, deliveries=("mail",))
    inbox.answer = lambda number: "421 4.3.2 shutting down" if number == 0 else "250 OK"
    engine = _engine(store, clock, serve())
    assert "421 4.3.2 shutting down" in engine.deliver_pending().troubles["mail"]
    assert [record.attempts for record in store.deliveries()] == [0, 0]
    clock.move(1)
    assert engine.deliver_pending() == DeliveryCounts(delivered=2)


def test_mail_waits_for_a_server_that_is_not_there(store: Store, clock: Clock, inbox: Inbox, serve: Serve) -> None:
    fill(store, 2, deliveries=("mail",))
    port = free_port()
    engine = _engine(store, clock, port)
    for _ in range(7):
        assert f"127.0.0.1:{port}: no mail can be sent" in engine.deliver_pending().troubles["mail"]
        clock.move(1)
    serve(port)
    assert engine.deliver_pending() == DeliveryCounts(delivered=2)


SENDER = """
import sys
from pathlib import Path
from tamis.notify.engine import NotificationEngine
from tamis.config.deliveries import SmtpDelivery
from tamis.store import Store

config = SmtpDelivery.model_validate({"name": "mail", "type": "smtp", "host": "127.0.0.1", "port": int(sys.argv[2]),
    "tls": "none", "from": "tamis@example.org", "to": "ann@example.org", "tries": 5, "back_off_s": [0.001]})
with Store.open(sys.argv[1]) as store:
    engine = NotificationEngine(store, [config])
    print("ready", flush=True)
    while store.counts().deliveries_pending:
        engine.deliver_pending()
print("done", flush=True)
"""


MAILS, KILLS = times("TAMIS_MAILS", 400, 10_000), times("TAMIS_MAIL_KILLS", 10, 20)


@pytest.mark.timeout(120 + MAILS // 5)
def test_a_bad_server_and_a_killed_sender_lose_nothing(store: Store, inbox: Inbox, serve: Serve) -> None:
    """Drops after the text, 5xx, kill -9, and a mail that the server never takes."""
    chance = random.Random(seed := random.randrange(2**32))
    print(f"{MAILS} mails, {KILLS} kills, seed {seed}")
    drops = set()

    def answer(number: int) -> str:
        luck = chance.random()
        if luck < 0.10:
            drops.add(number)
            return DROP
        return "554 5.0.0 not now" if luck < 0.15 else "250 OK"

    inbox.answer = answer
    fill(store, MAILS, deliveries=("mail",))
    wanted = _wanted(store)
    inbox.poison.add(poison := min(wanted))
    command = [sys.executable, "-c", SENDER, str(store.path), str(serve())]
    send_and_kill(store, command, KILLS, chance)
    dead = {f"<{it.notification_id}@tamis.invalid>" for it in store.deliveries(state="dead", limit=MAILS)}
    # Of ten thousand mails, the server refuses or drops about one five times by chance.
    assert poison in dead
    assert all(inbox.failed[mail] >= 5 for mail in dead)
    assert set(inbox.ids) - dead == wanted - dead
    assert inbox.ids.total() - len(set(inbox.ids)) <= len(drops) + KILLS
    assert store.counts().deliveries_delivered == MAILS - len(dead)


def test_an_owner_gets_some_mails_at_their_address_and_the_others_as_one(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    store.add_query(QuerySpec("frost", "subject LIKE '%'", owner="ann", deliveries=("mail",)))
    store.add_query(QuerySpec("heat", "subject LIKE '%'", owner="ben", deliveries=("mail",)))
    store.pin_batch("s", 0)
    store.commit_batch("s", 0, result(map(message, range(5)), ["frost", "heat"]))
    ann = OwnerConfig(name="ann", to="zoe@example.org", most=2, per_s=_YEAR_S)
    config = _config(serve())
    engine = NotificationEngine(store, [config], clock, owners=[ann])
    assert engine.deliver_pending().delivered == 7
    assert Counter(map(tuple, inbox.envelopes)) == {("zoe@example.org",): 2, tuple(config.recipients): 5}
    held = [it for it in store.deliveries(query_key="frost") if it.state == "pending"]
    assert {(it.reason or "").split(";")[0] for it in held} == {"more than 2 of this query in 31536000 s"}
    assert {it.step for it in store.delivery_steps([it.notification_id for it in held])} == {"throttled"}
    clock.move(_YEAR_S)
    assert NotificationEngine(store, [config], clock, owners=[ann]).deliver_pending().delivered == 3
    digest = message_from_bytes(inbox.received[-1], policy=policy.default)
    assert isinstance(digest, EmailMessage)
    assert (digest["To"], digest["Subject"]) == ("zoe@example.org", "[tamis] 3 notifications: frost (3)")
    assert [f"{number}. message {number + 1}" in digest.get_content() for number in (1, 2, 3)] == [True] * 3
    assert len(inbox.received) == 8


def test_all_queries_of_an_owner_together_have_a_limit_that_a_restart_does_not_forget(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    for key, owner in (("frost", "ann"), ("heat", "ann"), ("rain", "ben")):
        store.add_query(QuerySpec(key, "subject LIKE '%'", owner=owner, deliveries=("mail",)))
    owners = [OwnerConfig(name="ann", to="zoe@example.org", most=2, most_in_all=3, per_s=_YEAR_S)]
    config = _config(serve())
    for batch in range(3):
        store.pin_batch("s", batch)
        store.commit_batch("s", batch, result([message(batch)], ["frost", "heat", "rain"]))
        NotificationEngine(store, [config], clock, owners=owners).deliver_pending()
    assert Counter(map(tuple, inbox.envelopes)) == {("zoe@example.org",): 3, tuple(config.recipients): 3}
    held = [it for key in ("frost", "heat") for it in store.deliveries(query_key=key) if it.state == "pending"]
    assert sorted((it.reason or "").split(";")[0] for it in held) == [
        "more than 2 of this query in 31536000 s",
        "more than 3 of all queries in 31536000 s",
        "more than 3 of all queries in 31536000 s",
    ]


def test_an_address_is_asked_to_confirm_and_a_refusal_is_told(inbox: Inbox, serve: Serve) -> None:
    links, delivery = Links("https://example.org/u", bytes(32)), _config(serve())
    ask_for_confirmation(delivery, "Ben <ben@example.org>", links)
    (content,), (recipients,) = inbox.received, inbox.envelopes
    mail = message_from_bytes(content, policy=policy.default)
    assert (recipients, mail["To"]) == (["ben@example.org"], "Ben <ben@example.org>")
    assert links.confirmation("ben@example.org") in mail.get_content()
    inbox.refused.add("ben@example.org")
    with pytest.raises(ChannelError, match="550 5.1.1 no such user"):
        ask_for_confirmation(delivery, "ben@example.org", links)
    inbox.refused.clear()
    inbox.answer = lambda _: "554 no"
    with pytest.raises(ChannelError, match="554"):
        ask_for_confirmation(delivery, "ben@example.org", links)
    with pytest.raises(ChannelError, match="no mail can be sent"):
        ask_for_confirmation(_config(1), "ben@example.org", links)


def test_who_has_unsubscribed_is_left_out_of_what_the_server_gets(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    fill(store, 2, deliveries=("mail",))
    store.unsubscribe("ann@example.org", "frost")
    engine = _engine(store, clock, serve(), to=["ann@example.org", "ben@example.org"])
    assert engine.deliver_pending() == DeliveryCounts(delivered=2)
    assert inbox.envelopes == [["ben@example.org"]] * 2
    store.unsubscribe("ben@example.org")
    store.pin_batch("s", 1)
    store.commit_batch("s", 1, result([message(7)]))
    assert engine.deliver_pending() == DeliveryCounts(delivered=1)
    assert len(inbox.received) == 2
    assert store.deliveries()[0].reason == "not sent: ann@example.org, ben@example.org unsubscribed"


def test_a_digest_is_for_each_recipient_whoever_has_an_earlier_one(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve
) -> None:
    store.add_query(QuerySpec("frost", "subject LIKE '%'", owner="ann", deliveries=("mail",)))
    owner = OwnerConfig(name="ann", to=("zoe@example.org", "ben@example.org"), digest="hour")
    config = _config(serve(), to=["zoe@example.org", "ben@example.org"])

    def deliver() -> None:
        NotificationEngine(store, [config], clock, owners=[owner]).deliver_pending()

    def match(first: int, last: int) -> None:
        store.pin_batch("s", first)
        store.commit_batch("s", first, result(map(message, range(first, last)), ["frost"]))

    inbox.put_off = {"ben@example.org"}
    match(0, 2)
    deliver()  # sends nothing yet, unless an hour ends in the minutes by which the clock is ahead
    clock.move(7_200)
    deliver()
    assert inbox.envelopes == [["zoe@example.org"]]
    with sqlite3.connect(store.path) as file:
        (name, waits_until) = file.execute("SELECT DISTINCT digest, next_attempt_at FROM deliveries").fetchone()
    match(2, 3)
    with sqlite3.connect(store.path) as file:
        late = "UPDATE deliveries SET digest = ?, next_attempt_at = ? WHERE digest IS NULL"
        assert file.execute(late, (name, waits_until)).rowcount == 1
    inbox.put_off = set()
    clock.move(3_600)
    deliver()
    assert sorted(inbox.envelopes[1:]) == [["ben@example.org"], ["zoe@example.org", "ben@example.org"]]
    assert store.counts().deliveries_delivered == 3


@pytest.mark.parametrize("answer", ["550 Empf\xe4nger", "451 sp\xe4ter"])
def test_an_answer_in_another_encoding_is_kept_as_text(
    store: Store, clock: Clock, inbox: Inbox, serve: Serve, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    fill(store, 1, deliveries=("mail",))
    port = serve()
    said = answer[4:].encode("latin-1").decode("ascii", "surrogateescape")
    replies = {"ann@example.org": aiosmtplib.SMTPResponse(int(answer[:3]), said)}

    async def sendmail(*_: Any) -> Any:
        return replies, ""

    monkeypatch.setattr(aiosmtplib.SMTP, "sendmail", sendmail)
    _engine(store, clock, port, tries=2).deliver_pending()
    (delivery,) = store.deliveries()
    assert (delivery.reason or "").startswith(f"ann@example.org: {answer[:6]}")


def test_an_address_that_no_server_takes_is_refused_when_it_is_written() -> None:
    with pytest.raises(
        ValidationError, match="an address in ASCII, such as ann@example.org, not 'j\xf6rg@example.org'"
    ):
        _config(25, to=["J\xf6rg <j\xf6rg@example.org>"])
    assert _config(25, to=["J\xf6rg <joerg@example.org>"]).recipients == ("J\xf6rg <joerg@example.org>",)
