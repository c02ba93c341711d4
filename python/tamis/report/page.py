"""Writes the page: one HTML document with its style inside.

Everything from outside goes through ``escape``."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files

from tamis.report.charts import bars, timeline
from tamis.report.data import DeadLetterRow, Example, Excerpt, QueryRow, ReportData

SLOWEST = 15
"""Number of queries shown as the expensive ones."""

BARS_OPEN = 24
"""Number of queries whose bars are visible at once; the others are behind a fold."""


def render(data: ReportData) -> str:
    """Return the whole page."""
    style = files("tamis.report").joinpath("style.css").read_text(encoding="utf-8")
    sections = [
        _header(data),
        _tiles(data),
        _section("matches", "Matches of each query", _matches(data)),
        _section("timeline", "When the matched messages were written", _timeline(data)),
        _section("expensive", "The expensive queries", _expensive(data)),
        _section("notifications", "What matched, and why", _examples(data.examples)),
        _section("dead", "Dead letters", _dead_letters(data)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>tamis: {data.notifications:,} notifications</title><style>{style}</style></head>"
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )


def _section(name: str, title: str, content: str) -> str:
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>{content}</section>'


def _header(data: ReportData) -> str:
    """Return the first sentence says what happened."""
    with_matches = sum(row.matches > 0 for row in data.queries)
    when = f"{data.made_at.day} {data.made_at:%B %Y, %H:%M} UTC"
    return (
        f'<header><p class="brand">{_SIEVE}tamis</p>'
        f"<h1>{data.read:,} messages went through {len(data.queries)} standing queries: "
        f"{data.matched:,} were caught, {data.notifications:,} times.</h1>"
        f'<p class="quiet">{with_matches} queries matched something. Written {when} from the whole store.</p></header>'
    )


_SIEVE = (
    '<svg class="sieve" viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="10"/>'
    '<path d="M5 9h14M5 15h14M9 5v14M15 5v14"/></svg>'
)


def _tiles(data: ReportData) -> str:
    """Return the main figures; read = matched + not matched + dead letters."""
    tiles = [
        _tile("read", f"{data.read:,}", "messages"),
        _tile("matched", f"{data.matched:,}", f"{_share(data.matched, data.read)} of them", "good"),
        _tile("not matched", f"{data.unmatched:,}", "satisfied no query"),
        _tile("dead letters", f"{data.dead:,}", "could not be read", "bad" if data.dead else ""),
        _tile("notifications", f"{data.notifications:,}", _deliveries(data)),
    ]
    if figures := data.figures:
        tiles.append(
            _tile(
                "speed",
                f"{figures.messages_per_second:,.0f}",
                f"messages per second, over {figures.seconds:.1f} s with Spark's start of each stream",
            )
        )
        if figures.match_us_p50 is not None and figures.match_us_p99 is not None:
            low, high = f"{figures.match_us_p50:,.0f}", f"{figures.match_us_p99:,.0f}"
            tiles.append(
                _tile("match time", f"{low} <small>µs</small>", f"half of the messages; 99 % within {high} µs")
            )
    return f'<dl class="tiles">{"".join(tiles)}</dl>'


def _tile(name: str, value: str, note: str, kind: str = "") -> str:
    """Return a tile; `value` is our own markup, the other arguments are text."""
    return f'<div class="tile {kind}"><dt>{escape(name)}</dt><dd><b>{value}</b><span>{escape(note)}</span></dd></div>'


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "none"


def _deliveries(data: ReportData) -> str:
    """Return the number of deliveries that are done, by name, and of those that wait.

    A notification may go several ways, so that they may be more than the notifications.
    """
    done = [f"{states.get('delivered', 0):,} to {name}" for name, states in sorted(data.deliveries.items())]
    waiting = sum(states.get("pending", 0) for states in data.deliveries.values())
    count = sum(states.get("delivered", 0) for states in data.deliveries.values())
    made = f"as {count:,} {'delivery' if count == 1 else 'deliveries'}: " if count > data.notifications else ""
    return made + "; ".join(done + ([f"{waiting:,} waiting"] if waiting else [])) or "none delivered yet"


def _matches(data: ReportData) -> str:
    """Return all queries, those with most matches first; those without matches only by name."""
    matched = sorted((row for row in data.queries if row.matches), key=lambda row: -row.matches)
    silent = [row for row in data.queries if not row.matches]
    parts = [_match_bars(matched[:BARS_OPEN], matched)]
    if folded := matched[BARS_OPEN:]:
        parts.append(f"<details><summary>{len(folded)} more queries</summary>{_match_bars(folded, matched)}</details>")
    if silent:
        names = ", ".join(f'<code title="{escape(row.text)}">{escape(row.key)}</code>' for row in silent)
        parts.append(f'<p class="quiet">Nothing matched {names}.</p>')
    parts.append(_query_table(data.queries))
    return "".join(parts)


def _match_bars(rows: list[QueryRow], all_rows: list[QueryRow]) -> str:
    """Bars on one scale, including those behind the fold."""
    scale = max((row.matches for row in all_rows), default=1)
    return bars(rows, [row.matches for row in rows], [f"{row.matches:,}" for row in rows], "matches", scale)


def _query_table(rows: Iterable[QueryRow]) -> str:
    body = "".join(
        f"<tr><th scope=row>{escape(row.key)}</th><td>{escape(row.language)}</td>"
        f"<td><code>{escape(row.text)}</code></td>"
        f'<td class="number">{row.matches:,}</td><td>{escape(row.first_subject or "")}</td></tr>'
        for row in rows
    )
    return (
        "<details><summary>All queries as a table</summary><div class=wide><table><thead><tr><th scope=col>Query</th>"
        "<th scope=col>Language</th><th scope=col>Text</th><th scope=col class=number>Matches</th>"
        f"<th scope=col>First subject matched</th></tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _timeline(data: ReportData) -> str:
    outside = data.timeline.outside
    note = (
        f'<p class="quiet">{outside:,} notifications have no date, or one far from the others.</p>' if outside else ""
    )
    return f"<figure>{timeline(data.timeline)}</figure>{note}"


def _expensive(data: ReportData) -> str:
    costed = [row for row in data.queries if row.cost_us is not None]
    most_expensive = sorted(costed, key=lambda row: -(row.cost_us or 0))[:SLOWEST]
    if not most_expensive:
        return '<p class="quiet">Nothing to measure on: no message has matched.</p>'
    costs = [row.cost_us or 0.0 for row in most_expensive]
    intro = (
        '<p class="quiet">Each query alone, evaluated on a sample of the matched messages: the median in '
        "microseconds per message, in Python, without index, shared predicates or signature. The engine evaluates far "
        "less.</p>"
    )
    return intro + bars(most_expensive, costs, [f"{cost:,.1f} µs" for cost in costs], "per message")


def _examples(examples: Iterable[Example]) -> str:
    cards = "".join(map(_example, examples))
    return f'<div class="cards">{cards}</div>' if cards else '<p class="quiet">Nothing has matched yet.</p>'


def _example(example: Example) -> str:
    text = "".join(map(_piece, example.excerpt))
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in example.reasons)
    facts = " · ".join(escape(fact) for fact in (example.author, example.date, example.topic) if fact)
    return (
        f'<article><h3>{escape(example.subject) or "(no subject)"}</h3><p class="facts">{facts}</p>'
        + (f'<p class="excerpt">{text}</p>' if text.strip() else "")
        + f'<p class="query"><span class="chip">{escape(example.query_key)}</span> '
        f'<span class="language">{escape(example.language)}</span> <code>{escape(example.query_text)}</code></p>'
        + (f'<ul class="reasons">{reasons}</ul>' if reasons else "")
        + "</article>"
    )


def _piece(piece: Excerpt) -> str:
    return f"<mark>{escape(piece.text)}</mark>" if piece.marked else escape(piece.text)


def _dead_letters(data: ReportData) -> str:
    if not data.dead_letters:
        return '<p class="quiet">None: every message could be read.</p>'
    shown = "".join(map(_dead_letter, data.dead_letters))
    more = data.dead - len(data.dead_letters)
    note = f'<p class="quiet">and {more:,} more in the store.</p>' if more > 0 else ""
    return f'<div class="cards">{shown}</div>{note}'


def _dead_letter(row: DeadLetterRow) -> str:
    return (
        f'<article class="bad"><h3>{escape(row.reason)}</h3><p class="facts">{escape(row.position)}</p>'
        f'<p class="excerpt"><code>{escape(row.beginning)}</code></p></article>'
    )
