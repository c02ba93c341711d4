"""The command `tamis report`, which writes the page of a pipeline: what matched, when, how often, and at what cost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tamis.cli import output
from tamis.cli.options import JsonOption, StoreOption, open_store


def report(
    path: Annotated[Path, typer.Argument(help="The page; it is replaced in one step.")] = Path("report.html"),
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML page of everything in a store: matches of each query, a timeline, costs, excerpts, dead letters.

    The page uses no network and no script. It may be written while the pipeline runs.
    """
    from tamis.report import write_report

    with open_store(store, create=False) as opened:
        write_report(opened, path)
        counts = opened.counts()
    if as_json:
        output.data_json({"report": os.fspath(path), "notifications": counts.notifications, "read": counts.read})
    else:
        output.success(f"{path}: {counts.notifications:,} notifications of {counts.read:,} messages")
