"""The broker's counters as Prometheus reads them. Totals only: labels for each queue would grow with what clients do.

Source: https://prometheus.io/docs/practices/naming/ (base units, ``_total`` for counters)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Shown(NamedTuple):
    """How a number of the broker is shown: name, what it means, what one of it is in base units."""

    name: str
    help: str
    unit: float = 1


COUNTERS = {
    "published": Shown("messages_published", "Messages that clients published."),
    "unroutable": Shown("messages_unroutable", "Published messages that no queue took."),
    "returned": Shown("messages_returned", "Unroutable messages that went back to their publisher (mandatory)."),
    "enqueued": Shown("messages_enqueued", "Entries put into queues: a message counts once a queue."),
    "delivered": Shown("messages_delivered", "Deliveries to consumers and to basic.get."),
    "redelivered": Shown("messages_redelivered", "Deliveries of messages that had been delivered before."),
    "acknowledged": Shown("messages_acknowledged", "Deliveries that were acknowledged."),
    "requeued": Shown("messages_requeued", "Deliveries that were put back."),
    "dropped": Shown("messages_dropped", "Entries dropped from full queues, or rejected without requeue."),
    "expired": Shown("messages_expired", "Entries whose time had run out."),
    "refused": Shown("messages_refused", "Messages that a full queue refused."),
    "lost": Shown("messages_lost", "Messages that could not be read back from the journal."),
    "confirms": Shown("confirms_sent", "Publisher confirms; each may stand for many messages."),
    "bytes_in": Shown("received_bytes", "Bytes read from connections."),
    "bytes_out": Shown("sent_bytes", "Bytes written to connections."),
    "connections_made": Shown("connections_opened", "Connections that were ever open."),
    "errors": Shown("protocol_errors", "Channels and connections closed for what their client did."),
    "events_dropped": Shown("log_events_dropped", "Events that were dropped because the log was slow."),
    "cpu_s": Shown("cpu_seconds", "Processor time of the broker's process."),
    "journal_commits": Shown("journal_commits", "Times that the journal was synced to disk."),
    "journal_records": Shown("journal_records", "Records written to the journal."),
    "journal_written_bytes": Shown("journal_written_bytes", "Bytes written to the journal."),
    "journal_sync_us": Shown("journal_sync_seconds", "Time spent syncing the journal.", 1e-6),
}
"""Name in the broker's answer -> counter; ``tamis_`` and ``_total`` are put around it."""

GAUGES = {
    "connections": Shown("connections", "Open connections."),
    "channels": Shown("channels", "Open channels."),
    "consumers": Shown("consumers", "Consumers."),
    "queues": Shown("queues", "Queues."),
    "messages": Shown("messages", "Messages in queues or delivered and not acknowledged; one in many counts once."),
    "messages_ready": Shown("messages_ready", "Entries of queues that wait for a consumer."),
    "messages_unacknowledged": Shown("messages_unacknowledged", "Deliveries that wait for their acknowledgement."),
    "message_bytes": Shown("messages_memory_bytes", "What messages take in memory."),
    "blocked": Shown("publishers_blocked", "1 while publishers have to wait for memory or disk."),
    "memory_bytes": Shown("resident_memory_bytes", "Memory of the broker's process."),
    "sockets": Shown("sockets", "Sockets of clients, those that have not logged in included."),
    "sockets_max": Shown("sockets_limit", "So many sockets are taken."),
    "stall_s_max": Shown("event_loop_stall_seconds_max", "Longest time that the event loop was late, since the start."),
    "started_s": Shown("start_time_seconds", "When the broker was started, in seconds since 1970."),
    "journal_bytes": Shown("journal_size_bytes", "What the journal takes on disk."),
    "journal_live_bytes": Shown("journal_live_bytes", "How much of it is alive: messages, definitions."),
    "journal_segments": Shown("journal_segments", "Files of the journal, spare ones apart."),
    "journal_sync_us_max": Shown("journal_sync_seconds_max", "The longest sync of the journal since the start.", 1e-6),
    "journal_waiting_bytes": Shown("journal_waiting_bytes", "What waits to be written to the journal."),
    "streams_bytes": Shown("streams_size_bytes", "What streams take on disk."),
}
"""Name in the broker's answer -> gauge; ``tamis_`` is put before it."""

NOT_SHOWN = {"pid", "now_us"}
"""Numbers that say nothing over time."""


def render(overview: dict[str, Any] | None) -> bytes:
    """The text that Prometheus reads.

    Args:
        overview: the broker's answer; None when there is none: then ``tamis_up`` is 0 and nothing else is said.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(overview))
    return generate_latest(registry)


class _Collector:
    def __init__(self, overview: dict[str, Any] | None) -> None:
        self._overview = overview

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("tamis_up", "1 when the broker answers.", value=float(self._overview is not None))
        if self._overview is None:
            return
        about = self._overview.get("about", {})
        info = GaugeMetricFamily("tamis_build_info", "Which version this is.", labels=("version",))
        info.add_metric((str(about.get("version", "")),), 1)
        yield info
        yield from _families({**about, **self._overview.get("metrics", {})})


def _families(numbers: dict[str, Any]) -> Iterator[Metric]:
    for key, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or key in NOT_SHOWN:
            continue
        if shown := COUNTERS.get(key):
            yield CounterMetricFamily(f"tamis_{shown.name}", shown.help, value=value * shown.unit)
        else:
            shown = GAUGES.get(key) or Shown(key, "As the broker names it.")
            yield GaugeMetricFamily(f"tamis_{shown.name}", shown.help, value=value * shown.unit)
