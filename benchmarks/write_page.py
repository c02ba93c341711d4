"""Writes ``docs/benchmarks.md`` and its charts from the documents of the last runs in ``benchmarks/out``.

    python benchmarks/write_page.py [--out FOLDER] [--docs FOLDER]

`make bench` calls it last. A benchmark that was not run has no section. Every section names its run, and the page names
the machine. `_sections.py` has the texts of the sections, and `_charts.py` draws the charts."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from _results import OUT, shown
from _sections import GOALS, SECTIONS, PageSection, Run

DOCS = Path(__file__).resolve().parent.parent / "docs"
CHARTS = "benchmarks"
CHART_BYTES_MAX = 40_000

HEAD = """\
# Benchmarks

`make bench` measures all of this and writes this page; `make bench WORKLOAD=folder` takes Boolean filters from a
folder ([the format](../benches/src/boolean/workload.rs)). Benchmarks of the engine compare its answers with brute force
before they time anything, and their baselines run in the same process, one after another, on the same data. Benchmarks
of the broker count what arrives, and its peers are processes of their own; those of Spark compare with UDFs and sinks
that do less. Unless a table says otherwise, times are CPU times of one thread, which other programs on the machine
lengthen little. Compare the columns of one table with each other rather than with figures from elsewhere.
"""


def read_runs(folder: Path) -> dict[str, Run]:
    """Read the document of each benchmark, by its name."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return {document["benchmark"]: Run(document) for document in documents}


def write(runs: dict[str, Run], docs: Path) -> list[Path]:
    """Write the page and its charts, and remove obsolete charts; return the files that were written."""
    folder = docs / CHARTS
    folder.mkdir(parents=True, exist_ok=True)
    parts, charts = [HEAD, provenance(runs)], {}
    if goals := goal_table(runs):
        parts.append(goals)
    for section in SECTIONS:
        if section.benchmark in runs:
            text, drawn = section_text(section, runs[section.benchmark])
            parts.append(text)
            charts |= drawn
    for path in folder.glob("*.svg"):
        if path.name not in charts:
            path.unlink()
    for name, picture in charts.items():
        if len(picture.encode()) > CHART_BYTES_MAX:
            raise ValueError(f"{name}: {len(picture.encode())} bytes, more than {CHART_BYTES_MAX}")
        (folder / name).write_text(picture, encoding="utf-8")
    page = docs / "benchmarks.md"
    page.write_text("\n".join(parts), encoding="utf-8")
    return [page, *(folder / name for name in sorted(charts))]


# ---- parts of the page -----------------------------------------------------------------------------------------------


def provenance(runs: dict[str, Run]) -> str:
    """Render the table of the runs: the machine, the times, and the load."""
    machines = {machine_text(run.document["machine"]) for run in runs.values()}
    versions = sorted({run.document["version"] for run in runs.values()})
    pythons = sorted({run.document["python"] for run in runs.values() if "python" in run.document})
    lines = ["## The runs\n", f"Machine: {'; '.join(sorted(machines))}."]
    software = f"tamis {', '.join(versions)}" + (f", Python {', '.join(pythons)}" if pythons else "")
    lines.append(f"Software: {software}.\n")
    lines.append("Load is the mean number of programs that were ready to run, before and after.")
    if busy := sorted(name for name, run in runs.items() if run.was_busy):
        lines.append(
            f"**The machine was busy with other work** during {', '.join(busy)}: CPU times are then somewhat too long,"
            " and wall-clock times and figures of several threads mean little."
        )
    lines[-1] += "\n"
    rows = [
        (name, moment(run.document["started"]), f"{run.document['seconds']:,} s", loads(run), run.arguments)
        for name, run in sorted(runs.items())
    ]
    return "\n".join(lines) + "\n" + markdown(["benchmark", "begun (UTC)", "took", "load", "asked for"], rows)


def machine_text(machine: dict[str, Any]) -> str:
    """Describe the machine in words."""
    clock = f" at {machine['ghz']:.1f} GHz" if machine.get("ghz") else ""
    cores = f"{machine['cores']} core" + ("s" if machine["cores"] != 1 else "")
    return f"{machine['processor'] or 'unknown processor'}{clock}, {cores}, {machine['system']}"


def moment(seconds: int) -> str:
    """Format a time for the page."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def loads(run: Run) -> str:
    """Format the load before and after a run."""
    return " to ".join("?" if load is None else f"{load:.1f}" for load in run.document["load"])


def goal_table(runs: dict[str, Run]) -> str:
    """Render the table of the aims, with the figures of these runs."""
    rows = []
    for goal in GOALS:
        if goal.benchmark not in runs or (figure := goal.find(runs[goal.benchmark])) is None:
            continue
        value, size = figure
        verdict = "yes" if goal.is_met(value) else "**no**"
        at = "" if size is None or size == goal.size else f", at {size:,}"
        rows.append((goal.what, goal.bar(), shown(value, goal.decimals) + f" {goal.unit}".rstrip(), verdict + at))
    if not rows:
        return ""
    table = markdown(["what", "aim", "found", "reached"], rows)
    return f"## The aims\n\nIf a run was smaller than its aim asks for, its size is given.\n\n{table}"


def section_text(section: PageSection, run: Run) -> tuple[str, dict[str, str]]:
    """Render one section, and its charts by file name."""
    parts = [f"## {section.title}\n", section.text.strip() + "\n"]
    charts = {}
    for chart in section.charts:
        if drawn := chart.draw(run):
            name = f"{chart.name}.svg"
            charts[name] = drawn
            parts.append(f"![{chart.title}]({CHARTS}/{name})\n")
    parts += [table_text(table) for table in run.tables if table["columns"]]
    parts.append(f"*{section.benchmark}, begun {moment(run.document['started'])} UTC{asked(run)}.*\n")
    return "\n".join(parts), charts


def asked(run: Run) -> str:
    """Format the arguments of a run; empty for the defaults."""
    return f", `{run.arguments}`" if run.arguments else ""


def table_text(table: dict[str, Any]) -> str:
    """Render a table with its title and notes."""
    title = " ".join(table["title"].split())
    columns, records = table["columns"], table["records"]
    rows = [tuple(shown(record.get(key), decimals) for key, _, decimals in columns) for record in records]
    notes = "".join(f"\n{' '.join(note.split())}\n" for note in table["notes"])
    return f"**{title[:1].upper()}{title[1:]}**\n\n" + markdown([heading for _, heading, _ in columns], rows) + notes


def markdown(headings: list[str], rows: list[tuple[str, ...]]) -> str:
    """Render a table with words in the first column and figures in the others."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in [tuple(headings), *rows]]
    rule = ["---"] + ["---:"] * (len(headings) - 1)
    return "".join("| " + " | ".join(row) + " |\n" for row in [cells[0], rule, *cells[1:]])


def main() -> None:
    """Write the page, and print what was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="the folder with the JSON files of the runs")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where benchmarks.md goes")
    arguments = parser.parse_args()
    runs = read_runs(arguments.out)
    if not runs:
        raise SystemExit(f"error: {arguments.out} has no figures; make bench measures them")
    written = write(runs, arguments.docs)
    print(f"wrote {written[0]} and {len(written) - 1} charts beside it")


if __name__ == "__main__":
    main()
