from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tamis.adapters.mail import message, parts
from tamis.adapters.mail.message import MailError, read_mail
from tamis.adapters.properties import MAIL_PROPERTIES


def body_of(raw: bytes) -> str | None:
    return read_mail(raw).body


def test_a_mail_has_the_properties_of_the_table() -> None:
    assert list(read_mail(b"From: a@b\n\nHello").properties) == [known.name for known in MAIL_PROPERTIES]


def test_the_properties_are_named_as_semantics_says() -> None:
    message = read_mail(
        b"From: Ren\xc3\xa9 =?iso-8859-1?Q?Andr=E9?= <rene@example.org>\r\n"
        b"Date: Thu, 22 Aug 2002 18:26:25 +0700\r\n"
        b"Subject: =?utf-8?B?R3LDvMOf?=\r\n =?utf-8?B?ZQ==?=\r\n"
        b"Newsgroups: rec.gardens, sci.bio\r\n"
        b"List-Id: The Gardeners <gardeners.example.org>\r\n"
        b"Message-Id: <1@example.org>\r\n"
        b"Received: one\r\nreceived: two\r\n"
        b"\r\nHello\r\n",
        source="inbox",
    )
    assert message.properties == {
        "author": "René André <rene@example.org>",
        "date": datetime(2002, 8, 22, 11, 26, 25, tzinfo=UTC),
        "subject": "Grüße",
        "source": "inbox",
        "newsgroup": ["rec.gardens", "sci.bio"],
        "list": "gardeners.example.org",
        "message_id": "<1@example.org>",
        "header": {
            "From": ["René André <rene@example.org>"],
            "Date": ["Thu, 22 Aug 2002 18:26:25 +0700"],
            "Subject": ["Grüße"],
            "Newsgroups": ["rec.gardens, sci.bio"],
            "List-Id": ["The Gardeners <gardeners.example.org>"],
            "Message-Id": ["<1@example.org>"],
            "Received": ["one", "two"],
        },
    }
    assert message.body == "Hello\n"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"Mailing-List: list gardeners@groups.example; contact owner@groups.example", "gardeners@groups.example"),
        (b"X-Mailing-List: <dev@example.org> archive/latest/3", "dev@example.org"),
        (b"List-Id: plain.example.org", "plain.example.org"),
        (b"Subject: none", None),
    ],
)
def test_a_list_is_known_by_its_identifier_or_by_what_older_lists_write(header: bytes, expected: str | None) -> None:
    assert read_mail(header + b"\n\n").properties["list"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"Mon, 05 Apr 93 18:01:16 GMT", datetime(1993, 4, 5, 18, 1, 16, tzinfo=UTC)),
        (b"Thu, 22 Aug 2002 16:11:27 -0000", datetime(2002, 8, 22, 16, 11, 27, tzinfo=UTC)),
        (b"22 Aug 2002 16:11:27 PDT", datetime(2002, 8, 22, 23, 11, 27, tzinfo=UTC)),
        (b"Someday", None),
        (b"31 Dec 9999 23:59:59 -2359", None),
        (b"Thu, 99 Aug 2002 16:11:27 -0000", None),
        (b"1" * 100_000, None),
    ],
)
def test_a_date_is_a_moment_in_utc_or_nothing(text: bytes, expected: datetime | None) -> None:
    assert read_mail(b"Date: " + text + b"\n\n").properties["date"] == expected


def test_the_first_plain_text_is_the_body() -> None:
    raw = (
        b'Content-Type: multipart/mixed; boundary="out"\n\npreamble\n'
        b"--out\nContent-Type: multipart/alternative; boundary=in\n\n"
        b"--in\nContent-Type: text/html\n\n<p>HTML</p>\n"
        b"--in\nContent-Type: text/plain; charset=utf-8\n\nPlain\n--in--\n"
        b"--out\nContent-Type: text/plain\nContent-Disposition: attachment\n\nAttached\n--out--\n"
    )
    assert body_of(raw) == "Plain"


def test_html_serves_where_there_is_no_plain_text() -> None:
    assert body_of(b"Content-Type: text/html; charset=utf-8\n\n<p>Caf\xc3\xa9</p><p>au lait</p>") == "Café\nau lait"


