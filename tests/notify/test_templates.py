"""E-mails, digests and webhooks say what their templates say."""

from __future__ import annotations

import json
from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tamis.config.deliveries import EmlDelivery
from tamis.config.owners import OwnerConfig
from tamis.config.templates import Templates
from tamis.errors import ConfigError
from tamis.notify.channels.eml import EmlChannel
from tamis.notify.content import Marked, excerpts
from tamis.notify.mail_writer import Mail, MailWriter
from tamis.notify.wording import Recipient, webhook_body
from tamis.store import DueDelivery, NotificationRecord

FILES = {
    "subject.txt": "{{ query.key }}\n at {{ matched_at | date('%H:%M') }}",
    "mail.txt": "{{ owner }}: {{ body }}{{ message.list }}",
    "mail.html": "<p>{{ body }}</p>{% for it in excerpts %}<li>{{ it }}</li>{% endfor %}",
    "digest-subject.txt": "{{ count }} for {{ owner }}",
    "digest.txt": "{% for it in notifications %}{{ it.subject }}; {% endfor %}{{ counts[0].query }}",
    "webhook.json": '{"text": {{ subject | tojson }}, "body": {{ body | tojson }}}',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "words"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def write(records: list[NotificationRecord], folder: Path, **owner: object) -> tuple[Mail, EmailMessage]:
    config = EmlDelivery(name="e", type="eml", folder=folder / "out", templates=folder)
    owners = {"ann": OwnerConfig(name="ann", time_zone="Europe/Berlin", **owner)}
    due = [DueDelivery(number, 0, record, owner="ann") for number, record in enumerate(records)]
    mail = MailWriter(config, owners).write(due)
    assert MailWriter(config, owners).write(due) == mail  # the same bytes, so that a duplicate can be recognised
    return mail, message_from_bytes(mail.content, policy=policy.default)


def part(message: EmailMessage, kind: str) -> str:
    body = message.get_body((kind,))
    assert body is not None
    return body.get_content().replace("\r\n", "\n")


def test_an_e_mail_says_what_its_templates_say_in_its_owner_s_time(record: NotificationRecord, folder: Path) -> None:
    mail, message = write([replace(record, body="Plant <b> garlic\nbefore frost & ice.")], folder)
    assert (mail.notes, message["Subject"]) == ({}, "frost at 13:00")
    assert message["Message-ID"] == f"<{record.id}@tamis.invalid>"
    assert part(message, "plain") == "ann: Plant <b> *garlic*\nbefore *frost* & ice.\n"
    assert part(message, "html") == (
        "<p>Plant &lt;b&gt; <mark>garlic</mark>\nbefore <mark>frost</mark> &amp; ice.</p>"
        "<li>Plant &lt;b&gt; <mark>garlic</mark> before <mark>frost</mark> &amp; ice.</li>\n"
    )


def test_a_digest_has_templates_of_its_own(record: NotificationRecord, folder: Path) -> None:
    mail, message = write([record, replace(record, id="0" * 31 + "2")], folder)
    assert message["Subject"] == "2 for ann"
    assert message["Message-ID"] == f"<{mail.name}@tamis.invalid>"
    assert part(message, "plain") == "Garden notes; Garden notes; frost\n"
    assert message.get_body(("html",)) is None


def test_an_owner_may_have_templates_of_their_own(record: NotificationRecord, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mail.txt").write_text("mine")
    _, message = write([record], folder, templates=tmp_path)
    assert message["Subject"] == "[tamis] frost: Garden notes"
    assert part(message, "plain") == "mine\n"


def test_what_a_template_cannot_say_is_said_in_the_built_in_words(record: NotificationRecord, folder: Path) -> None:
    (folder / "mail.txt").write_text("{% if message.size %}{{ 700 / (message.size - 8) }}{% endif %}")
    odd = replace(record, properties='{"size": 8}')
    mail, message = write([odd], folder)
    assert mail.notes[0] == "in the built-in words, because a template failed: division by zero"
    assert part(message, "plain").startswith("The query 'frost' matched a message.")
    channel = EmlChannel(EmlDelivery(name="e", type="eml", folder=folder / "out", templates=folder))
    channel.open()
    sent = channel.deliver([DueDelivery(1, 0, odd)])
    assert (sent.failures, sent.notes) == ({}, {1: mail.notes[0]})
    assert [path.name for path in (folder / "out").iterdir()] == [f"{record.id}.eml"]


def test_a_webhook_says_what_its_template_says(record: NotificationRecord, folder: Path) -> None:
    body, note = webhook_body(record, Recipient(templates=folder), {"plain": True})
    assert json.loads(body) == {"text": "Garden notes", "body": "Plant the *garlic*\nbefore the first *frost*.\n"}
    assert note is None
    assert webhook_body(record, Recipient(), {"plain": True}) == (b'{"plain": true}', None)


TEXT = st.text(st.sampled_from("ab <&\n*"), max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXT, st.lists(st.integers(0, 60), max_size=8))
def test_marks_change_nothing_but_add_themselves(text: str, places: list[int]) -> None:
    ends = sorted({min(place, len(text)) for place in places})
    ranges = [(a, b) for a, b in zip(ends[::2], ends[1::2], strict=False) if text[a:b].strip()]
    marked = Marked(text, ranges)
    bare = marked.__html__().replace("<mark>", "").replace("</mark>", "")
    assert bare.replace("&lt;", "<").replace("&amp;", "&") == text
    assert marked.__html__().count("<mark>") == len(ranges)
    assert len(marked) == len(text) + 2 * len(ranges)
    for line in excerpts(text, ranges):
        assert str(line) == " ".join(line.split())
        assert "".join(line.replace("*", "").split()) in "".join(text.replace("*", "").split())


ENDLESS = {
    "loops in loops": "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}",
    "a macro that calls itself twice": "{% macro f(n) %}{% if n %}"
    "{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "a text that doubles": "{% set x = 'ab' %}" + "{% set x = x ~ x %}" * 60,
    "a sum that doubles": "{% set x = 'ab' %}" + "{% set x = x + x %}" * 60,
    "a list that doubles": "{% set x = [1] %}" + "{% set x = x + x %}" * 60,
    "lists in lists": "{% set x = [1] %}" + "{% set x = [x, x] %}" * 60 + "{{ x }}",
    "lists in lists as JSON": "{% set x = [1] %}" + "{% set x = [x, x] %}" * 60 + "{{ x | tojson }}",
    "a number that squares": "{% set ns = namespace(x=3) %}"
    "{% for a in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "replacing": "{% set x = 'abcdefgh' %}" + "{% set x = x | replace('', x) %}" * 9,
    "joining": "{% set x = 'abcdefgh' %}" + "{% set x = [x, x, x, x] | join(x) %}" * 30,
    "a width": "{{ 'a'.ljust(10000000000) }}",
    "a format": "{{ '%10000000000d' % 1 }}",
    "another format": "{{ '{:10000000000}'.format(1) }}",
    "words without end": "{{ lipsum(n=10000000) }}",
    "files that include themselves": "{% include 'mail.txt' %}{% include 'mail.txt' %}",
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS.keys())
def test_a_template_that_would_take_for_ever_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mail.txt").write_text(text)
    with pytest.raises(ConfigError, match="mail.txt"):
        Templates(tmp_path)


def test_a_large_digest_has_steps_enough(tmp_path: Path, record: NotificationRecord) -> None:
    (tmp_path / "digest.txt").write_text(
        "{% for one in notifications %}{{ loop.index }}: {{ one.subject ~ one.body | truncate(80) }}\n"
        "{% for text in one.excerpts %}{{ text | replace('\n', ' ') }}{% endfor %}{% endfor %}"
    )
    records = [replace(record, id=f"{number:032x}", body="the frost " * 400) for number in range(500)]
    mail, message = write(records, tmp_path)
    assert mail.notes == {}
    assert "500: " in part(message, "plain")
