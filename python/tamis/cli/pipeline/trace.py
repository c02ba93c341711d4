"""The command `tamis trace`, which follows one message: read, matched, notified, delivered, on one screen."""

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
    from tamis.store import DeliveryRecord, DeliveryStep, MessageRow, NotificationRecord, Trace
    from tamis.store.seen import SeenRecord
    from tamis.store.traces import Memory

_PLACE = ("source", "partition", "offset", "digest")
_Place = tuple[str, str, int, str]


def trace(
    message: Annotated[
        str,
        typer.Argument(
            help="Its Message-ID, its digest, its place as FILE:OFFSET, or the id of a notification.",
            metavar="MESSAGE-ID",
        ),
    ],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow one message: where and when it was read, which queries it matched and why, and each step of deliveries."""
    with open_store(store, create=False) as opened:
        found = opened.trace(message)
        if not found.places and not found.dead_letters and not found.seen:
            raise TamisError(_unknown(message, opened.memory()))
        ids = [record.id for record in found.notifications]
        steps = opened.delivery_steps(ids)
        deliveries = {key: opened.deliveries(notification_id=key)[::-1] for key in ids}
    if as_json:
        output.data_json(_as_dict(found, deliveries, steps))
        return
    for line in _lines(found, deliveries, steps):
        output.data(line)


def _unknown(message: str, memory: Memory) -> str:
    """Say that a message is not known, and why that may be."""
    kept, unread = "messages that matched or could not be read", "(`tamis adapter list` shows how far each adapter is)"
    if memory.since is not None:
        kept = f"every message that was read since {_time(memory.since)}, and older ones that matched"
        why = f"It was not read yet {unread}, or before that time."
    else:
        why = f"It was not read yet {unread}, or it matches no query (`tamis explain` says why)."
    told = f"no message with the id '{message}' is in the store, which keeps {kept}. {why}"
    for folder in memory.tables:
        told += f" Results of this pipeline are in Delta tables, which `tamis trace` does not read: look in {folder}."
    return told


def _lines(found: Trace, deliveries: dict[str, list[DeliveryRecord]], steps: list[DeliveryStep]) -> Iterator[str]:
    from tamis.store import place_text

    readings = _readings(found)
    if found.places:
        properties = properties_of(found.places[0].properties)
        yield f"Message {properties.get('message_id') or found.places[0].digest}"
        yield from (f"  {name}: {properties[name]}" for name in ("subject", "author", "date") if properties.get(name))
    elif found.seen:
        yield f"Message {found.seen[0].message_id or found.seen[0].digest}"
    for number, (place, records) in enumerate(readings.items()):
        again = "found again, so nobody is told twice" if number else "found"
        read = ", ".join(f"{_time(it.at)} in batch {it.batch_id}" for it in records)
        yield f"{again}: {place_text(*place)}" + (f", read {read}" if read else "")
    for letter in found.dead_letters:
        yield f"could not be read: dead letter {letter.number}, {_time(letter.created_at)}: {letter.reason}"
    if found.seen and not found.notifications:
        yield _unmatched(found.seen)
    for record in found.notifications:
        yield from _notification(record, deliveries[record.id], steps)


def _readings(found: Trace) -> dict[_Place, list[SeenRecord]]:
    """Return each place of the message, and the notes of reading it there."""
    readings: dict[_Place, list[SeenRecord]] = {_place(it): [] for it in found.places}
    for record in found.seen:
        readings.setdefault(_place(record), []).append(record)
    return readings


def _place(it: MessageRow | SeenRecord) -> _Place:
    return it.source, it.partition, it.offset, it.digest


def _unmatched(seen: tuple[SeenRecord, ...]) -> str:
    """Say why there is no notification about a message that was read."""
    if matches := max(it.matches for it in seen):
        queries = output.counted(matches, "query", "queries")
        return f"matched: {queries}; the notifications are not in the store: deleted, or made at another place"
    return "matched: no query; `tamis explain` says why"


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
    topics = {_place(it): it.topic for it in found.places}
    return {
        "properties": properties_of(found.places[0].properties) if found.places else None,
        "found": [
            dict(zip(_PLACE, place, strict=True))
            | {
                "topic": topics.get(place),
                "read": [{"at": it.at, "batch": it.batch_id, "matches": it.matches} for it in records],
            }
            for place, records in _readings(found).items()
        ],
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
