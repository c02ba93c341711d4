"""Shows a count as a bar, and a time as people write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_HOUR_S = 3_600
_BLOCKS = " ▏▎▍▌▋▊▉█"


def bar(count: int, count_max: int, width: int = 40) -> str:
    """Return a bar with a resolution of an eighth of a character."""
    eighths = round(count / count_max * width * 8) if count_max else 0
    eighths = max(eighths, 1 if count else 0)
    return "█" * (eighths // 8) + (_BLOCKS[eighths % 8] if eighths % 8 else "")


def shown_time(seconds: float, width: float = 1) -> str:
    """Return a time in UTC, without hours if `width` is at least a day."""
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return f"{seconds:.0f} s"
    return at.strftime("%Y-%m-%d" if width >= 24 * _HOUR_S else "%Y-%m-%d %H:%M")
