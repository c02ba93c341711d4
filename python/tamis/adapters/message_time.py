"""Finds the time of a message among its properties."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

TIME_FIELDS = ("date", "timestamp", "time", "received", "published", "created_at")
"""Properties that are tried, in this order, for the time of a message."""
_MILLISECONDS_FROM = 10**11  # as seconds it would be in the year 5138


def time_of(properties: Mapping[str, Any], fields: tuple[str, ...]) -> float | None:
    """Return the time, in seconds since 1970, of the first of `fields` that holds one; None if none does."""
    for field in fields:
        if (value := properties.get(field)) is not None and (seconds := _seconds(value)) is not None:
            return seconds
    return None


def _seconds(value: Any) -> float | None:
    """Parse ISO 8601, a date of mail, or a number of seconds or milliseconds since 1970."""
    if isinstance(value, bool):
        return None
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, int | float):
        seconds = value / 1_000 if abs(value) >= _MILLISECONDS_FROM else float(value)
        return seconds if abs(seconds) < _MILLISECONDS_FROM else None  # NaN too
    if not isinstance(value, str):
        return None
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            parsed = parse(value)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            continue
    return None