def test_a_blank_plain_part_gives_way_to_html() -> None:
    raw = (
        b"Content-Type: multipart/alternative; boundary=b\n\n--b\n\n \n--b\nContent-Type: text/html\n\n<b>H</b>i\n--b--"
    )
    assert body_of(raw) == "Hi"


@pytest.mark.parametrize(
    ("encoding", "blank"), [(b"quoted-printable", b"=20"), (b"base64", b"DQo="), (b"quoted-printable", b"=C2=A0")]
)
def test_a_plain_part_that_is_blank_only_once_decoded_gives_way_too(encoding: bytes, blank: bytes) -> None:
    raw = (
        b"Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/plain; charset=utf-8\n"
        b"Content-Transfer-Encoding: "
        + encoding
        + b"\n\n"
        + blank
        + b"\n--b\nContent-Type: text/html\n\n<b>H</b>i\n--b--"
    )
    assert body_of(raw) == "Hi"


def test_the_text_of_an_attached_message_comes_after_that_of_the_message_itself() -> None:
    attached = b"--b\nContent-Type: message/rfc822\n\nSubject: inner\n\nInner\n"
    html = b"--b\nContent-Type: text/html\n\nOuter\n"
    head = b"Content-Type: multipart/mixed; boundary=b\n\n"
    assert body_of(head + attached + html + b"--b--") == "Outer"
    assert body_of(head + attached + b"--b--") == "Inner"


def test_a_message_without_text_has_no_body() -> None:
    assert body_of(b"Content-Type: image/png\nContent-Transfer-Encoding: base64\n\niVBORw0KGgo=\n") is None


@pytest.mark.parametrize(
    ("encoding", "content", "expected"),
    [
        (b"quoted-printable", b"Caf=C3=A9 =\nau lait =ZZ", "Café au lait =ZZ"),
        (b"base64", b"Q2Fm\nw6k=\n", "Café"),
        (b"base64", b"Q2Fm!w6k", "Café"),
        (b"base64", b"Q2Fmw6kgQ", "Café "),
        (b"base64", b"Q2Fmw6k=IG9r", "Café ok"),
        (b"base64", b"Q2Fmw6k=\nUnsubscribe\n", "Café"),
        (b"base64", b"Q2Fmw6k=\n____________\nGardeners mailing list\nhttps://example.org\n", "Café"),
        (b"base64", b"Q2Fmw6lz\n____________\nGardeners mailing list\nhttps://example.org\n", "Cafés"),
        (b"base64", b"Q2Fmw6lz\nGardeners mailing list\n", "Cafés"),
        (b"base64", b"Q2Fm w6lz\nQ2Fm w6k=\n", "CafésCafé"),
        (b"x-uuencode", b"begin 644 a.txt\n%2&5L;&\\\n`\nend\n", "Hello"),
        (b"unheard-of", b"as it is", "as it is"),
    ],
)
def test_broken_transfer_encodings_give_what_can_be_had(encoding: bytes, content: bytes, expected: str) -> None:
    raw = b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: " + encoding + b"\n\n" + content
    assert body_of(raw) == expected


