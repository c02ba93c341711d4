"""Counts events over time or over positions, in bounded memory."""

from __future__ import annotations

BINS_MAX = 4_096
"""Maximum number of bins; then two or more become one."""
ROWS_MAX = 24
"""Maximum number of bins that are shown."""

_HOUR_S = 3_600
_WIDTHS_S = (60, 600, _HOUR_S, 6 * _HOUR_S, 24 * _HOUR_S, 7 * 24 * _HOUR_S, 28 * 24 * _HOUR_S, 364 * 24 * _HOUR_S)


class Timeline:
    """Counts all messages and those that matched, in bins of equal width, which grows as needed."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        self._widths = widths
        self.width = widths[0]
        self.bins: dict[int, list[int]] = {}
        self.first: float | None = None
        self.last: float | None = None

    @classmethod
    def of_times(cls) -> Timeline:
        """Return a timeline over seconds since 1970."""
        return cls(_WIDTHS_S)

    @classmethod
    def of_positions(cls) -> Timeline:
        """Return a timeline over the numbers of messages."""
        return cls((1,))

    def add(self, at: float, matched: bool) -> None:
        """Count a message at a time or position."""
        counts = self.bins.setdefault(int(at // self.width), [0, 0])
        counts[0] += 1
        counts[1] += matched
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)
        if len(self.bins) > BINS_MAX:
            self.widen()

    def widen(self) -> None:
        """Make bins wider: the next of the usual widths, and after these twice as wide."""
        old, self.width = self.width, next((width for width in self._widths if width > self.width), self.width * 2)
        bins, self.bins = self.bins, {}
        for number, counts in bins.items():
            together = self.bins.setdefault(number * old // self.width, [0, 0])
            together[0] += counts[0]
            together[1] += counts[1]

    def rows(self) -> list[tuple[float, int, int]]:
        """Return (begin of the bin, messages, matched) for at most `ROWS_MAX` bins, including empty ones."""
        while self.bins and max(self.bins) - min(self.bins) >= ROWS_MAX:
            self.widen()
        numbers = range(min(self.bins), max(self.bins) + 1) if self.bins else range(0)
        return [(number * self.width, *self.bins.get(number, (0, 0))) for number in numbers]
