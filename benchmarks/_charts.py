"""Draws charts as SVG files that are readable on light and dark pages, in print and without colours.

There are two kinds: lines over growing numbers (`lines`), and points in rows (`points`). Each series has a colour, a
marker and a name in the legend. The background is part of the picture, so that nothing depends on the page around it.
For readers who cannot see it, a picture has a title and its figures in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

STYLE = """\
.card{fill:#fff;stroke:#e2e0d8}text{fill:#1d2327;font:13px system-ui,"Segoe UI",Roboto,sans-serif}
.title{font-size:15px;font-weight:600}.quiet{fill:#5d666d}.grid{stroke:#e6e4dd}
.guide{stroke:#8a9298;stroke-dasharray:5 4}.span{stroke:#8a9298}
.s0{color:#0f766e}.s1{color:#c2410c}.s2{color:#5b4fc4}.s3{color:#b83280}.s4{color:#2b6cb0}
.s5{color:#6b7a1e}.s6{color:#8a5a2b}.s7{color:#4a5560}.s8{color:#94730a}
.line{fill:none;stroke:currentColor;stroke-width:1.6}.s0.line{stroke-width:3}
.mark{fill:currentColor;stroke:currentColor}.hollow{fill:none;stroke-width:2}
@media(prefers-color-scheme:dark){
.card{fill:#1d2326;stroke:#313a3f}text{fill:#e8eaea}.quiet{fill:#9aa5ab}.grid{stroke:#2c3438}
.s0{color:#3cb8ac}.s1{color:#f5894f}.s2{color:#a598f5}.s3{color:#ee82ae}.s4{color:#74b4ec}
.s5{color:#b3c565}.s6{color:#d3a06a}.s7{color:#b4bec5}.s8{color:#e0c04b}}
"""
COLOURS = 9
WIDTH, LEGEND = 860, 230
_LEFT, _TOP, _BOTTOM = 74, 52, 52
LINES_HEIGHT, ROW_HEIGHT = 380, 30


@dataclass(frozen=True)
class Series:
    """A line of a chart, or one kind of points; for `points`, each x is the number of a row."""

    name: str
    values: list[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """The title of an axis, which names the quantity and its unit, and whether the axis is logarithmic."""

    title: str
    is_log: bool = True


class Scale:
    """Converts values to coordinates on an axis."""

    def __init__(self, axis: Axis, values: Sequence[float], start: float, end: float) -> None:
        self._axis, self._start, self._end = axis, start, end
        low, high = min(values), max(values)
        if axis.is_log:
            self._low, self._high = _log_bounds(low, high)
        else:
            self._low, self._high = 0.0, _round_up(high)

    def at(self, value: float) -> float:
        """Return the coordinate of `value`."""
        if self._axis.is_log:
            share = (math.log10(value) - math.log10(self._low)) / (math.log10(self._high) - math.log10(self._low))
        else:
            share = (value - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Return round values within the bounds, at most a dozen."""
        if not self._axis.is_log:
            return [self._high * part / 5 for part in range(6)]
        powers = range(math.floor(math.log10(self._low)), math.ceil(math.log10(self._high)) + 1)
        steps = (1, 2, 5) if len(powers) <= 4 else (1,)
        every = -(-len(powers) // 9)
        ticks = [step * 10.0**power for power in powers if power % every == 0 for step in steps]
        return [tick for tick in ticks if self._low * 0.999 <= tick <= self._high * 1.001]


def _log_bounds(low: float, high: float) -> tuple[float, float]:
    """Return the steps of 1, 2 and 5 around the values, at least a decade apart."""
    steps = [step * 10.0**power for power in range(-6, 13) for step in (1, 2, 5)]
    below = max(step for step in steps if step <= low)
    above = min(step for step in steps if step >= high)
    return (below, above) if above / below >= 10 else (below, below * 10)


def _round_up(value: float) -> float:
    """Return the next value whose fifth is round."""
    size = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(step * size for step in (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10) if step * size >= value * 0.999)


def short(value: float) -> str:
    """Format a value for an axis: 0.05, 20, 1k, 500k, 1M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.6g}"


def lines(title: str, x: Axis, y: Axis, series: Sequence[Series], guide: tuple[str, float] | None = None) -> str:
    """Draw a line for each series, with its points marked.

    Args:
        title: the title of the chart.
        x: the axis of growing numbers.
        y: the axis of their costs.
        series: at most nine, each ascending in x; the first is drawn boldest.
        guide: (name, exponent) of a thin line of that growth through the first series' first point; for two log axes.
    """
    right, bottom = WIDTH - LEGEND, LINES_HEIGHT - _BOTTOM
    across = Scale(x, [point[0] for one in series for point in one.values], _LEFT + 12, right - 12)
    up = Scale(y, [point[1] for one in series for point in one.values], bottom, _TOP + 8)
    parts = [_grid_y(up, right), _ticks_x(across, bottom)]
    if guide:
        parts.append(_guide(series[0], guide, across, up))
    for index, one in reversed(list(enumerate(series))):
        path = " ".join(f"{across.at(a):.1f},{up.at(b):.1f}" for a, b in one.values)
        parts.append(f'<polyline class="s{index % COLOURS} line" points="{path}"/>')
        parts += [_marker(index, across.at(a), up.at(b), f"{one.name}, {short(a)}: {b:.3g}") for a, b in one.values]
    by_end = sorted(range(len(series)), key=lambda index: -series[index].values[-1][1])
    names = [(index, series[index].name) for index in by_end]
    parts.append(_legend(names, f"- - {guide[0]}" if guide else ""))
    parts.append(f'<text class="quiet" x="{_LEFT}" y="{_TOP - 8}">{escape(y.title)}</text>')
    parts.append(_below(x.title, LINES_HEIGHT))
    told = "; ".join(f"{one.name} {one.values[0][1]:.3g} to {one.values[-1][1]:.3g}" for one in series)
    return _document(title, f"{y.title}, by {x.title}: {told}", LINES_HEIGHT, parts)


def points(title: str, rows: Sequence[str], axis: Axis, series: Sequence[Series]) -> str:
    """Draw a point for each series in each row, and join the outermost two.

    Args:
        title: the title of the chart.
        rows: the names of the rows, from above.
        axis: the axis of the values.
        series: values are (number of the row, value).
    """
    left, height = 40 + 7 * max(len(row) for row in rows), _TOP + ROW_HEIGHT * len(rows) + _BOTTOM
    right, bottom = WIDTH - LEGEND + 60, height - _BOTTOM
    across = Scale(axis, [point[1] for one in series for point in one.values], left + 12, right - 12)
    parts = [_ticks_x(across, bottom, _TOP)]
    for at, name in enumerate(rows):
        y = _TOP + ROW_HEIGHT * (at + 0.5)
        here = [across.at(value) for one in series for row, value in one.values if row == at]
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        if here:
            ends = f'x1="{min(here):.1f}" x2="{max(here):.1f}" y1="{y:.1f}" y2="{y:.1f}"'
            parts.append(f'<line class="span" {ends}/>')
    for index, one in enumerate(series):
        for row, value in one.values:
            y = _TOP + ROW_HEIGHT * (row + 0.5)
            parts.append(_marker(index, across.at(value), y, f"{rows[int(row)]}, {one.name}: {value:.3g}"))
    parts.append(_legend([(index, one.name) for index, one in enumerate(series)], "", right + 24))
    parts.append(_below(axis.title, height, left, right))
    told = "; ".join(f"{rows[int(row)]} {one.name} {value:.3g}" for one in series for row, value in one.values)
    return _document(title, f"{axis.title}: {told}", height, parts)


def _grid_y(scale: Scale, right: float) -> str:
    marks = [
        f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{scale.at(tick):.1f}" y2="{scale.at(tick):.1f}"/>'
        f'<text class="quiet" x="{_LEFT - 8}" y="{scale.at(tick) + 4:.1f}" text-anchor="end">{short(tick)}</text>'
        for tick in scale.ticks()
    ]
    return "".join(marks)


def _ticks_x(scale: Scale, bottom: float, top: float | None = None) -> str:
    """Draw the numbers below the axis, and lines up to `top` if it is given."""
    marks = []
    for tick in scale.ticks():
        x, until = scale.at(tick), bottom - 5 if top is None else top
        marks.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom:.1f}" y2="{until:.1f}"/>')
        marks.append(f'<text class="quiet" x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{short(tick)}</text>')
    return "".join(marks)


def _guide(series: Series, guide: tuple[str, float], across: Scale, up: Scale) -> str:
    (first, value), (last, _) = series.values[0], series.values[-1]
    end = value * (last / first) ** guide[1]
    ends = (across.at(first), up.at(value), across.at(last), up.at(end))
    return '<line class="guide" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>'.format(*ends)


def _marker(index: int, x: float, y: float, told: str) -> str:
    """Draw a marker, whose shape differs for each series, so that no reader needs the colours."""
    shapes = {
        0: f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"/>',
        1: f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>',
        2: f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z"/>',
        3: f'<path d="M{x:.1f} {y - 6:.1f}l5 6-5 6-5-6z"/>',
        4: f'<path d="M{x:.1f} {y + 5:.1f}l5-9h-10z"/>',
        5: f'<path d="M{x - 5:.1f} {y - 5:.1f}l10 10m0-10l-10 10" stroke-width="2.4"/>',
        6: f'<path d="M{x - 6:.1f} {y:.1f}h12m-6-6v12" stroke-width="2.4"/>',
        7: f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="hollow"/>',
        8: f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" class="hollow"/>',
    }
    return f'<g class="s{index % COLOURS} mark"><title>{escape(told)}</title>{shapes[index % COLOURS]}</g>'


def _legend(names: Sequence[tuple[int, str]], guide: str, left: float = WIDTH - LEGEND + 18) -> str:
    rows = []
    for row, (index, name) in enumerate(names):
        y = _TOP + 10 + row * 22
        rows.append(_marker(index, left, y, name) + f'<text x="{left + 14}" y="{y + 4.5}">{escape(name)}</text>')
    if guide:
        rows.append(f'<text class="quiet" x="{left - 8}" y="{_TOP + 16 + len(names) * 22}">{escape(guide)}</text>')
    return "".join(rows)


def _below(text: str, height: float, left: float = _LEFT, right: float = WIDTH - LEGEND) -> str:
    x = (left + right) / 2
    return f'<text class="quiet" x="{x:.1f}" y="{height - 12}" text-anchor="middle">{escape(text)}</text>'


def _document(title: str, told: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-labelledby="t d"><title id="t">{escape(title)}</title><desc id="d">{escape(told)}</desc>'
        f"<style>{STYLE}</style>"
        f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>'
        f'<text class="title" x="20" y="26">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )
