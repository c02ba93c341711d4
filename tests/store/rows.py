"""Makes rows for the store as the pipeline does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tamis.query import QuerySpec
from tamis.store import BatchResult, DeadLetter, MessageRow, Notification, Store, notification_id


def message(offset: int, partition: str = "mail/a.mbox", digest: str = "00", **properties: Any) -> MessageRow:
    """Return a message of the adapter `inbox`."""
    told = {"subject": f"message {offset}", "date": "2002-08-22T18:26:25Z"} | properties
    return MessageRow("inbox", partition, offset, digest, "mail.inbox", json.dumps(told), f"body {offset}", None)


def notification(key: str, version: int, about: MessageRow) -> Notification:
    """Return a notification that the query matched the message."""
    named = (about.source, about.partition, about.offset, about.digest)
    return Notification(notification_id(key, version, *named), key, version, *named)


def dead_letter(offset: int, digest: str = "00") -> DeadLetter:
    """Return a message that could not be read."""
    return DeadLetter("inbox", "mail/a.mbox", offset, digest, "no header", b"\xff raw")


def result(messages: Iterable[MessageRow], keys: Iterable[str] = ("frost",), dead: int = 0) -> BatchResult:
    """Return a batch in which version 1 of every query matched every message."""
    messages, keys = list(messages), list(keys)
    notifications = [notification(key, 1, about) for about in messages for key in keys]
    letters = [dead_letter(1_000_000 + number) for number in range(dead)]
    return BatchResult(messages, notifications, letters, len(messages) + dead, len(messages))


def fill(store: Store, count: int, key: str = "frost", deliveries: tuple[str, ...] = ("outbox",)) -> None:
    """Put `count` matches of one query into the store, for a delivery."""
    store.add_query(QuerySpec(key, "subject LIKE '%'", deliveries=deliveries))
    store.pin_batch("s", 0)
    store.commit_batch("s", 0, result(map(message, range(count)), [key]))
