"""The command `tamis query`, which manages the standing queries of a store.

A running pipeline uses a change from its next batch on."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli import output
from tamis.cli.options import JsonOption, StoreOption, open_store
from tamis.cli.queries.against_pipeline import check_against_pipeline
from tamis.cli.queries.apply import apply
from tamis.errors import TamisError

if TYPE_CHECKING:
    from tamis.store import QueryRecord

app = typer.Typer(help="Add, list, show, remove, undo, apply and import standing queries.", no_args_is_help=True)
app.command()(apply)

KeyArgument = Annotated[str, typer.Argument(help="The query's key.")]


@app.command()
def add(
    key: KeyArgument,
    text: Annotated[str, typer.Argument(help="The query, in its language.")],
    language: Annotated[str, typer.Option(help="selector, cbm, boolean, topic, prefix, regex, text, near, fields.")] = (
        "selector"
    ),
    owner: Annotated[str, typer.Option(help="The owner of the query.")] = "",
    delivery: Annotated[list[str] | None, typer.Option(help="The delivery of its matches; may be repeated.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A free word; may be repeated.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a query, or its next version if the key exists with other content.

    A query that stands in a file is changed there: see `tamis query apply`.
    """
    from tamis.query import QuerySpec

    if not key:
        raise TamisError("expected a key that is not empty")
    spec = QuerySpec(key, text, language, owner, tuple(tag or ()), tuple(delivery or ()))
    with open_store(store, create=True) as opened:
        warnings = check_against_pipeline(opened, [spec])
        record = opened.add_query(spec)
    if as_json:
        output.data_json({**dataclasses.asdict(record), "warnings": warnings[key]})
    output.success(f"{record.key} is stored, version {record.version}")


@app.command("list")
def list_(
    owner: Annotated[str | None, typer.Option(help="Only queries of this owner.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the queries in the order in which they were added."""
    with open_store(store, create=False) as opened:
        records = opened.list_queries(owner)
    if as_json:
        for record in records:
            output.data_json(dataclasses.asdict(record))
        return
    header = ("KEY", "VERSION", "LANGUAGE", "OWNER", "DELIVERIES", "FROM", "TEXT")
    rows = [
        (
            *(it.key, it.version, it.language, it.owner or None, ", ".join(it.deliveries) or None),
            *(Path(it.origin).name if it.origin else "hand", it.text),
        )
        for it in records
    ]
    output.table(header, rows, numbers=(1,))


@app.command()
def show(key: KeyArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show every version of a query, the newest last, with its canonical text."""
    with open_store(store, create=False) as opened:
        history = opened.query_history(key)
        valid = key in {record.key for record in opened.list_queries()}
    if not history:
        raise TamisError(f"no query has the key '{key}'; `tamis query list` lists all keys")
    for number, record in enumerate(history, start=1):
        is_valid = valid and number == len(history)
        if as_json:
            output.data_json({**dataclasses.asdict(record), "valid": is_valid, "canonical": _canonical(record)})
        else:
            _show(record, is_valid)


@app.command()
def remove(key: KeyArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Remove a query. Its matches stay recorded. A query that stands in a file is removed there."""
    with open_store(store, create=False) as opened:
        try:
            opened.remove_query(key)
        except KeyError:
            raise TamisError(f"no query has the key '{key}'; `tamis query list` lists all keys") from None
    if as_json:
        output.data_json({"removed": key})
    output.success(f"removed {key}")


@app.command()
def undo(key: KeyArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Take back the last change of a query: its former content comes back, or it goes if it was new.

    Undoing twice changes nothing. `tamis query show` shows all versions.
    """
    with open_store(store, create=False) as opened:
        try:
            record = opened.undo_query(key)
        except KeyError:
            raise TamisError(f"no query has the key '{key}'; `tamis query list` lists all keys") from None
    if as_json:
        output.data_json(dataclasses.asdict(record) if record else {"removed": key})
    if record is None:
        output.success(f"removed {key}, which had no version before")
    else:
        output.success(f"{key} is again: {record.text} (version {record.version})")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file of queries: lines of `key: selector`, or TOML.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the queries of a file, each as if added by hand: all of them, or none if one cannot be parsed.

    With `tamis query apply` the file rules over its queries, instead.
    """
    from tamis.query import load_queries

    with open_store(store, create=True) as opened:
        warnings = check_against_pipeline(opened, load_queries(file))
        counts = opened.import_queries(file)
    if as_json:
        told = {key: some for key, some in warnings.items() if some}
        output.data_json({**dataclasses.asdict(counts), **({"warnings": told} if told else {})})
    output.success(f"{counts.added} added, {counts.changed} changed, {counts.unchanged} unchanged")


def _canonical(record: QueryRecord) -> str:
    from tamis.query import compile_query

    return str(compile_query(record.text, record.language))


def _show(record: QueryRecord, is_valid: bool) -> None:
    """Print one version as lines of ``name: value``."""
    rows = {
        "key": record.key,
        "version": f"{record.version}{'' if is_valid else ' (no longer valid)'}",
        "added": record.created_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "from": record.origin or "hand",
        "owner": record.owner or "-",
        "language": record.language,
        "text": record.text,
        "selector": _canonical(record),
        "tags": ", ".join(record.tags) or "-",
        "deliveries": ", ".join(record.deliveries) or "the pipeline's default",
    }
    for name, value in rows.items():
        output.data(f"{name + ':':<12}{value}")
    output.data("")
