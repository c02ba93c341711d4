"""What names a notification: the same match has the same id, whoever computes it and however often."""

from __future__ import annotations

import hashlib
import json


def notification_id(query_key: str, query_version: int, source: str, partition: str, offset: int) -> str:
    """The id of "this version of this query matched this message": 32 hexadecimal digits.

    A replay after a crash computes the same id, and the outbox holds each id once; so nothing is doubled.
    128 bits of SHA-256: a chance of 1 in 10^16 that two of a hundred thousand million collide. About 3 µs.

    >>> notification_id("frost", 1, "inbox", "mail/1.mbox", 0)
    '5af2b942f9c4315259d3fa58eb105186'
    """
    named = json.dumps([query_key, query_version, source, partition, offset], separators=(",", ":"))
    return hashlib.sha256(named.encode()).hexdigest()[:32]
