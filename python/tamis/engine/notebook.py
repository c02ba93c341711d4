"""Writes the small tables that a notebook shows of engines, reports and explanations."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def html_table(title: str, rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of texts in HTML; the first text of each row is its heading. Every text is escaped.

    >>> html_table("two", [("a < b", "1")])
    '<table><caption>two</caption><tr><th>a &lt; b</th><td>1</td></tr></table>'
    """
    return f"<table><caption>{escape(title)}</caption>{''.join(map(_row, rows))}</table>"


def _row(texts: tuple[str, ...]) -> str:
    heading, *cells = map(escape, texts)
    return f"<tr><th>{heading}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
