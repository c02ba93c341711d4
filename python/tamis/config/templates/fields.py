"""Names the templates and the fields that each may use, with samples to try it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

ALONE = ("subject.txt", "mail.txt", "mail.html", "webhook.json")
"""The templates that show one notification."""

TOGETHER = ("digest-subject.txt", "digest.txt", "digest.html")
"""The templates that show several notifications in one e-mail."""


class TemplateFields(dict[str, Any]):
    """Fields with fixed names: a template that asks for another has a mistake. Of other mappings it gets nothing."""


def sample(name: str, *, many: bool) -> dict[str, Any]:
    """Return the names that a template may use, with values for trying it.

    Args:
        name: the name of the template.
        many: whether every field has a value; else as few as possible.
    """
    link = "https://example.org/unsubscribe/WyJhbm4i.AAAA" if many else ""
    common = {"owner": "ann", "zone": "Europe/Berlin", "unsubscribe": link}
    one = _notification(many)
    if name in ALONE:
        return {**one, **common}
    notifications = [one, one] if many else [one]
    counts = [TemplateFields(query="frost", count=len(notifications))]
    return {"notifications": notifications, "count": len(notifications), "counts": counts, **common}


def _notification(many: bool) -> TemplateFields:
    at = datetime(2026, 11, 23, 12, 30, tzinfo=UTC)
    message: dict[str, Any] = {}
    if many:
        message = {"subject": "Garden & <frost>", "author": "James", "date": at, "to": ["ann@example.org"], "size": 7}
    return TemplateFields(
        id="147e032d8ae147e032d8ae147e032d8a",
        matched_at=at,
        query=TemplateFields(key="frost", version=1, text="subject LIKE '%frost%'", language="selector"),
        message=message,
        subject="Garden & <frost>" if many else "(no subject)",
        topic="mail.inbox" if many else "",
        body='Cover the garlic: "frost" & <ice>.\n' if many else "",
        excerpts=["Cover the *garlic*", "the *frost*"] if many else [],
        reasons=["subject LIKE '%frost%'  (Garden & <frost>)"] if many else [],
        source="inbox",
        partition="mail/a.mbox",
        offset=4711,
    )
