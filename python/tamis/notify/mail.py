"""Renders a notification as an e-mail: the query, why it matched, and the message.

Pure: the same record gives the same bytes.

Source: RFC 5322 (headers, Message-ID), RFC 2919 (List-Id)."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime

from tamis.adapters.properties import MAIL_PROPERTIES
from tamis.config.owners import OwnerConfig
from tamis.notify.content import excerpts, readable, why
from tamis.store import DueDelivery, NotificationRecord

BODY_CHARACTERS = 4000
"""Maximum length of the message's text in the e-mail."""

_HEADER_CHARACTERS = 200
_DIGEST_REASONS = 3
_LABEL_CHARACTERS = 100
_NOT_IN_LABEL = re.compile(r"[^A-Za-z0-9.-]+")
_NOT_IN_A_LINE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
NOT_IN_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""A character that neither plain mail nor XML can hold."""


def render_mail(record: NotificationRecord, sender: str, recipients: Sequence[str], domain: str) -> bytes:
    """Render the e-mail of a notification; the bytes are always the same, so that a duplicate can be recognised.

    Args:
        record: the notification.
        sender: for From.
        recipients: for To.
        domain: of the Message-ID, whose other half is the notification's id.

    Returns:
        ASCII with CRLF, for files and for SMTP.

    Raises:
        ValueError: `sender` or `recipients` cannot be written in a header.
    """
    message = EmailMessage(policy=policy.SMTP)
    message["From"] = sender
    message["To"] = ", ".join(recipients)
    message["Subject"] = _line(f"[tamis] {record.query_key}: {subject(record)}")
    message["Date"] = format_datetime(record.created_at)
    message["Message-ID"] = f"<{record.id}@{domain}>"
    message["List-Id"] = list_id(record.query_key, domain)
    message["X-Tamis-Query"] = _line(record.query_key)
    message["X-Tamis-Notification"] = record.id
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no holiday replies, please
    text = NOT_IN_TEXT.sub("\N{REPLACEMENT CHARACTER}", "\n".join(notification_text(record)))
    message.set_content(text, cte="quoted-printable")
    return message.as_bytes()


def render_digest(records: Sequence[NotificationRecord], sender: str, recipients: Sequence[str], domain: str) -> bytes:
    """Render several notifications as one e-mail; the same records give the same bytes.

    Args:
        records: at least one.
        sender: for From.
        recipients: for To.
        domain: of the Message-ID, whose other half is `digest_id`.

    Returns:
        As `render_mail`.

    Raises:
        ValueError: as `render_mail`.
    """
    of_query = Counter(record.query_key for record in records)
    counts = ", ".join(f"{key} ({count})" for key, count in of_query.most_common())
    message = EmailMessage(policy=policy.SMTP)
    message["From"] = sender
    message["To"] = ", ".join(recipients)
    message["Subject"] = _line(f"[tamis] {len(records)} notifications: {counts}")
    message["Date"] = format_datetime(max(record.created_at for record in records))
    message["Message-ID"] = f"<{digest_id(records)}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    text = NOT_IN_TEXT.sub("\N{REPLACEMENT CHARACTER}", "\n".join(_digest_text(records)))
    message.set_content(text, cte="quoted-printable")
    return message.as_bytes()


def render(
    records: Sequence[NotificationRecord], sender: str, recipients: Sequence[str], domain: str
) -> tuple[str, bytes]:
    """Render one notification as `render_mail` does, or several as `render_digest`; return its name and its bytes."""
    if len(records) == 1:
        return records[0].id, render_mail(records[0], sender, recipients, domain)
    return digest_id(records), render_digest(records, sender, recipients, domain)


def recipients_of(delivery: DueDelivery, recipients: Sequence[str], owners: Mapping[str, OwnerConfig]) -> Sequence[str]:
    """The addresses of the owner of its query, or those of the delivery if the owner has none."""
    owner = owners.get(delivery.owner)
    return owner.to if owner is not None and owner.to else recipients


def digest_id(records: Sequence[NotificationRecord]) -> str:
    """What names a digest: 32 hexadecimal digits of its notifications' ids."""
    return hashlib.sha256(" ".join(record.id for record in records).encode()).hexdigest()[:32]


def list_id(query: str, domain: str) -> str:
    """The List-Id of a query's e-mails, by which mail programs file them (RFC 2919).

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
    """What the message says of itself in one line: its subject, or its title."""
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
    yield f"  Place: {record.source}, {record.partition}, byte {record.offset}"
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
