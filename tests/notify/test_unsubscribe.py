"""One click ends the e-mails of a query; looking at the link does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.adapters.http_thread import HttpThread
from tamis.config.deliveries import EmlDelivery
from tamis.config.owners import OwnerConfig
from tamis.config.pipeline import PipelineConfig
from tamis.errors import ConfigError
from tamis.notify.channels.eml import EmlChannel
from tamis.notify.mail_writer import Mail, MailWriter
from tamis.notify.unsubscribe import Asked, Links, application
from tamis.store import DueDelivery, NotificationRecord, Store

URL = "https://example.org/u"
LINKS = Links(URL, bytes(32))
ONE_CLICK = {"List-Unsubscribe": "One-Click"}


@pytest.fixture
def server(store: Store) -> Iterator[str]:
    """Serve the links, and return the address that stands for `URL`."""
    server = HttpThread(application(LINKS, store), "127.0.0.1", 0)
    assert server.start()
    yield f"http://127.0.0.1:{server.port}/behind/a/proxy"
    server.stop()
    assert not server.is_alive()


def here(server: str, link: str) -> str:
    return server + link.removeprefix(URL)


def told(store: Store) -> set[tuple[str, str]]:
    return {(it.address, it.query_key) for it in store.unsubscriptions()}


def test_a_post_unsubscribes_and_a_get_only_asks(store: Store, server: str) -> None:
    link = here(server, LINKS.link("Ann@example.org", "frost & <ice>"))
    page = httpx2.get(link)
    assert (page.status_code, told(store)) == (200, set())
    assert "ann@example.org gets e-mails of the query &#x27;frost &amp; &lt;ice&gt;&#x27;." in page.text
    assert 'method="post"' in page.text
    assert page.headers["Cache-Control"] == "no-store"
    for _ in range(2):  # a mail program may repeat it
        done = httpx2.post(link, data=ONE_CLICK)
        assert (done.status_code, told(store)) == (200, {("ann@example.org", "frost & <ice>")})
    assert "no longer gets" in done.text


def test_the_form_may_be_multipart(store: Store, server: str) -> None:
    link = here(server, LINKS.link("ann@example.org", ""))
    assert httpx2.post(link, files={"List-Unsubscribe": (None, "One-Click")}).status_code == 200
    assert told(store) == {("ann@example.org", "")}


@pytest.mark.parametrize("body", [{}, {"List-Unsubscribe": "No"}, {"x": "y" * 20_000}])
def test_any_other_form_changes_nothing(store: Store, server: str, body: dict[str, str]) -> None:
    assert httpx2.post(here(server, LINKS.link("ann@example.org", "frost")), data=body).status_code == 400
    assert told(store) == set()


def test_a_link_of_another_is_unknown(store: Store, server: str) -> None:
    good = LINKS.link("ann@example.org", "frost")
    other = Links(URL, bytes(31) + b"1").link("ann@example.org", "frost")
    for link in (other, good[:-1], good + "A", f"{URL}/", f"{URL}/nonsense", f"{URL}/%ff.AAAA", f"{URL}/W10."):
        for answer in (httpx2.get(here(server, link)), httpx2.post(here(server, link), data=ONE_CLICK)):
            assert answer.status_code == 404
    assert told(store) == set()


@settings(max_examples=200)
@given(st.text(max_size=40), st.text(max_size=80), st.integers(0, 200), st.integers(0, 63))
def test_a_token_names_what_it_was_made_for_and_no_other_does(address: str, key: str, at: int, other: int) -> None:
    address, key = (it.encode(errors="replace").decode() for it in (address, key))
    token = LINKS.link(address, key).removeprefix(URL + "/")
    named = Asked("unsubscribe", address.lower(), key)
    assert LINKS.read(token) == named
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    changed = token[: at % len(token)] + alphabet[other] + token[at % len(token) + 1 :]
    assert LINKS.read(changed) in (None, named)
    confirmation = LINKS.confirmation(address).removeprefix(URL + "/")
    assert LINKS.read(confirmation) == Asked("confirm", address.lower())


def write(
    store: Store, records: list[NotificationRecord], *to: str, confirm: bool = False
) -> tuple[Mail, EmailMessage]:
    owners = {"ann": OwnerConfig(name="ann", to=to, confirm=confirm)}
    config = EmlDelivery(name="e", type="eml", folder=Path("nowhere"))
    due = [DueDelivery(number, 0, record, owner="ann") for number, record in enumerate(records)]
    mail = MailWriter(config, owners, store, LINKS).write(due)
    return mail, message_from_bytes(mail.content, policy=policy.default)


def test_an_e_mail_to_one_address_has_the_headers_of_rfc_8058(store: Store, record: NotificationRecord) -> None:
    mail, message = write(store, [replace(record, query_key="k" * 200)], "Ann <ann@example.org>")
    link = LINKS.link("ann@example.org", "k" * 200)
    assert message["List-Unsubscribe"] == f"<{link}>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert f"<{link}>\r\n".encode() in mail.content  # on one line, as it must be
    assert max(map(len, mail.content.split(b"\r\n"))) <= 998
    assert link in message.get_content()


def test_of_an_e_mail_to_several_each_has_a_copy_with_a_link_of_their_own(
    store: Store, record: NotificationRecord
) -> None:
    mail, message = write(store, [record], "Ann <ann@example.org>", "ben@example.org")
    assert message["List-Unsubscribe"] is None
    assert URL not in message.get_content()
    for recipient, address in (("Ann <ann@example.org>", "ann@example.org"), ("ben@example.org", "ben@example.org")):
        copy = message_from_bytes(mail.copies[recipient], policy=policy.default)
        assert copy["List-Unsubscribe"] == f"<{LINKS.link(address, record.query_key)}>"
        assert (copy["To"], copy["Message-ID"]) == (message["To"], message["Message-ID"])
        assert copy.get_content().count(URL) == 1


def test_the_link_of_a_digest_ends_all_e_mails(store: Store, record: NotificationRecord) -> None:
    _, message = write(store, [record, replace(record, id="2" * 32)], "ann@example.org")
    assert message["List-Unsubscribe"] == f"<{LINKS.link('ann@example.org', '')}>"


def test_who_has_unsubscribed_gets_no_more(store: Store, record: NotificationRecord) -> None:
    other = replace(record, id="2" * 32, query_key="heat")
    store.unsubscribe("ANN@example.org", "frost")
    mail, message = write(store, [record, other], "Ann <ann@example.org>")
    assert mail.notes == {0: "not sent: ann@example.org unsubscribed"}
    assert "heat" in message["Subject"]
    assert write(store, [record], "Ann@Example.org")[0] == Mail(
        "", b"", (), {0: "not sent: Ann@Example.org unsubscribed"}
    )
    mail, message = write(store, [record], "ann@example.org", "ben@example.org")
    assert (mail.recipients, mail.notes, message["To"]) == (["ben@example.org"], {}, "ben@example.org")
    store.unsubscribe("ben@example.org")
    assert write(store, [record, other], "ben@example.org")[0].recipients == ()
    assert store.resubscribe("Ben@example.org") == 1
    assert write(store, [record], "ben@example.org")[0].recipients == ["ben@example.org"]


def test_what_nobody_wants_is_done_with_and_not_written(
    store: Store, record: NotificationRecord, tmp_path: Path
) -> None:
    config = EmlDelivery(name="e", type="eml", folder=tmp_path / "out", to="ann@example.org")
    store.unsubscribe("ann@example.org", "frost")
    channel = EmlChannel(config, MailWriter(config, {}, store, LINKS))
    channel.open()
    sent = channel.deliver([DueDelivery(7, 0, record)])
    assert (sent.failures, sent.notes) == ({}, {7: "not sent: ann@example.org unsubscribed"})
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('url = "http://example.org/u"\nsecret_env = "S"', "line 2: url: expected an address such as https://"),
        ('url = "https://e.org"\nlisten = "8410"\nsecret_env = "S"', "line 3: listen: expected an address and a port"),
        ('url = "https://e.org"', "needs 'secret_env'"),
    ],
)
def test_a_mistake_in_the_section_is_told(tmp_path: Path, lines: str, expected: str) -> None:
    (tmp_path / "pipeline.toml").write_text(f"[unsubscribe]\n{lines}\n")
    with pytest.raises(ConfigError, match=expected):
        PipelineConfig.load(tmp_path / "pipeline.toml")


def test_an_address_is_confirmed_by_its_button_alone(store: Store, server: str) -> None:
    link = here(server, LINKS.confirmation("Ann@example.org"))
    page = httpx2.get(link)
    assert (page.status_code, store.address_confirmed_at("ann@example.org")) == (200, None)
    assert "ann@example.org is yours" in page.text
    assert httpx2.post(link, data={}).status_code == 400
    assert store.address_confirmed_at("ann@example.org") is None
    for _ in range(2):
        assert httpx2.post(link, data=ONE_CLICK).status_code == 200
    assert store.address_confirmed_at("ANN@example.org") is not None
    assert told(store) == set()


def test_an_address_that_must_be_confirmed_gets_no_e_mail_before(store: Store, record: NotificationRecord) -> None:
    both = ("Ann <ann@example.org>", "ben@example.org")
    mail, _ = write(store, [record], *both, confirm=True)
    assert mail == Mail("", b"", (), {0: "not sent: ann@example.org, ben@example.org not confirmed"})
    store.confirm_address("Ann@Example.org")
    assert write(store, [record], *both, confirm=True)[0].recipients == ["Ann <ann@example.org>"]
    store.unsubscribe("ann@example.org")
    assert write(store, [record], *both, confirm=True)[0].notes == {0: "not sent: ann@example.org unsubscribed"}
    assert write(store, [record], "eve@example.org")[0].recipients == ["eve@example.org"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('to = "a@b.c"\nconfirm = true', "line 4: 'confirm' needs [unsubscribe]"),
        ("confirm = true", "line 3: 'confirm' needs 'to'"),
        ('to = "a@b.c"\nconfirm = 1', "line 4: confirm: expected true or false"),
    ],
)
def test_a_mistake_about_confirming_is_told(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "pipeline.toml").write_text(f'[[owner]]\nname = "ann"\n{text}\n')
    with pytest.raises(ConfigError) as error:
        PipelineConfig.load(tmp_path / "pipeline.toml")
    assert expected in str(error.value)
