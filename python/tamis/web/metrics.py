"""Renders the broker's counters for Prometheus.

There are totals only: the number of labels per queue would be unbounded.

Source: https://prometheus.io/docs/practices/naming/ (base units, ``_total`` for counters)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricForm(NamedTuple):
    """A number of the broker as metrics show it: name, help text, and its factor to base units."""

    name: str
    help: str
    factor: float = 1


COUNTERS = {
    "published": MetricForm("messages_published", "Messages that clients published."),
    "unroutable": MetricForm("messages_unroutable", "Published messages that no queue received."),
    "returned": MetricForm("messages_returned", "Unroutable messages returned to their publisher (mandatory)."),
    "enqueued": MetricForm("messages_enqueued", "Queue entries: a message counts once per queue."),
    "delivered": MetricForm("messages_delivered", "Deliveries to consumers and to basic.get."),
    "redelivered": MetricForm("messages_redelivered", "Deliveries of messages that had been delivered before."),
    "acknowledged": MetricForm("messages_acknowledged", "Deliveries that were acknowledged."),
    "requeued": MetricForm("messages_requeued", "Deliveries that were returned to their queue."),
    "dropped": MetricForm("messages_dropped", "Queue entries dropped by a full queue, or rejected without requeue."),
    "expired": MetricForm("messages_expired", "Queue entries that expired."),
    "letters": MetricForm("dead_letters_published", "Dead letters that were put into queues and streams."),
    "letters_unroutable": MetricForm(
        "dead_letters_unroutable", "Dead letters that no queue received, or that would have gone round for ever."
    ),
    "refused": MetricForm("messages_refused", "Messages that a full queue refused."),
    "senders_waited": MetricForm("messages_waited", "Messages that had to wait until a full queue had room."),
    "consumer_timeouts": MetricForm(
        "consumer_timeouts", "Channels closed because a delivery was not acknowledged in its time."
    ),
    "bodies_unread": MetricForm("bodies_unread", "Messages with a body too large for a query that asked for it."),
    "matches_cut": MetricForm("matches_cut", "Messages whose matching would have taken too long."),
    "lost": MetricForm("messages_lost", "Messages that could not be read back from the journal."),
    "confirms": MetricForm("confirms_sent", "Publisher confirms; one may confirm many messages."),
    "bytes_in": MetricForm("received_bytes", "Bytes read from connections."),
    "bytes_out": MetricForm("sent_bytes", "Bytes written to connections."),
    "connections_made": MetricForm("connections_opened", "Connections that were opened."),
    "errors": MetricForm("protocol_errors", "Channels and connections closed because of an error of their client."),
    "events_dropped": MetricForm("log_events_dropped", "Log events that were dropped because the log was slow."),
    "cpu_s": MetricForm("cpu_seconds", "CPU time of the broker's process."),
    "journal_commits": MetricForm("journal_commits", "Number of syncs of the journal to disk."),
    "journal_records": MetricForm("journal_records", "Records written to the journal."),
    "journal_written_bytes": MetricForm("journal_written_bytes", "Bytes written to the journal."),
    "journal_sync_us": MetricForm("journal_sync_seconds", "Time spent syncing the journal.", 1e-6),
}
"""Name in the broker's answer -> counter, to which ``tamis_`` and ``_total`` are added."""

