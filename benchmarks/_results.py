"""Prints the results of a benchmark and writes them to ``benchmarks/out`` for the page, as `benches/src/report.rs`.

A document is one JSON object per benchmark: its arguments, its time, the machine and its load, and the tables, each
with the columns to show and with records that may have more fields."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import tamis

OUT = Path(__file__).resolve().parent / "out"

WIDTH_MIN = 130
"""Minimum width of tables: they are not cut in files, and terminals wrap long lines."""

Column = tuple[str, str, int]
"""The key in the records, the heading of the column, and the number of decimals."""


def shown(value: Any, decimals: int) -> str:
    """Format a value for a table; None is a dash."""
    if value is None:
        return "-"
    if isinstance(value, str | bool):
        return str(value)
    return f"{value:,.{decimals}f}"


def machine() -> dict[str, Any]:
    """Describe the machine; facts that the system does not tell are None."""
    facts = _cpuinfo()
    megahertz = facts.get("cpu MHz")
    return {
        "processor": facts.get("model name"),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "ghz": float(megahertz) / 1_000 if megahertz else None,
        "system": f"{platform.system().lower()} {platform.machine()}",
    }


def _cpuinfo() -> dict[str, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _load() -> float | None:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


class Results:
    """Collects the tables of one benchmark, prints each when it is complete, and writes all at the end."""

    def __init__(self, benchmark: str, arguments: str = "") -> None:
        """Begin a document; `arguments` are those of the command line, without paths."""
        self._document: dict[str, Any] = {
            "benchmark": benchmark,
            "arguments": arguments,
            "version": tamis.__version__,
            "python": platform.python_version(),
            "machine": machine(),
            "started": int(time.time()),
        }
        self._load = _load()
        self._tables: list[dict[str, Any]] = []

    def table(
        self,
        name: str,
        title: str,
        columns: list[Column],
        records: list[dict[str, Any]],
        notes: list[str] | None = None,
    ) -> None:
        """Add and print a complete table: `name` is for programs, `title` is above it, `notes` are below."""
        self._tables.append(
            {"name": name, "title": title, "columns": columns, "records": records, "notes": notes or []}
        )
        table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
        for index, (_, heading, _) in enumerate(columns):
            table.add_column(heading, justify="left" if index == 0 else "right")
        for record in records:
            table.add_row(*(shown(record.get(key), decimals) for key, _, decimals in columns))
        console = Console(width=max(WIDTH_MIN, Console().width))
        console.print(table)
        for note in notes or []:
            console.print(note, highlight=False)

    def unlisted(self, name: str, records: list[dict[str, Any]]) -> None:
        """Add records for charts, which no table shows."""
        self._tables.append({"name": name, "title": "", "columns": [], "records": records, "notes": []})

    def write(self) -> None:
        """Write the document to ``benchmarks/out``."""
        OUT.mkdir(exist_ok=True)
        seconds = int(time.time()) - self._document["started"]
        document = {**self._document, "seconds": seconds, "load": [self._load, _load()], "tables": self._tables}
        path = OUT / f"{self._document['benchmark']}.json"
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
