"""The command `tamis trace`, which follows one message: found, matched, notified, delivered, on one screen."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli import output
from tamis.cli.options import JsonOption, StoreOption, open_store
from tamis.cli.pipeline.outbox import SHOWN_ID, properties_of, told, told_step
from tamis.errors import TamisError

if TYPE_CHECKING:
    from tamis.store import DeliveryRecord, DeliveryStep, NotificationRecord, Trace

_MESSAGE_FIELDS = ("source", "partition", "offset", "digest", "topic")


def trace(
    message: Annotated[
        str, typer.Argument(help="Its Message-ID, its digest, or the id of a notification.", metavar="MESSAGE-ID")
    ],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow one message: where it was found, which queries it matched and why, and every step of each delivery."""
    with open_store(store, create=False) as opened:
        found = opened.trace(message)
        ids = [record.id for record in found.notifications]
        steps = opened.delivery_steps(ids)
        deliveries = {key: opened.deliveries(notification_id=key)[::-1] for key in ids}
    if not found.places and not found.dead_letters:
        raise TamisError(
            f"no message with the id '{message}' is in the store, which keeps messages that matched or could not be "
            "read. It was not read yet (`tamis adapter list` shows how far each adapter is), or it matches no query "
            "(`tamis explain` says why)"
        )
    if as_json:
        output.data_json(_as_dict(found, deliveries, steps))
        return
    for line in _lines(found, deliveries, steps):
        output.data(line)


def _lines(found: Trace, deliveries: dict[str, list[DeliveryRecord]], steps: list[DeliveryStep]) -> Iterator[str]:
    if found.places:
        properties = properties_of(found.places[0].properties)
        yield f"Message {properties.get('message_id') or found.places[0].digest}"
        yield from (f"  {name}: {properties[name]}" for name in ("subject", "author", "date") if properties.get(name))
    for number, place in enumerate(found.places):
        again = "found again, so nobody is told twice" if number else "found"
        yield f"{again}: {place.source}, {place.partition}, byte {place.offset}"
    for letter in found.dead_letters:
        yield f"could not be read: dead letter {letter.number}, {_time(letter.created_at)}: {letter.reason}"
    for record in found.notifications:
        yield from _notification(record, deliveries[record.id], steps)


def _notification(
    record: NotificationRecord, deliveries: list[DeliveryRecord], steps: list[DeliveryStep]
) -> Iterator[str]:
    from tamis.notify.content import why

    version = f"{record.query_key} (version {record.query_version})"
    yield f"matched: {version}, {_time(record.created_at)}, notification {record.id[:SHOWN_ID]}"
    yield from (f"  because {reason}" for reason in why(record).reasons)
    if not deliveries:
        yield "  no delivery: it stays in the store"
    for delivery in deliveries:
        yield f"  {delivery.delivery}: {told(delivery)}"
        for step in steps:
            if (step.notification_id, step.delivery) == (record.id, delivery.delivery):
                yield f"    {told_step(step)}"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _as_dict(found: Trace, deliveries: dict[str, list[DeliveryRecord]], steps: list[DeliveryStep]) -> dict[str, Any]:
    """Return the trace for JSON, without the message's text."""
    from tamis.notify.content import why

    steps_of: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for step in steps:
        known = {"at": step.at, "step": step.step, "reason": step.reason}
        steps_of[step.notification_id, step.delivery].append(known)
    return {
        "properties": properties_of(found.places[0].properties) if found.places else None,
        "found": [{name: getattr(place, name) for name in _MESSAGE_FIELDS} for place in found.places],
        "dead_letters": [
            {"number": it.number, "source": it.source, "partition": it.partition, "offset": it.offset}
            | {"reason": it.reason, "at": it.created_at}
            for it in found.dead_letters
        ],
        "matched": [
            {
                "notification_id": record.id,
                "query": record.query_key,
                "version": record.query_version,
                "at": record.created_at,
                "reasons": list(why(record).reasons),
                "deliveries": [
                    dataclasses.asdict(it) | {"steps": steps_of[record.id, it.delivery]} for it in deliveries[record.id]
                ],
            }
            for record in found.notifications
        ],
    }
