"""The commands `tamis apply` and `tamis query apply`: they make a store agree with files, and show the difference."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.options import JsonOption, StoreOption, open_store, store_path
from tamis.cli.queries.against_pipeline import check_against_pipeline
from tamis.store_place import Place, exists

if TYPE_CHECKING:
    from tamis.store import Change, FileChanges, Store

_SIGNS = {"added": "+", "changed": "~", "removed": "-"}


def apply(
    path: Annotated[
        Path, typer.Argument(help="A file of queries (lines of `key: selector`, or TOML), or a folder of such files.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the store agree with a file: add, change and remove queries and hierarchies.

    A folder stands for all its files `*.txt` and `*.toml`, also in folders below it; the queries of deleted files are
    removed. Queries that were added by hand, or that are in other files, stay. All changes are made, or none.
    """
    from tamis.query import load_query_files

    files = load_query_files(path)
    with _opened(store, dry_run) as opened:
        warnings = check_against_pipeline(opened, [spec for file in files for spec in file.queries])
        changes = opened.apply_files(files, folder=path if path.is_dir() else None, dry_run=dry_run)
    for change in changes.changes:
        if as_json:
            told = {"warnings": warnings.get(change.name, [])} if change.kind == "query" else {}
            output.data_json(dataclasses.asdict(change) | told)
        else:
            for line in lines_of(change):
                output.data(line)
    output.success(summary_of(changes) + (" (dry run: nothing is changed)" if dry_run else ""))


def summary_of(changes: FileChanges) -> str:
    """Return ``2 added, 1 changed, 0 removed, 57 unchanged``."""
    counted = ", ".join(f"{changes.count(action):,} {action}" for action in _SIGNS)
    return f"{counted}, {changes.unchanged:,} unchanged"


def lines_of(change: Change) -> Iterator[str]:
    """Yield a change as people read it: a sign, what it is, and what it was and is."""
    kind = "hierarchy of " if change.kind == "hierarchy" else ""
    begin = f"{_SIGNS[change.action]} {kind}{change.name}"
    if change.before is None or change.after is None:
        yield f"{begin}: {_shown(change.after or change.before or {})}"
        return
    for name, value in change.after.items():
        yield f"{begin}: {name}: {_value(change.before[name])} -> {_value(value)}"


def _shown(content: Mapping[str, Any]) -> str:
    return _value(content["text"] if "text" in content else content["parents"])


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return output.counted(len(value), "value", "values")
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S UTC}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    return (", ".join(value) if isinstance(value, tuple | list) else " ".join(str(value).split())) or "-"


@contextmanager
def _opened(given: Place | None, dry_run: bool) -> Iterator[Store]:
    """Open the store; for a dry run without a store, an empty one that is thrown away."""
    if not dry_run or exists(store_path(given)):
        with open_store(given, create=not dry_run) as store:
            yield store
        return
    with tempfile.TemporaryDirectory(prefix="tamis-") as folder, open_store(Path(folder, "s"), create=True) as store:
        yield store
