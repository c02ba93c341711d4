"""The command `tamis query`, which manages the standing queries of a store.

A running pipeline uses a change from its next batch on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.options import JsonOption, StoreOption, open_store
from tamis.cli.queries.against_pipeline import check_against_pipeline
from tamis.cli.queries.apply import apply
from tamis.cli.queries.try_query import try_
from tamis.errors import TamisError
from tamis.store_place import place_of

if TYPE_CHECKING:
    from tamis.store import QueryRecord, Store
    from tamis.store.queries import Queries
    from tamis.store_place import Place

app = typer.Typer(
    help="Try, add, list, show, pause, resume, expire, remove, undo, apply and import standing queries.",
    no_args_is_help=True,
)
app.command()(apply)
app.command("try")(try_)

EXPIRY_FORMS = "a date (its last day, in UTC), a time, or a duration as 30d (m, h, d, w)"
AsOption = Annotated[
    str | None,
    typer.Option("--as", metavar="OWNER", help="Act as this owner, who may only change queries of their own."),
]
KeyArgument = Annotated[str, typer.Argument(help="The query's key.")]


@app.command()
def add(
    key: KeyArgument,
    text: Annotated[str, typer.Argument(help="The query, in its language.")],
    language: Annotated[
        str,
        typer.Option(
            help="selector, cbm, boolean, boolean:NAME, topic, topic:openamq, topic:openamq-program, prefix, regex, "
            "fields, text, near, predicate."
        ),
    ] = "selector",
    owner: Annotated[str, typer.Option(help="The owner of the query; default: that of --as.")] = "",
    delivery: Annotated[list[str] | None, typer.Option(help="The delivery of its matches; may be repeated.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A free word; may be repeated.")] = None,
    expires: Annotated[str | None, typer.Option(help=f"When it stops matching: {EXPIRY_FORMS}.")] = None,
    acting: AsOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a query, or its next version if the key exists with other content.

    A query that stands in a file is changed there: see `tamis query apply`.
    """
    from tamis.query import QuerySpec

    if not key:
        raise TamisError("expected a key that is not empty")
    spec = QuerySpec(key, text, language, owner, tuple(tag or ()), tuple(delivery or ()), expires_at=_expiry(expires))
    with open_store(store, create=True) as opened:
        warnings = check_against_pipeline(opened, [spec])
        record = _acting(opened, acting).add_query(spec)
    if as_json:
        output.data_json({**_plain(record), "warnings": warnings[key]})
    output.success(f"{record.key} is stored, version {record.version}")


