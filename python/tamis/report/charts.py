"""Draws charts as inline SVG and HTML, with a text for readers who cannot see them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from html import escape

from tamis.report.data import QueryRow, ReportTimeline

WIDTH, HEIGHT = 960, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 24, 12, 28
SERIES_COLOURS = 6
"""Series take turns with the colours ``--series-1`` to ``--series-6`` of the style sheet."""


def bars(
    rows: Sequence[QueryRow], values: Sequence[float], labels: Sequence[str], what: str, largest: float = 0
) -> str:
    """Return a horizontal bar for each query: its key, a bar in proportion, and its value.

    Args:
        rows: the queries, in the order to show.
        values: the lengths of the bars.
        labels: the texts at the ends of the bars.
        what: the unit in words, for screen readers.
        largest: the value of a full bar; 0 takes the largest of `values`.
    """
    largest = largest or max(values, default=0) or 1
    items = [
        f'<li><span class="key" title="{escape(row.text)}">{escape(row.key)}</span>'
        f'<span class="track" role="img" aria-label="{escape(label)} {escape(what)}">'
        f'<span class="bar" style="width:{max(0.0, value) / largest * 100:.2f}%"></span></span>'
        f'<span class="value">{escape(label)}</span></li>'
        for row, value, label in zip(rows, values, labels, strict=True)
    ]
    return f'<ol class="bars">{"".join(items)}</ol>'


def timeline(data: ReportTimeline) -> str:
    """Stacked columns, one for each step of time, with one colour per topic and a legend."""
    if not data.starts:
        return '<p class="quiet">No matched message has a date.</p>'
    totals = [sum(column) for column in zip(*data.series.values(), strict=True)]
    top = _round_up(max(totals))
    parts = [_grid(top), _day_labels(data.starts), *_columns(data, top)]
    first, last = _long(data.starts[0]), _long(data.starts[-1])
    busiest = data.starts[totals.index(max(totals))]
    most = f"the most, {max(totals)}, {_when(busiest, data.step_days)}"
    told = f"{sum(totals)} notifications from {first} to {last}; {most}."
    return (
        f'{_legend(list(data.series))}<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(told)}">'
        f"{''.join(parts)}</svg>"
    )


def _legend(names: Sequence[str]) -> str:
    items = [
        f'<li><span class="swatch" style="background:{_colour(index)}"></span>{escape(name) or "(no topic)"}</li>'
        for index, name in enumerate(names)
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def _columns(data: ReportTimeline, top: int) -> list[str]:
    """Return one rectangle for each step and topic with a count above 0, from the bottom up."""
    step = (WIDTH - _LEFT - _RIGHT) / len(data.starts)
    gap = 1.5 if step > 5 else 0.4 if step > 2 else 0
    drawn = []
    for column, when in enumerate(data.starts):
        below = 0
        for index, (topic, counts) in enumerate(data.series.items()):
            if count := counts[column]:
                x, y, height = _LEFT + column * step, _y(below + count, top), _y(below, top) - _y(below + count, top)
                told = f"{_when(when, data.step_days)}, {topic}: {count}"
                drawn.append(
                    f'<rect x="{x + gap / 2:.1f}" y="{y:.1f}" width="{step - gap:.1f}" height="{height:.1f}" '
                    f'fill="{_colour(index)}"><title>{escape(told)}</title></rect>'
                )
                below += count
    return drawn


def _grid(top: int) -> str:
    """Return four horizontal lines with their numbers."""
    lines = []
    for quarter in range(5):
        value = top * quarter / 4
        y = _y(value, top)
        lines.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text class="axis" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    return "".join(lines)


def _day_labels(days: Sequence[date]) -> str:
    """Return a label for about every eighth of the time; the first label, and the first of each year, has the year."""
    step = (WIDTH - _LEFT - _RIGHT) / len(days)
    every = max(1, -(-len(days) // 8))
    labels, year = [], None
    for index in range(every // 2, len(days), every):
        day = days[index]
        shown = f"{day.day} {day:%b}" + ("" if day.year == year else f" {day.year}")
        x = _LEFT + (index + 0.5) * step
        labels.append(f'<text class="axis" x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{shown}</text>')
        year = day.year
    return "".join(labels)


def _y(value: float, top: int) -> float:
    return HEIGHT - _BOTTOM - value / top * (HEIGHT - _TOP - _BOTTOM)


def _colour(index: int) -> str:
    return f"var(--series-{index % SERIES_COLOURS + 1})"


def _round_up(value: int) -> int:
    """Return the smallest number from `value` on whose quarters are round: 4, 8, 12, 16, 20, 40, 60, 80, 100, ..."""
    size = 1
    while True:
        for quarter in (
            (1, 2, 3, 4, 5) if size == 1 else (size, size * 3 // 2, size * 2, size * 5 // 2, size * 3, size * 5)
        ):
            if 4 * quarter >= value:
                return 4 * quarter
        size *= 10


def _when(start: date, step_days: int) -> str:
    return f"on {_long(start)}" if step_days == 1 else f"in the {step_days} days from {_long(start)}"


def _long(when: date) -> str:
    return f"{when.day} {when:%B %Y}"