@pytest.mark.parametrize(
    ("charset", "content", "expected"),
    [
        ("iso-8859-1", b"Caf\xe9 \x93x\x94", "Café “x”"),
        ("us-ascii", b"Caf\xc3\xa9", "Café"),
        ("us-ascii", b"Caf\xe9", "Café"),
        ("no-such-charset", b"Caf\xc3\xa9", "Café"),
        ("utf-8", b"Caf\xe9", "Café"),
        ("utf-8", "Die Straße, über die wir gehen, ist schön: äöü äöü äöü äöü äöü".encode() + b"\xff", None),
        ("gb2312", "中文".encode("gb18030"), "中文"),
        ("utf-7", b"+2D0-", "\N{REPLACEMENT CHARACTER}"),
        ("punycode", b"a" * 100_000, "a" * 100_000),
        ("base64", b"abc", "abc"),
        ("x\x00y", b"abc", "abc"),
    ],
)
def test_a_wrong_charset_gives_way_to_the_likely_one(charset: str, content: bytes, expected: str | None) -> None:
    body = body_of(f"Content-Type: text/plain; charset={charset}\n\n".encode() + content)
    if expected is None:  # one damaged byte does not change the character set of the others
        expected = content[:-1].decode() + "\N{REPLACEMENT CHARACTER}"
    assert body == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b"=?utf-8?Q?a_b?=  =?utf-8?Q?c?= d", "a bc d"),
        (b"=?utf-8?Q?=C3?= =?utf-8?Q?=A9?=", "é"),
        (b"=?utf-8*en?q?x?=", "x"),
        (b"=?utf-8?B?not base64 at all!?=", None),
        (b"=?bad?X?y?= rest", "=?bad?X?y?= rest"),
        (b"=?big5?Q?=A7=DA?=", "我"),
        (b"=?utf-8?Q?a=0Ab?=", "a b"),
        (b"folded\n\tover\n lines", "folded\tover lines"),
    ],
)
def test_encoded_words_are_decoded_however_they_are_written(written: bytes, expected: str | None) -> None:
    subject = read_mail(b"Subject: " + written + b"\n\n").properties["subject"]
    assert subject == expected if expected is not None else "\n" not in subject


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty"),
        (b"\r\n \n", "empty"),
        (b"Permission is hereby granted, free of charge\n\nto any person", "no header"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "no header"),
        (b"X: " + b"x" * (parts.HEADER_BYTES_MAX + 1), "header is longer"),
        (b"A: b\n" * (message.HEADER_COUNT_MAX + 1) + b"\n", "header lines"),
    ],
)
def test_what_is_no_message_is_refused_with_a_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(MailError, match=reason):
        read_mail(raw)


def test_a_byte_order_mark_and_empty_lines_before_the_header_are_passed_over() -> None:
    assert read_mail(b"\xef\xbb\xbf\r\n\nSubject: x\n\n").properties["subject"] == "x"
    assert read_mail(b"From someone Thu Aug 22 12:36:23 2002\nSubject: x\n\n").properties["subject"] == "x"


def test_a_message_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message, "MESSAGE_BYTES_MAX", 100)
    with pytest.raises(MailError, match="101 bytes"):
        read_mail(b"A: b\n\n" + b"x" * 95)


@pytest.mark.parametrize(
    "raw",
    [
        b"".join(b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (n, n) for n in range(2_000)) + b"\ndeep",
        b"Content-Type: message/rfc822\n\n" * 2_000 + b"deep",
        b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\n\n" * 50_000,
        b"Subject: " + b"=?a?q?" * 100_000 + b"\n\n",
        b"Subject: " + b"=?utf-8?q?x?= " * 50_000 + b"\n\n",
        b'Content-Type: text/plain; x="' + b";" * 500_000 + b"\n\nhi",
        b"Content-Type: text/html\n\n" + b"<div>" * 200_000,
        b"Content-Type: text/html\n\n" + b"<unheard a='<'>" * 200_000,
        b"Content-Type: text/html\n\n" + b"<a " * 200_000,
        b"Content-Type: text/html\n\n" + b"<!--" * 200_000,
        b"Content-Type: text/html\n\n" + b"<script>" * 200_000,
        b"Content-Type: text/html\n\n" + b"&" * 500_000,
        b'Content-Type: text/html\n\n<a "' + b"'\"" * 200_000,
        b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b" * 300_000,
    ],
    ids=lambda raw: repr(raw[:45]),
)
def test_no_message_takes_long(raw: bytes) -> None:
    started = time.process_time()
    with suppress(MailError):
        read_mail(raw)
    assert time.process_time() - started < 2.0


ZIP = b"Content-Type: application/zip\n\n"


def nested(levels: int, content: bytes) -> bytes:
    """Return a message of `levels` multiparts, each in the one before."""
    heads = (b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (n, n) for n in range(levels))
    return b"Subject: deep\n" + b"".join(heads) + content


