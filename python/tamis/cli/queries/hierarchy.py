"""The command `tamis hierarchy`, which manages the hierarchies that UNDER follows, in a store.

A running pipeline uses a change from its next batch on, for every query."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli import output
from tamis.cli.options import JsonOption, StoreOption, open_store
from tamis.errors import TamisError

if TYPE_CHECKING:
    from tamis.query.hierarchy import Parents
    from tamis.store import HierarchyRecord, Store

app = typer.Typer(help="Set, show, list and remove the hierarchies that UNDER follows.", no_args_is_help=True)

AttributeArgument = Annotated[str, typer.Argument(help="The property whose values the hierarchy orders.")]


@app.command("set")
def set_(
    attribute: AttributeArgument,
    file: Annotated[
        str,
        typer.Argument(help='JSON, {"value": "parent" or null}, or TOML, where a root has ""; `-` is JSON on stdin.'),
    ],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replace the hierarchy of an attribute, for every query with UNDER on it."""
    from tamis.query.hierarchy import parse_parents, read_parents

    parents = parse_parents(_stdin(), "stdin") if file == "-" else read_parents(Path(file))
    with open_store(store, create=True) as opened:
        record = opened.set_hierarchy(attribute, parents)
    if as_json:
        output.data_json(dataclasses.asdict(record))
    output.success(f"the hierarchy of {attribute} is stored, version {record.version}: {_size(record.parents)}")


@app.command()
def show(
    attribute: AttributeArgument,
    version: Annotated[int | None, typer.Option(min=1, help="This version; default: the one that counts now.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the hierarchy of an attribute, each value below its parent."""
    with open_store(store, create=False) as opened:
        record = _version(opened, attribute, version)
    if as_json:
        output.data_json(dataclasses.asdict(record))
        return
    for line in _tree(record.parents):
        output.data(line)
    since = f"{record.created_at:%Y-%m-%d %H:%M:%S} UTC"
    state = "" if record.valid else ", no longer valid"
    output.note(
        f"version {record.version}{state}, {_size(record.parents)}, set {since}, from {record.origin or 'hand'}"
    )


@app.command("list")
def list_(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the hierarchies that count now, by attribute."""
    with open_store(store, create=False) as opened:
        records = opened.list_hierarchies()
    if as_json:
        for record in records:
            output.data_json(dataclasses.asdict(record))
        return
    rows = [(it.attribute, it.version, len(it.parents), it.created_at, it.origin or "hand") for it in records]
    output.table(("ATTRIBUTE", "VERSION", "VALUES", "SET", "FROM"), rows, numbers=(1, 2))


@app.command()
def remove(attribute: AttributeArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Remove the hierarchy of an attribute; refused while a query needs it."""
    with open_store(store, create=False) as opened:
        try:
            opened.remove_hierarchy(attribute)
        except KeyError:
            raise _unknown(attribute) from None
    if as_json:
        output.data_json({"removed": attribute})
    output.success(f"removed the hierarchy of {attribute}")


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise TamisError(f"stdin: expected UTF-8 text ({error.reason} at byte {error.start})") from None


def _version(store: Store, attribute: str, version: int | None) -> HierarchyRecord:
    history = store.hierarchy_history(attribute)
    if not history:
        raise _unknown(attribute)
    if version is None:
        if not history[-1].valid:
            raise TamisError(
                f"the hierarchy of '{attribute}' was removed; --version {history[-1].version} shows the last"
            )
        return history[-1]
    for record in history:
        if record.version == version:
            return record
    raise TamisError(f"the hierarchy of '{attribute}' has no version {version}; its versions are 1 to {len(history)}")


def _unknown(attribute: str) -> TamisError:
    return TamisError(f"there is no hierarchy of '{attribute}'; `tamis hierarchy list` lists all")


def _size(parents: Parents) -> str:
    return output.counted(len(parents), "value", "values")


def _tree(parents: Parents) -> Iterator[str]:
    """Yield the values, each below its parent and indented by its depth."""
    children: dict[str | None, list[str]] = {}
    for value, parent in parents.items():
        children.setdefault(parent, []).append(value)
    waiting = [(value, 0) for value in reversed(children.get(None, []))]
    while waiting:
        value, depth = waiting.pop()
        yield "  " * depth + value
        waiting += [(child, depth + 1) for child in reversed(children.get(value, []))]
