"""Reads when a query expires: a time, a date, or a duration from now."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"([1-9][0-9]{0,5})([mhdw])")


def parse_expiry(text: str, now: datetime) -> datetime:
    """Return the time that a text names.

    Args:
        text: such as ``30d`` (``m``, ``h``, ``d``, ``w``), ``2026-12-31`` or ``2026-12-31T18:00:00Z``.
        now: the aware time from which a duration counts.

    Raises:
        ValueError: it has none of these forms, or is too far away.

    >>> parse_expiry("2026-12-31", datetime(2026, 1, 1, tzinfo=UTC)).isoformat()
    '2027-01-01T00:00:00+00:00'
    """
    try:
        if duration := _DURATION.fullmatch(text):
            return now.astimezone(UTC) + timedelta(**{_UNITS[duration[2]]: int(duration[1])})
        return expiry_of(datetime.fromisoformat(text) if len(text) > len("2026-12-31") else date.fromisoformat(text))
    except (ValueError, OverflowError):
        expected = "a date as 2026-12-31, a time as 2026-12-31T18:00:00Z, or a duration as 30d (m, h, d, w)"
        raise ValueError(f"'{text}': expected {expected}") from None


def is_duration(text: str) -> bool:
    """Return whether a text is a duration, such as ``30d``."""
    return _DURATION.fullmatch(text) is not None


def expiry_of(value: date | datetime) -> datetime:
    """Return the time, in UTC, at which a query expires. A date is the last day; a time without a zone is in UTC.

    Raises:
        OverflowError: it is too far away.
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return datetime.combine(value, time(), UTC) + timedelta(days=1)