@pytest.mark.serial  # compares processor times
@pytest.mark.parametrize("line", [b"x" * 79 + b"\n", b"--\n"])
def test_the_time_does_not_grow_with_the_depth(line: bytes) -> None:
    """A walk that searches or copies the rest at each level takes 100 times as long."""
    attachment = ZIP + line * ((16 << 20) // len(line))

    def cpu_s(depth: int) -> float:
        raw = nested(depth, attachment)
        started = time.process_time()
        with suppress(MailError):  # a million lines of dashes are beyond a bound
            assert body_of(raw) is None
        return time.process_time() - started

    assert cpu_s(99) < 10 * max(cpu_s(1), 0.1)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (nested(101, b"\ndeep"), "no text in the first 100 levels"),
        (b"Content-Type: message/rfc822\n\n" * 102 + b"deep", "no text in the first 100 levels"),
        (nested(1, b"\n\n--0\n" * 10_001 + b"\nlast"), "no text in the first 10,000 parts"),
        (nested(1, ZIP + b"--x\n" * 21 + b"--0\n\nlast"), "no text in the first 20 lines that begin with '--'"),
    ],
    ids=["levels", "messages", "parts", "lines"],
)
def test_a_message_without_text_before_a_bound_is_a_dead_letter_that_names_it(
    raw: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "DASHED_LINES_MAX", 20 if "lines" in reason else 1_000_000)
    with pytest.raises(MailError, match=re.escape(reason)):
        read_mail(raw)


def test_what_was_read_before_a_bound_counts() -> None:
    shallow = b"Content-Type: multipart/mixed; boundary=out\n\n--out\n"
    html = b"Content-Type: text/html\n\n<p>near</p>\n--out\n"
    assert body_of(shallow + html + nested(200, b"\ndeep")) == "near"
    assert body_of(shallow + nested(200, b"\ndeep") + b"\n--out\n\nbeside\n--out--") == "beside"
    assert body_of(nested(99, b"\ndeep")) == "deep"


Tree = list["Tree"] | bytes
TREES = st.recursive(
    st.sampled_from([b"text", b"", b"a\n\nb", b"--", b"--x", b"-- 1", b"--1x\n--9--\nc"]),
    lambda below: st.lists(below, min_size=1, max_size=3),
    max_leaves=12,
)


def leaves_of(tree: Tree) -> list[bytes]:
    return [tree] if isinstance(tree, bytes) else [leaf for below in tree for leaf in leaves_of(below)]


def mime_of(tree: Tree, closed: bool, names: Iterator[int]) -> bytes:
    """Return an entity that is the tree, with a boundary of its own for each multipart."""
    if isinstance(tree, bytes):
        return b"Content-Type: text/x\n\n" + tree
    name = b"%d" % next(names)
    inside = b"".join(b"--" + name + b"\n" + mime_of(below, closed, names) + b"\n" for below in tree)
    return (
        b"Content-Type: multipart/mixed; boundary="
        + name
        + b"\n\n"
        + inside
        + (b"--" + name + b"--" if closed else b"")
    )


@given(TREES, st.booleans())
def test_the_parts_of_any_tree_are_its_leaves(tree: Tree, closed: bool) -> None:
    raw = mime_of([tree, b"end"], closed, itertools.count(100))
    headers, content = parts.read_headers(raw, 0, len(raw))
    found = [part.content for part in parts.TextParts(raw, parts.Entity(headers, content))]
    assert [text.rstrip(b"\n") for text in found] == leaves_of([tree, b"end"])


LINES = st.sampled_from(
    [
        b"Content-Type: multipart/mixed; boundary=b",
        b"Content-Type: text/html; charset=utf-16",
        b"Content-Type: message/rfc822",
        b"Content-Type: text/plain; charset*=utf-8''x",
        b"Content-Transfer-Encoding: base64",
        b"Content-Transfer-Encoding: x-uuencode",
        b"Content-Disposition: attachment",
        b"Subject: =?utf-7?b?+2D0?=",
        b"Date: Thu, 22 Aug 99999 18:26:25 +9999",
        b": x",
        b"--b",
        b"--b--",
        b"",
        b"begin 644 x",
        b"<p>\x00\xff</p>",
    ]
)


@given(st.one_of(st.binary(max_size=300), st.lists(st.one_of(LINES, st.binary(max_size=20))).map(b"\n".join)))
@example(b"\x85: \n\n")
@example(b"A\x0c: b\x1c\n\n")
@example(b"Content-Type: \xff/\xff; boundary=\xff\n\n--\xff\n\nx")
def test_bytes_are_read_or_refused_never_anything_else(raw: bytes) -> None:
    try:
        message = read_mail(raw, source="x")
    except MailError as error:
        assert str(error)
        return
    for text in [message.body or "", *(value for values in message.properties["header"].values() for value in values)]:
        text.encode("utf-8")  # no half characters
    assert message.properties["header"]
