"""Reports a run as one self-contained HTML page: counts, matches per query, a timeline, expensive queries, excerpts.

The page uses no network and no script, and everything from outside is escaped. ``data.py`` reads the store,
``charts.py`` draws, and ``page.py`` writes the page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tamis.report.data import RunFigures, collect
from tamis.report.page import render

if TYPE_CHECKING:
    from tamis.store import Store

__all__ = ["RunFigures", "write_report"]


def write_report(store: Store, path: str | Path, figures: RunFigures | None = None) -> None:
    """Write the report of everything in `store`.

    Args:
        store: an open store.
        path: the page; it is replaced in one step, so that a browser never sees half of it.
        figures: the figures of the run that has just ended; without them the page does not mention speed.

    Raises:
        OSError: the page cannot be written; the old one stays.

    Cost: about 1 s, mostly for measuring each query alone.
    """
    path = Path(path)
    page = render(collect(store, figures))
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(page, encoding="utf-8", errors="backslashreplace")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