GAUGES = {
    "connections": MetricForm("connections", "Open connections."),
    "channels": MetricForm("channels", "Open channels."),
    "consumers": MetricForm("consumers", "Consumers."),
    "queues": MetricForm("queues", "Queues."),
    "mailboxes": MetricForm("mailboxes", "Mailboxes."),
    "mailbox_messages": MetricForm("mailbox_messages", "Messages that wait in mailboxes."),
    "services": MetricForm("services", "Services."),
    "service_requests_waiting": MetricForm("service_requests_waiting", "Requests that wait for a worker."),
    "service_requests_at_work": MetricForm(
        "service_requests_at_work", "Requests that workers have not acknowledged yet."
    ),
    "service_workers_ready": MetricForm("service_workers_ready", "Workers that can take a request."),
    "stream_readers_live": MetricForm("stream_readers_live", "Readers at the end of their stream."),
    "stream_readers_replaying": MetricForm("stream_readers_replaying", "Readers that read the log of their stream."),
    "stream_credit": MetricForm(
        "stream_credit", "Messages that readers with a prefetch may get before they acknowledge."
    ),
    "stream_lag_max": MetricForm(
        "stream_lag_max", "Messages that the reader furthest behind has yet to read, away named readers included."
    ),
    "senders_waiting": MetricForm("senders_waiting", "Messages that wait until a full queue has room."),
    "messages": MetricForm("messages", "Messages in queues or not acknowledged. One in many queues counts once."),
    "messages_ready": MetricForm("messages_ready", "Queue entries that wait for a consumer."),
    "messages_unacknowledged": MetricForm("messages_unacknowledged", "Deliveries that are not acknowledged yet."),
    "letters_waiting": MetricForm("dead_letters_waiting", "Dead letters that wait until they can be published."),
    "message_bytes": MetricForm("messages_memory_bytes", "Memory used by messages."),
    "memory_counted_bytes": MetricForm("memory_counted_bytes", "Memory of everything that counts towards the limit."),
    "memory_limit_bytes": MetricForm("memory_limit_bytes", "Counted memory above which publishers wait."),
    "memory_messages_bytes": MetricForm("memory_messages_bytes", "Counted memory: messages, without their entries."),
    "memory_entries_bytes": MetricForm("memory_entries_bytes", "Counted memory: entries of queues."),
    "memory_unacknowledged_bytes": MetricForm(
        "memory_unacknowledged_bytes", "Counted memory: deliveries that are not acknowledged."
    ),
    "memory_unfinished_bytes": MetricForm(
        "memory_unfinished_bytes", "Counted memory: incomplete messages and open transactions."
    ),
    "memory_letters_bytes": MetricForm("memory_letters_bytes", "Counted memory: dead letters on their way."),
    "memory_buffers_bytes": MetricForm("memory_buffers_bytes", "Counted memory: input and output of connections."),
    "memory_connections_bytes": MetricForm(
        "memory_connections_bytes", "Counted memory: connections, channels and consumers."
    ),
    "memory_definitions_bytes": MetricForm(
        "memory_definitions_bytes", "Counted memory: queues, exchanges, bindings and their queries, remembered routes."
    ),
    "memory_journal_bytes": MetricForm(
        "memory_journal_bytes", "Counted memory: places of live records, and records that wait to be written."
    ),
    "blocked": MetricForm("publishers_blocked", "1 while publishers wait for memory or disk."),
    "memory_uncounted_bytes": MetricForm(
        "memory_uncounted_bytes", "Memory of the process beyond what is counted and tolerated."
    ),
    "memory_bytes": MetricForm("resident_memory_bytes", "Memory of the broker's process."),
    "sockets": MetricForm("sockets", "Sockets of clients, including those that have not logged in."),
    "sockets_max": MetricForm("sockets_limit", "Maximum number of sockets."),
    "stall_s_max": MetricForm("event_loop_stall_seconds_max", "Longest stall of the event loop since the start."),
    "stall_s_recent": MetricForm("event_loop_stall_seconds_recent", "Longest stall of the last minute."),
    "stall_s_max_cpu_s": MetricForm(
        "event_loop_stall_cpu_seconds_max", "How much of the longest stall since the start was work, at most."
    ),
    "stall_s_max_core_wait_s": MetricForm(
        "event_loop_stall_core_wait_seconds_max",
        "How much of the longest stall since the start was waiting for a core, at most.",
    ),
    "stall_s_recent_cpu_s": MetricForm(
        "event_loop_stall_cpu_seconds_recent", "How much of the longest stall of the last minute was work, at most."
    ),
    "stall_s_recent_core_wait_s": MetricForm(
        "event_loop_stall_core_wait_seconds_recent",
        "How much of the longest stall of the last minute was waiting for a core, at most.",
    ),
    "topology_bytes": MetricForm(
        "topology_memory_bytes", "Memory of compiled queries, bindings, exchanges and queues."
    ),
    "started_s": MetricForm("start_time_seconds", "When the broker was started, in seconds since 1970."),
    "journal_bytes": MetricForm("journal_size_bytes", "Size of the journal on disk."),
    "journal_live_bytes": MetricForm(
        "journal_live_bytes", "Size of the journal's live records: messages, definitions."
    ),
    "journal_segments": MetricForm("journal_segments", "Number of files of the journal, without spare ones."),
    "journal_sync_us_max": MetricForm("journal_sync_seconds_max", "Longest sync of the journal since the start.", 1e-6),
    "journal_waiting_bytes": MetricForm("journal_waiting_bytes", "Bytes that wait to be written to the journal."),
    "streams_bytes": MetricForm("streams_size_bytes", "Size of the streams on disk."),
}
"""Name in the broker's answer -> gauge, to which ``tamis_`` is added."""

NOT_SHOWN = {"pid", "now_us"}
"""Numbers that are not worth a time series."""


def render(overview: dict[str, Any] | None) -> bytes:
    """Return the text that Prometheus reads.

    Args:
        overview: the broker's answer; None without one: then there is only ``tamis_up``, with the value 0.
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
        info = GaugeMetricFamily("tamis_build_info", "The version of the broker.", labels=("version",))
        info.add_metric((str(about.get("version", "")),), 1)
        yield info
        yield from _families({**about, **self._overview.get("metrics", {})})


def _families(numbers: dict[str, Any]) -> Iterator[Metric]:
    for key, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or key in NOT_SHOWN:
            continue
        if form := COUNTERS.get(key):
            yield CounterMetricFamily(f"tamis_{form.name}", form.help, value=value * form.factor)
            continue
        form = GAUGES.get(key) or MetricForm(key, "The number that the broker has under this name.")
        if isinstance(cause := numbers.get(f"{key}_cause"), str):
            gauge = GaugeMetricFamily(f"tamis_{form.name}", form.help, labels=("cause",))
            gauge.add_metric((cause,), value * form.factor)
            yield gauge
        else:
            yield GaugeMetricFamily(f"tamis_{form.name}", form.help, value=value * form.factor)
