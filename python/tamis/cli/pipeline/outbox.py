"""The command `tamis outbox`, which shows the notifications of a store: what matched, and what became of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.options import JsonOption, StoreOption, open_store
from tamis.errors import TamisError

if TYPE_CHECKING:
    from tamis.store import DeliveryRecord, DeliveryStep, NotificationRecord, Store

app = typer.Typer(help="List and show notifications: one for each match.", no_args_is_help=True)

SHOWN_ID = 12
"""Number of digits of an id in tables; any beginning of it names the notification."""

IdArgument = Annotated[str, typer.Argument(help="The notification's id, or its beginning.", metavar="ID")]
LimitOption = Annotated[int, typer.Option("--limit", "-m", min=1, help="Maximum number.")]
QueryOption = Annotated[str | None, typer.Option("--query", help="Only of this query.")]


@app.command("list")
def list_(
    query: QueryOption = None, limit: LimitOption = 100, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """List notifications, the newest first, with the state of their deliveries."""
    with open_store(store, create=False) as opened:
        records = opened.notifications(limit, query)
        pairs = [(record, opened.deliveries(notification_id=record.id)) for record in records]
    if as_json:
        for record, deliveries in pairs:
            output.data_json(as_dict(record, deliveries))
        return
    rows = [
        (it.id[:SHOWN_ID], it.created_at, it.query_key, it.source, _subject(it), _states(deliveries))
        for it, deliveries in pairs
    ]
    output.table(("ID", "MATCHED", "QUERY", "SOURCE", "SUBJECT", "DELIVERIES"), rows)


@app.command()
def show(notification: IdArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show a notification: its query, why it matched, its message, and each delivery with its reason."""
    with open_store(store, create=False) as opened:
        record = named(opened, notification)
        deliveries = opened.deliveries(notification_id=record.id)
    if as_json:
        output.data_json({**as_dict(record, deliveries), "text": record.query_text, "body": record.body})
        return
    from tamis.notify.mail import notification_text

    output.data(f"Notification {record.id}, {record.created_at:%Y-%m-%d %H:%M:%S} UTC")
    for delivery in deliveries:
        output.data(f"  {delivery.delivery}: {told(delivery)}")
    output.data("")
    for line in notification_text(record):
        output.data(line)


def named(store: Store, beginning: str) -> NotificationRecord:
    """Return the notification whose id begins so.

    Raises:
        TamisError: there is none, or there are several.
    """
    try:
        return store.find_notification(beginning)
    except KeyError:
        raise TamisError(f"no notification has the id '{beginning}'; `tamis outbox list` lists them") from None
    except ValueError as error:
        raise TamisError(str(error)) from None


def told(delivery: DeliveryRecord) -> str:
    """Return what became of a delivery, and why."""
    tries = f", {output.counted(delivery.attempts, 'try', 'tries')}" if delivery.attempts else ""
    again = f", again at {delivery.next_attempt_at:%Y-%m-%d %H:%M:%S} UTC" if delivery.state == "pending" else ""
    return f"{delivery.state}{tries}{again}" + (f": {delivery.reason}" if delivery.reason else "")


def told_step(step: DeliveryStep) -> str:
    """Return one line of the log of a delivery."""
    return f"{step.at:%Y-%m-%d %H:%M:%S} UTC  {step.step}" + (f": {step.reason}" if step.reason else "")


def as_dict(record: NotificationRecord, deliveries: list[DeliveryRecord]) -> dict[str, Any]:
    """Return a notification for JSON, without its texts."""
    names = (
        "id",
        "seq",
        "created_at",
        "query_key",
        "query_version",
        "source",
        "partition",
        "offset",
        "digest",
        "topic",
    )
    told_by_name = {
        it.delivery: {
            "state": it.state,
            "attempts": it.attempts,
            "reason": it.reason,
            "recipients": dict(it.recipients),
        }
        for it in deliveries
    }
    return {name: getattr(record, name) for name in names} | {
        "properties": properties_of(record.properties),
        "deliveries": told_by_name,
    }


def properties_of(text: str) -> dict[str, Any]:
    """Return properties from their JSON; empty where the text is none."""
    try:
        properties = json.loads(text)
    except ValueError:
        return {}
    return properties if isinstance(properties, dict) else {}


def _subject(record: NotificationRecord) -> str | None:
    return properties_of(record.properties).get("subject")


def _states(deliveries: list[DeliveryRecord]) -> str | None:
    return ", ".join(f"{it.delivery} {it.state}" for it in deliveries) or None