@app.command("list")
def list_(
    owner: Annotated[str | None, typer.Option(help="Only queries of this owner.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only queries with this tag; with several, with all.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the queries in the order in which they were added."""
    with open_store(store, create=False) as opened:
        records = opened.list_queries(owner, tag or ())
    if as_json:
        for record in records:
            output.data_json(_plain(record))
        return
    header = ("KEY", "VERSION", "STATE", "LANGUAGE", "OWNER", "TAGS", "DELIVERIES", "FROM", "TEXT")
    rows = [
        (
            *(it.key, it.version, _state(it), it.language, it.owner or None, ", ".join(it.tags) or None),
            ", ".join(it.deliveries) or None,
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
            output.data_json({**_plain(record), "valid": is_valid, "canonical": _canonical(record)})
        else:
            _show(record, is_valid)


@app.command()
def remove(key: KeyArgument, acting: AsOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Remove a query. Its matches stay recorded. A query that stands in a file is removed there."""
    with open_store(store, create=False) as opened:
        try:
            _acting(opened, acting).remove_query(key)
        except KeyError:
            raise TamisError(f"no query has the key '{key}'; `tamis query list` lists all keys") from None
    if as_json:
        output.data_json({"removed": key})
    output.success(f"removed {key}")


@app.command()
def undo(key: KeyArgument, acting: AsOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Take back the last change of a query: its former content comes back, or it goes if it was new.

    Undoing twice changes nothing. `tamis query show` shows all versions.
    """
    with open_store(store, create=False) as opened:
        try:
            record = _acting(opened, acting).undo_query(key)
        except KeyError:
            raise TamisError(f"no query has the key '{key}'; `tamis query list` lists all keys") from None
    if as_json:
        output.data_json(_plain(record) if record else {"removed": key})
    if record is None:
        output.success(f"removed {key}, which had no version before")
    else:
        output.success(f"{key} is again: {record.text} (version {record.version}, {_state(record)})")


@app.command()
def pause(key: KeyArgument, acting: AsOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Let a query match nothing, from the next batch on, until it is resumed. This is a new version of it."""
    _change(store, acting, as_json, key, lambda queries: queries.pause_query(key))


@app.command()
def resume(key: KeyArgument, acting: AsOption = None, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Let a paused query match again, from the next batch on. What was read meanwhile is not matched."""
    _change(store, acting, as_json, key, lambda queries: queries.resume_query(key))


@app.command()
def expire(
    key: KeyArgument,
    when: Annotated[str, typer.Argument(help=f"When it stops matching: {EXPIRY_FORMS}; or never.")],
    acting: AsOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say when a query stops matching, or that it never does. This is a new version of it."""
    at = None if when == "never" else _expiry(when)
    _change(store, acting, as_json, key, lambda queries: queries.expire_query(key, at))


@app.command("import")
def import_(
    file: Annotated[
        Path,  # or a ServerUrl: see StoreOption
        typer.Argument(
            help="A file of queries (lines of `key: selector`, or TOML), or another store.",
            parser=place_of,
            metavar="FILE",
        ),
    ],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the queries of a file or another store, each as if added by hand: all, or none if one cannot be parsed.

    With `tamis query apply`, in contrast, the queries can from then on be changed in the file only.
    """
    from tamis.cli.queries.load import is_store, read_queries
    from tamis.store import Store

    with open_store(store, create=True) as opened:
        warnings = check_against_pipeline(opened, read_queries(file)[0])
        if is_store(file):
            with Store.open(file, create=False) as other:
                counts = opened.copy_store(other)
        else:
            counts = opened.import_queries(file)
    if as_json:
        told = {key: some for key, some in warnings.items() if some}
        output.data_json({**dataclasses.asdict(counts), **({"warnings": told} if told else {})})
    output.success(f"{counts.added} added, {counts.changed} changed, {counts.unchanged} unchanged")


def _acting(store: Store, owner: str | None) -> Queries:
    """Return the queries as an owner may change them, or as the administrator may."""
    if owner is None:
        return store
    if not owner:
        raise TamisError("--as: expected the name of an owner")
    return store.as_owner(owner)


def _change(
    store: Place | None, acting: str | None, as_json: bool, key: str, change: Callable[[Queries], QueryRecord]
) -> None:
    """Change a query of the store, and say how it is then."""
    with open_store(store, create=False) as opened:
        try:
            record = change(_acting(opened, acting))
        except KeyError:
            raise TamisError(f"no query has the key '{key}'; `tamis query list` lists all keys") from None
    if as_json:
        output.data_json(_plain(record))
    output.success(f"{key} is {_state(record)}, version {record.version}")


def _expiry(text: str | None) -> datetime | None:
    from tamis.query.expiry import parse_expiry

    try:
        return None if text is None else parse_expiry(text, datetime.now(UTC))
    except ValueError as error:
        raise TamisError(str(error)) from None


def _state(record: QueryRecord) -> str:
    """Return ``active``, ``paused`` or ``expired``, and until or since when."""
    state = record.spec().state(datetime.now(UTC))
    if record.expires_at is None:
        return state
    return f"{state} {'since' if state == 'expired' else 'until'} {record.expires_at:%Y-%m-%d %H:%M}"


def _plain(record: QueryRecord) -> dict[str, Any]:
    """Return a version as JSON has it."""
    return {**dataclasses.asdict(record), "state": record.spec().state(datetime.now(UTC))}


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
        "state": _state(record),
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
