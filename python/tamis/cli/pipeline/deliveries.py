"""The command `tamis deliveries`, which shows the log of deliveries with its reasons, and tries dead ones again."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Annotated

import typer

from tamis.cli import output
from tamis.cli.options import JsonOption, StoreOption, open_store
from tamis.cli.pipeline.outbox import SHOWN_ID, IdArgument, LimitOption, QueryOption, named, told, told_step
from tamis.errors import TamisError

app = typer.Typer(help="List, show and retry deliveries: each notification on each way out.", no_args_is_help=True)


class DeliveryState(StrEnum):
    """The state of a delivery."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


NameOption = Annotated[str | None, typer.Option("--delivery", help="Only of this [[delivery]].")]


@app.command("list")
def list_(
    state: Annotated[DeliveryState | None, typer.Option(help="Only of this state.")] = None,
    delivery: NameOption = None,
    query: QueryOption = None,
    limit: LimitOption = 100,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List deliveries, the newest first: the state of each, its tries, when it is tried again, and why."""
    with open_store(store, create=False) as opened:
        wanted = state.value if state is not None else None
        records = opened.deliveries(limit, state=wanted, name=delivery, query_key=query)  # type: ignore[arg-type]
        counts = opened.delivery_counts()
    if as_json:
        for record in records:
            output.data_json(dataclasses.asdict(record))
        return
    rows = [
        (
            *(it.notification_id[:SHOWN_ID], it.query_key, it.delivery, it.state, it.attempts, it.updated_at),
            *(it.next_attempt_at if it.state == "pending" else None, it.reason),
        )
        for it in records
    ]
    output.table(("ID", "QUERY", "DELIVERY", "STATE", "TRIES", "CHANGED", "NEXT TRY", "REASON"), rows, numbers=(4,))
    for name, by_state in counts.items():
        output.note(f"{name}: " + ", ".join(f"{by_state[one]:,} {one}" for one in sorted(by_state)))


@app.command()
def show(notification: IdArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show each delivery of a notification, with every step and the recipients that are settled."""
    with open_store(store, create=False) as opened:
        number = named(opened, notification).id
        records, steps = opened.deliveries(notification_id=number), opened.delivery_steps([number])
    for record in records:
        own = [step for step in steps if step.delivery == record.delivery]
        if as_json:
            told_steps = [{"at": step.at, "step": step.step, "reason": step.reason} for step in own]
            output.data_json(dataclasses.asdict(record) | {"steps": told_steps})
            continue
        output.data(f"{record.delivery}: {told(record)}")
        for step in own:
            output.data(f"  {told_step(step)}")
        for recipient, refusal in record.recipients.items():
            output.data(f"  {recipient}: {refusal or 'delivered'}")
    if not records and not as_json:
        output.note("this notification has no deliveries: it stays in the store")


@app.command()
def retry(
    notification: Annotated[
        str | None, typer.Argument(help="Only of this notification: its id, or its beginning.")
    ] = None,
    delivery: NameOption = None,
    query: QueryOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make dead deliveries pending again, with all their tries; a running pipeline tries them within a second."""
    with open_store(store, create=False) as opened:
        if delivery is not None and delivery not in (known := opened.delivery_counts()):
            raise TamisError(f"no delivery is named '{delivery}'; there are: {', '.join(sorted(known)) or 'none'}")
        if query is not None and not opened.query_history(query):
            raise TamisError(f"no query ever had the key '{query}'; `tamis query list` lists those that there are")
        of_one = named(opened, notification).id if notification is not None else None
        count = opened.retry_dead(delivery, of_one, query_key=query)
    if as_json:
        output.data_json({"retried": count})
    output.success(output.counted(count, "dead delivery is", "dead deliveries are") + " pending again")
