"""How often something happened, over time or over positions, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

TIME_FIELDS = ("date", "timestamp", "time", "received", "published", "created_at")
"""Fields that are taken for a message's time when nobody names one, in this order."""
BINS_MAX = 4_096
"""So many bins are kept; then two or more become one."""
ROWS_MAX = 24
"""So many are shown."""

_HOUR_S = 3_600
_WIDTHS_S = (60, 600, _HOUR_S, 6 * _HOUR_S, 24 * _HOUR_S, 7 * 24 * _HOUR_S, 28 * 24 * _HOUR_S, 364 * 24 * _HOUR_S)
_MILLISECONDS_FROM = 10**11  # seconds would be the year 5138
_BLOCKS = " ▏▎▍▌▋▊▉█"


class Timeline:
    """Two counts, of all messages and of those that matched, in bins of equal width that grow as needed."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        self._widths = widths
        self.width = widths[0]
        self.bins: dict[int, list[int]] = {}
        self.first: float | None = None
        self.last: float | None = None

    @classmethod
    def of_times(cls) -> Timeline:
        """Over seconds since 1970."""
        return cls(_WIDTHS_S)

    @classmethod
    def of_positions(cls) -> Timeline:
        """Over the numbers of messages."""
        return cls((1,))

    def add(self, place: float, matched: bool) -> None:
        """One message at a time or position."""
        counts = self.bins.setdefault(int(place // self.width), [0, 0])
        counts[0] += 1
        counts[1] += matched
        self.first = place if self.first is None else min(self.first, place)
        self.last = place if self.last is None else max(self.last, place)
        if len(self.bins) > BINS_MAX:
            self.widen()

    def widen(self) -> None:
        """Make bins wider: the next of the usual widths, beyond them twice as wide."""
        old, self.width = self.width, next((width for width in self._widths if width > self.width), self.width * 2)
        bins, self.bins = self.bins, {}
        for number, counts in bins.items():
            together = self.bins.setdefault(number * old // self.width, [0, 0])
            together[0] += counts[0]
            together[1] += counts[1]

    def rows(self) -> list[tuple[float, int, int]]:
        """(place at which a bin begins, messages, matched), gaps included, at most `ROWS_MAX`."""
        while self.bins and max(self.bins) - min(self.bins) >= ROWS_MAX:
            self.widen()
        numbers = range(min(self.bins), max(self.bins) + 1) if self.bins else range(0)
        return [(number * self.width, *self.bins.get(number, (0, 0))) for number in numbers]


def bar(count: int, most: int, width: int = 40) -> str:
    """A bar of eighths of characters."""
    eighths = round(count / most * width * 8) if most else 0
    eighths = max(eighths, 1 if count else 0)
    return "█" * (eighths // 8) + (_BLOCKS[eighths % 8] if eighths % 8 else "")


def time_of(properties: Mapping[str, Any], fields: tuple[str, ...]) -> float | None:
    """Seconds since 1970 of the first of `fields` that holds a time; None when none does."""
    for field in fields:
        if (value := properties.get(field)) is not None and (seconds := _seconds(value)) is not None:
            return seconds
    return None


def _seconds(value: Any) -> float | None:
    """ISO 8601, a date as mail has it, or a number of seconds or milliseconds since 1970."""
    if isinstance(value, bool):
        return None
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


def shown_time(seconds: float, width: float = 1) -> str:
    """A time in UTC, to the day when `width` is days."""
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return f"{seconds:.0f} s"
    return at.strftime("%Y-%m-%d" if width >= 24 * _HOUR_S else "%Y-%m-%d %H:%M")
