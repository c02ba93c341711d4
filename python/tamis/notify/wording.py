"""Renders the text of a notification, or of a digest of several, from a template or the built-in text.

A notification must be delivered whatever its values are. So when a template fails, the built-in text is used, and a
note says why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamis.config.owners import OwnerConfig, find_owner
from tamis.config.templates import TemplateFields, templates_of
from tamis.notify.content import Marked, excerpts, why
from tamis.notify.mail import BODY_CHARACTERS, Words, subject, words_of
from tamis.store import NotificationRecord


@dataclass(frozen=True)
class Recipient:
    """The person who gets the e-mail.

    Attributes:
        owner: the owner of the queries; may be empty.
        zone: their time zone.
        templates: the folder of their templates, if there is one.
        unsubscribe: the link that ends such e-mails, if there is one.
    """

    owner: str = ""
    zone: str = "UTC"
    templates: Path | None = None
    unsubscribe: str = ""


def recipient_of(owners: Mapping[str, OwnerConfig], name: str, templates: Path | None) -> Recipient:
    """Return the recipient of an owner's notifications.

    Args:
        owners: those that are known, by name.
        name: the owner, as a query names them.
        templates: the folder of the delivery's templates; the owner's own come first.
    """
    owner = find_owner(owners, name)
    if owner is None:
        return Recipient(name, templates=templates)
    return Recipient(name, owner.time_zone, owner.templates or templates)


def words_for(records: Sequence[NotificationRecord], recipient: Recipient) -> tuple[Words, str | None]:
    """Return the text of an e-mail, and why a template failed, or None."""
    plain = words_of(records)
    if recipient.unsubscribe:
        plain = plain._replace(text=f"{plain.text}\n\n-- \nTo get no more of these e-mails: {recipient.unsubscribe}")
    if recipient.templates is None:
        return plain, None
    try:
        return _from_templates(records, recipient.templates, plain, recipient), None
    except Exception as error:  # noqa: BLE001 - see above
        return plain, _note(error)


def webhook_body(record: NotificationRecord, recipient: Recipient, plain: Any) -> tuple[bytes, str | None]:
    """Return the body of a request, and why the template failed, or None.

    Args:
        record: the notification.
        recipient: the recipient, with the folder of templates.
        plain: the body without a template, as a value for JSON.
    """
    if recipient.templates is None:
        return json.dumps(plain).encode(), None
    try:
        given = templates_of(recipient.templates).render("webhook.json", {**_fields(record), **_common(recipient)})
        return json.dumps(json.loads(given)).encode(), None
    except Exception as error:  # noqa: BLE001 - see above
        return json.dumps(plain).encode(), _note(error)


def _note(error: Exception) -> str:
    return f"in the built-in words, because a template failed: {' '.join(str(error).split())[:300]}"


def _from_templates(records: Sequence[NotificationRecord], folder: Path, plain: Words, recipient: Recipient) -> Words:
    templates, prefix = templates_of(folder), "digest-" if len(records) > 1 else ""
    context = {**(_digest_fields(records) if prefix else _fields(records[0])), **_common(recipient)}
    body = "digest" if prefix else "mail"

    def render(name: str, otherwise: str | None) -> str | None:
        return templates.render(name, context) if name in templates.names else otherwise

    line = render(f"{prefix}subject.txt", plain.subject) or ""
    return Words(" ".join(line.split()), render(f"{body}.txt", plain.text) or "", render(f"{body}.html", None))


def _common(recipient: Recipient) -> dict[str, Any]:
    return {"owner": recipient.owner, "zone": recipient.zone, "unsubscribe": recipient.unsubscribe}


def _fields(record: NotificationRecord) -> TemplateFields:
    """Return what a template sees of a notification."""
    reasons = why(record)
    body, cut = record.body or "", BODY_CHARACTERS
    ranges = [(start, min(end, cut)) for start, end in reasons.ranges if start < cut]
    try:
        properties = record.message_properties()
    except ValueError:
        properties = {}
    return TemplateFields(
        id=record.id,
        matched_at=record.created_at,
        query=TemplateFields(
            key=record.query_key,
            version=record.query_version,
            text=record.query_text,
            language=record.query_language,
        ),
        message=properties,
        subject=subject(record),
        topic=record.topic,
        body=Marked(body[:cut] + ("\n[...]" if len(body) > cut else ""), ranges),
        excerpts=excerpts(body, reasons.ranges),
        reasons=list(reasons.reasons),
        source=record.source,
        partition=record.partition,
        offset=record.offset,
    )


def _digest_fields(records: Sequence[NotificationRecord]) -> dict[str, Any]:
    counts = Counter(record.query_key for record in records).most_common()
    return {
        "notifications": [_fields(record) for record in records],
        "count": len(records),
        "counts": [TemplateFields(query=key, count=count) for key, count in counts],
    }
