"""The command `tamis unsubscribed`, which shows and changes which addresses have unsubscribed."""

from __future__ import annotations

from typing import Annotated

import typer

from tamis.cli import output
from tamis.cli.options import JsonOption, StoreOption, open_store
from tamis.errors import TamisError

app = typer.Typer(help="List, add and remove addresses that want no more e-mails.", no_args_is_help=True)

AddressArgument = Annotated[str, typer.Argument(help="The e-mail address.")]


@app.command("list")
def list_(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List who wants no more e-mails, and of which query; `all` is shown for every query."""
    with open_store(store, create=False) as opened:
        records = opened.unsubscriptions()
    if as_json:
        for record in records:
            output.data_json(record._asdict())
        return
    rows = [(it.address, it.query_key or "all", f"{it.created_at:%Y-%m-%d %H:%M:%S}") for it in records]
    output.table(("ADDRESS", "QUERY", "SINCE (UTC)"), rows)


@app.command()
def add(
    address: AddressArgument,
    query: Annotated[str, typer.Option(help="Of this query; default: of all.")] = "",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send an address no more e-mails, as if it had unsubscribed."""
    with open_store(store, create=False) as opened:
        opened.unsubscribe(address, query)
    if as_json:
        output.data_json({"address": address.lower(), "query_key": query})
    output.success(f"{address} gets no more e-mails of {repr(query) if query else 'any query'}")


@app.command()
def remove(
    address: AddressArgument,
    query: Annotated[str | None, typer.Option(help="Only for this query; default: for all.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send an address e-mails again, when its owner asked for that. What was not sent meanwhile is not sent."""
    with open_store(store, create=False) as opened:
        count = opened.resubscribe(address, query)
    if not count:
        raise TamisError(f"{address} has not unsubscribed; `tamis unsubscribed list` lists all who have")
    if as_json:
        output.data_json({"address": address.lower(), "removed": count})
    output.success(f"{address} gets e-mails again")
