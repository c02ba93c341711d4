"""A notification is rendered as an e-mail."""

from __future__ import annotations

from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tamis.notify.content import excerpts, why
from tamis.notify.mail import render
from tamis.store import NotificationRecord

HEADERS = [
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "List-Id",
    "X-Tamis-Query",
    "X-Tamis-Notification",
    "Auto-Submitted",
    "Content-Type",
    "Content-Transfer-Encoding",
    "MIME-Version",
]


def _render(record: NotificationRecord) -> tuple[bytes, EmailMessage]:
    recipients = ["ann@example.org", "Bob <bob@example.org>"]
    _, content = render([record], "tamis@example.org", recipients, "tamis.invalid")
    return content, message_from_bytes(content, policy=policy.default)


def test_it_tells_the_query_why_and_the_message(record: NotificationRecord) -> None:
    _, mail = _render(record)
    assert mail["Subject"] == "[tamis] frost: Garden notes"
    assert mail["To"] == "ann@example.org, Bob <bob@example.org>"
    assert mail["Message-ID"] == f"<{record.id}@tamis.invalid>"
    assert mail["X-Tamis-Query"] == "frost"
    assert mail["X-Tamis-Notification"] == record.id
    text = mail.get_content()
    for expected in (
        "The query 'frost' matched a message.",
        "NEAR(body, 'garlic', 'frost', 5) AND author = 'James'",
        "author = 'James'  (James)",
        "> Plant the *garlic* before the first *frost*.",
        "Author: James",
        "Date: 2002-08-22 18:26:25 UTC",
        "Place: inbox, mail/a.mbox, byte 4711",
        "Plant the garlic\nbefore the first frost.\n",
    ):
        assert expected in text.replace("\r\n", "\n")


def test_it_is_the_same_each_time(record: NotificationRecord) -> None:
    assert _render(record)[0] == _render(record)[0]


def test_a_query_that_can_be_read_no_more_is_delivered_without_reasons(record: NotificationRecord) -> None:
    _, mail = _render(replace(record, query_text="a >> 3", properties="not json"))
    assert "Why:" not in mail.get_content()
    assert mail["Subject"] == "[tamis] frost: (no subject)"


def test_a_long_body_is_cut(record: NotificationRecord) -> None:
    _, mail = _render(replace(record, body="word " * 10_000))
    assert "[...]" in mail.get_content()
    assert len(mail.get_content()) < 6000


ODD = st.text(st.characters(), max_size=300) | st.sampled_from(
    ["a\r\nBcc: all@example.org", "a\nX-Evil: 1", "=?utf-8?q?x?=", "\u2028Bcc: x", "é" * 300, "x" * 2000, "\ud800"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(ODD, ODD, ODD)
def test_nothing_in_a_message_makes_another_header(
    record: NotificationRecord, key: str, subject: str, body: str
) -> None:
    import json

    odd = replace(
        record, query_key=key, body=body, topic=key, properties=json.dumps({"subject": subject, "author": body})
    )
    content, mail = _render(odd)
    assert list(mail.keys()) == HEADERS
    assert content.isascii()
    assert all(len(line) <= 998 for line in content.split(b"\r\n"))
    assert b"\n" not in content.replace(b"\r\n", b"")
    assert mail["Message-ID"] == f"<{record.id}@tamis.invalid>"
    assert "The query '" in mail.get_content()


def test_what_matched_is_marked(record: NotificationRecord) -> None:
    assert why(record).ranges == ((10, 16), (34, 39))


def test_excerpts_that_touch_are_one_and_there_are_three_at_most() -> None:
    body = "".join(f"{number:<9} " for number in range(200))  # ten characters each
    (near,) = excerpts(body, [(0, 1), (20, 21)])
    assert near == "*0* 1 *2* 3 4 5 6 7 8 9 1 ..."
    far = excerpts(body, [(start, start + 2) for start in (0, 300, 600, 900)])
    assert len(far) == 3
    assert far[1].startswith("... ")
    assert excerpts("nothing", []) == []


@given(st.text(max_size=400), st.lists(st.tuples(st.integers(0, 400), st.integers(1, 10)), max_size=8))
def test_an_excerpt_without_its_marks_is_in_the_text(text: str, wanted: list[tuple[int, int]]) -> None:
    text = text.replace("*", "+")
    ranges, at = [], 0
    for start, length in sorted(wanted):
        if start >= at and start + length <= len(text):
            ranges.append((start, start + length))
            at = start + length
    flat = " ".join(text.split())
    for line in excerpts(text, ranges):
        inner = line.replace("*", " ").removeprefix("... ").removesuffix(" ...")
        assert "".join(inner.split()) in "".join(flat.split())
