"""The lists of streams, mailboxes and services, made of the broker's lists of queues and consumers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tamis.broker.addresses import MAILBOX_PREFIX, SERVICE_PREFIX

READERS_MAX = 500
"""Maximum number of readers that are shown with a stream: those furthest behind. The counts are of all."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """The columns in which a kind of queues is listed.

    Attributes:
        columns: name in the answer -> name in the list of queues.
        prefix: the prefix of the names of its queues, which is not shown.
    """

    columns: Mapping[str, str]
    prefix: str = ""

    def has(self, queue: Mapping[str, Any]) -> bool:
        """Return whether a queue is of this kind."""
        return str(queue["name"]).startswith(self.prefix) if self.prefix else queue["type"] == "stream"

    def shown(self, queue: Mapping[str, Any]) -> Row:
        """Return the columns of a queue."""
        name = str(queue["name"]).removeprefix(self.prefix)
        return {"name": name, "vhost": queue["vhost"], **{key: queue[of] for key, of in self.columns.items()}}


WAITING = {"durable": "durable", "waiting": "ready", "waiting_bytes": "ready_bytes"}
KINDS = {
    "streams": Kind(
        {
            "durable": "durable",
            "arguments": "arguments",
            "messages": "ready",
            "size_bytes": "ready_bytes",
            "published": "published",
            "named_readers": "named_readers",
        }
    ),
    "mailboxes": Kind({**WAITING, "unacknowledged": "unacknowledged", "readers": "consumers"}, MAILBOX_PREFIX),
    "services": Kind({**WAITING, "at_work": "unacknowledged", "workers": "consumers"}, SERVICE_PREFIX),
}


def with_readers(streams: Iterable[Row], consumers: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return streams with their readers, furthest behind first: live or replaying, credit, and lag in messages."""
    of: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for consumer in consumers:
        if consumer["lag"] is not None:
            of[consumer["vhost"], consumer["queue"]].append(_reader(consumer))
    return [_with_readers(stream, of[stream["vhost"], stream["name"]]) for stream in streams]


def _with_readers(stream: Row, readers: list[Row]) -> Row:
    readers.sort(key=lambda reader: -reader["lag"])
    live_count = sum(reader["state"] == "live" for reader in readers)
    return {
        **stream,
        "readers_live": live_count,
        "readers_replaying": len(readers) - live_count,
        "lag_max": readers[0]["lag"] if readers else 0,
        "readers": readers[:READERS_MAX],
    }


def _reader(consumer: Mapping[str, Any]) -> Row:
    """Return a reader; its credit is None where it reads without acknowledgement."""
    prefetch_count, unacknowledged = consumer["prefetch_count"], consumer["unacknowledged"]
    return {
        "connection": consumer["connection"],
        "channel": consumer["channel"],
        "tag": consumer["tag"],
        "state": "live" if consumer["live"] else "replaying",
        "credit": max(0, prefetch_count - unacknowledged) if prefetch_count else None,
        "prefetch_count": prefetch_count,
        "unacknowledged": unacknowledged,
        "lag": consumer["lag"],
    }
