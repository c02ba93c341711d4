"""The command `tamis dead`, which shows dead letters (messages that could not be read) and dead deliveries."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.options import JsonOption, StoreOption, open_store
from tamis.cli.pipeline.deliveries import retry
from tamis.cli.pipeline.outbox import SHOWN_ID, LimitOption
from tamis.cli.pipeline.outbox import show as show_notification
from tamis.errors import TamisError

app = typer.Typer(help="List, show and retry dead letters and dead deliveries.", no_args_is_help=True)
app.command()(retry)


@app.command("list")
def list_(
    source: Annotated[str | None, typer.Option(help="Only messages of this adapter.")] = None,
    limit: LimitOption = 100,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List dead letters (messages that could not be read) and dead deliveries, the newest first, with the reasons."""
    with open_store(store, create=False) as opened:
        letters = opened.dead_letters(limit, source)
        deliveries = opened.deliveries(limit, state="dead") if source is None else []
    rows: list[dict[str, Any]] = [
        {
            **{"kind": "letter", "id": str(it.number), "at": it.created_at, "reason": it.reason, "source": it.source},
            **{"partition": it.partition, "offset": it.offset, "digest": it.digest, "size_bytes": len(it.raw)},
        }
        for it in letters
    ]
    rows += [
        {
            **{"kind": "delivery", "id": it.notification_id, "at": it.updated_at, "reason": it.reason},
            **{"delivery": it.delivery, "query": it.query_key, "attempts": it.attempts},
        }
        for it in deliveries
    ]
    if as_json:
        for row in rows:
            output.data_json(row)
        return
    shown = [(row["kind"], row["id"][:SHOWN_ID], row["at"], _where(row), row["reason"]) for row in rows]
    output.table(("KIND", "ID", "WHEN", "WHERE", "REASON"), shown)


@app.command()
def show(
    dead: Annotated[str, typer.Argument(help="The number of a letter, or the id of a notification.", metavar="ID")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a dead letter, its bytes as they are, or a notification with dead deliveries."""
    with open_store(store, create=False) as opened:
        number = int(dead) if dead.isascii() and dead.isdigit() and len(dead) < SHOWN_ID else None
        letters = opened.dead_letters(1, number=number) if number is not None else []
    if not letters:
        if number is not None:
            raise TamisError(f"no dead letter has the number {number}; `tamis dead list` lists them")
        show_notification(dead, store, as_json)
        return
    (letter,) = letters
    if as_json:
        told = {"kind": "letter", "id": dead, "at": letter.created_at, "reason": letter.reason, "source": letter.source}
        place = {"partition": letter.partition, "offset": letter.offset, "digest": letter.digest}
        output.data_json({**told, **place, "raw": letter.raw.decode("utf-8", "backslashreplace")})
        return
    from tamis.store import place_text

    output.note(f"{letter.reason}\n{place_text(letter.source, letter.partition, letter.offset, letter.digest)}")
    output.hint("mend it there, or put a mended copy into the adapter's folder: it is read as a new message")
    sys.stdout.flush()
    sys.stdout.buffer.write(letter.raw)


def _where(row: dict[str, Any]) -> str:
    if row["kind"] == "letter":
        from tamis.store import place_text

        return place_text(row["source"], row["partition"], row["offset"], row["digest"])
    return f"{row['query']} to {row['delivery']}"
