"""Renders a notification as an e-mail: the query, why it matched, and the message.

Pure: the same record gives the same bytes.

Source: RFC 5322 (headers, Message-ID), RFC 2919 (List-Id), RFC 8058 (one-click unsubscribe)."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime
from typing import NamedTuple

from tamis.adapters.properties import MAIL_PROPERTIES
from tamis.notify.content import excerpts, readable, why
from tamis.store import NotificationRecord, place_text

BODY_CHARACTERS = 4000
"""Maximum length of the message's text in the e-mail."""

_HEADER_CHARACTERS = 200
_LINK_CHARACTERS_MAX = 900  # a line of an e-mail has at most 998
_DIGEST_REASONS = 3
_LABEL_CHARACTERS = 100
_NOT_IN_LABEL = re.compile(r"[^A-Za-z0-9.-]+")
_NOT_IN_A_LINE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
NOT_IN_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""A character that neither plain mail nor XML can hold."""


class Words(NamedTuple):
    """The content of an e-mail."""

    subject: str
    text: str
    html: str | None = None


def words_of(records: Sequence[NotificationRecord]) -> Words:
    """Return the text of one notification, or of a digest of several."""
    if len(records) == 1:
        (record,) = records
        return Words(f"[tamis] {record.query_key}: {subject(record)}", "\n".join(notification_text(record)))
    of_query = Counter(record.query_key for record in records)
    counts = ", ".join(f"{key} ({count})" for key, count in of_query.most_common())
    return Words(f"[tamis] {len(records)} notifications: {counts}", "\n".join(_digest_text(records)))


def render(
    records: Sequence[NotificationRecord],
    sender: str,
    recipients: Sequence[str],
    domain: str,
    words: Words | None = None,
    unsubscribe: str = "",
) -> tuple[str, bytes]:
    """Render the e-mail of a notification, or the digest of several.

    The same arguments give the same bytes, so that a duplicate can be recognised.

    Args:
        records: the notifications, at least one.
        sender: the address in From.
        recipients: the addresses in To.
        domain: the right half of the Message-ID; the left half is the notification's id, or `digest_id`.
        words: what it says; default: `words_of`.
        unsubscribe: the link that ends such e-mails with one click, if there is one.

    Returns:
        Its name; and ASCII with CRLF, for files and for SMTP.

    Raises:
        ValueError: `sender` or `recipients` cannot be written in a header.
    """
    words = words or words_of(records)
    name = records[0].id if len(records) == 1 else digest_id(records)
    message = EmailMessage(policy=policy.SMTP)
    message["From"] = sender
    message["To"] = ", ".join(recipients)
    message["Subject"] = _line(words.subject)
    message["Date"] = format_datetime(max(record.created_at for record in records))
    message["Message-ID"] = f"<{name}@{domain}>"
    if len(records) == 1:
        message["List-Id"] = list_id(records[0].query_key, domain)
        message["X-Tamis-Query"] = _line(records[0].query_key)
        message["X-Tamis-Notification"] = name
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no automatic replies
    message.set_content(_printable(words.text), cte="quoted-printable")
    if words.html is not None:
        message.add_alternative(_printable(words.html), subtype="html", cte="quoted-printable")
        message.set_boundary(f"=_{name}")  # the default one is random; quoted-printable text never has "=_"
    return name, _one_click(unsubscribe) + message.as_bytes()


def _one_click(link: str) -> bytes:
    """Return the headers of RFC 8058, written by hand: the library folds a long link into something else."""
    if not link or len(link) > _LINK_CHARACTERS_MAX:
        return b""
    return f"List-Unsubscribe: <{link}>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n".encode("ascii")


def _printable(text: str) -> str:
    return NOT_IN_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


def digest_id(records: Sequence[NotificationRecord]) -> str:
    """Return the name of a digest: 32 hexadecimal digits of its notifications' ids."""
    return hashlib.sha256(" ".join(record.id for record in records).encode()).hexdigest()[:32]


def list_id(query: str, domain: str) -> str:
    """Return the List-Id of a query's e-mails, by which mail programs file them (RFC 2919).

    >>> list_id("garlic & frost", "example.org")
    '<garlic-frost.tamis.example.org>'
    """
    label = _NOT_IN_LABEL.sub("-", query).strip("-.")[:_LABEL_CHARACTERS] or "query"
    return f"<{label}.tamis.{domain}>"


def _digest_text(records: Sequence[NotificationRecord]) -> Iterator[str]:
    yield f"{len(records)} notifications, the oldest first. `tamis outbox show ID` shows each in full."
    for number, record in enumerate(records, 1):
        reasons = why(record)
        yield ""
        yield f"{number}. {_line(subject(record))}"
        yield f"   query '{record.query_key}', matched {readable(record.created_at)}, ID {record.id[:12]}"
        yield from (f"   {reason}" for reason in reasons.reasons[:_DIGEST_REASONS])
        yield from (f"   > {excerpt}" for excerpt in excerpts(record.body or "", reasons.ranges)[:1])


def _line(text: str) -> str:
    """`text` on one line that a header can hold; it never begins another header."""
    line = _NOT_IN_A_LINE.sub(" ", text).strip()
    return line if len(line) <= _HEADER_CHARACTERS else line[: _HEADER_CHARACTERS - 3] + "..."


def subject(record: NotificationRecord) -> str:
    """Return the message in one line: its subject, or its title."""
    try:
        properties = record.message_properties()
    except ValueError:
        properties = {}
    named = properties.get("subject") or properties.get("title")
    return str(named) if named else "(no subject)"


def notification_text(record: NotificationRecord) -> Iterator[str]:
    """Yield the text of a notification: the query, why it matched, and the message."""
    reasons = why(record)
    body = record.body or ""
    yield f"The query '{record.query_key}' matched a message."
    yield ""
    yield f"Query (version {record.query_version}, {record.query_language}):"
    yield f"  {record.query_text}"
    if reasons.reasons or reasons.ranges:
        yield ""
        yield "Why:"
        yield from (f"  {reason}" for reason in reasons.reasons)
        yield from (f"  > {excerpt}" for excerpt in excerpts(body, reasons.ranges))
    yield ""
    yield "Message:"
    yield from _headers(record)
    yield f"  Place: {place_text(record.source, record.partition, record.offset, record.digest)}"
    yield ""
    yield body if len(body) <= BODY_CHARACTERS else body[:BODY_CHARACTERS] + "\n[...]"


def _headers(record: NotificationRecord) -> Iterator[str]:
    if record.topic:
        yield f"  Topic: {_line(record.topic)}"
    try:
        properties = record.message_properties()
    except ValueError:
        return
    for name, _, label in MAIL_PROPERTIES:
        if label and (value := properties.get(name)) not in (None, "", []):
            yield f"  {label}: {_line(readable(value))}"
