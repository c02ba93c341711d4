//! The counters and gauges of the data plane by their names.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tamis_core::broker::{JournalMetrics, Metrics};

pub(super) fn metrics_to_py<'py>(py: Python<'py>, metrics: &Metrics) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    for (name, value) in [
        ("published", metrics.published),
        ("unroutable", metrics.unroutable),
        ("returned", metrics.returned),
        ("enqueued", metrics.enqueued),
        ("delivered", metrics.delivered),
        ("redelivered", metrics.redelivered),
        ("acknowledged", metrics.acknowledged),
        ("requeued", metrics.requeued),
        ("dropped", metrics.dropped),
        ("expired", metrics.expired),
        ("letters", metrics.letters),
        ("letters_unroutable", metrics.letters_unroutable),
        ("refused", metrics.refused),
        ("senders_waited", metrics.senders_waited),
        ("senders_waiting", metrics.senders_waiting),
        ("consumer_timeouts", metrics.consumer_timeouts),
        ("mailboxes", metrics.mailboxes),
        ("mailbox_messages", metrics.mailbox_messages),
        ("services", metrics.services),
        ("service_requests_waiting", metrics.service_requests_waiting),
        ("service_requests_at_work", metrics.service_requests_at_work),
        ("service_workers_ready", metrics.service_workers_ready),
        ("stream_readers_live", metrics.stream_readers_live),
        ("stream_readers_replaying", metrics.stream_readers_replaying),
        ("stream_credit", metrics.stream_credit),
        ("stream_lag_max", metrics.stream_lag_max),
        ("confirms", metrics.confirms),
        ("lost", metrics.lost),
        ("bodies_unread", metrics.bodies_unread),
        ("matches_cut", metrics.matches_cut),
        ("topology_bytes", metrics.topology_bytes),
        ("bytes_in", metrics.bytes_in),
        ("bytes_out", metrics.bytes_out),
        ("connections_made", metrics.connections_made),
        ("errors", metrics.errors),
        ("connections", metrics.connections),
        ("channels", metrics.channels),
        ("consumers", metrics.consumers),
        ("queues", metrics.queues),
        ("messages", metrics.messages),
        ("messages_ready", metrics.messages_ready),
        ("messages_unacknowledged", metrics.messages_unacknowledged),
        ("letters_waiting", metrics.letters_waiting),
        ("message_bytes", metrics.message_bytes),
        ("blocked", metrics.blocked),
        ("events_dropped", metrics.events_dropped),
    ] {
        row.set_item(name, value)?;
    }
    Ok(row)
}

pub(super) fn journal_to_py(row: &Bound<'_, PyDict>, journal: &JournalMetrics) -> PyResult<()> {
    for (name, value) in [
        ("journal_bytes", journal.file_bytes),
        ("journal_live_bytes", journal.live_bytes),
        ("journal_segments", journal.segments),
        ("journal_waiting_bytes", journal.waiting_bytes),
        ("journal_records", journal.statistics.records),
        ("journal_written_bytes", journal.statistics.written_bytes),
        ("journal_commits", journal.statistics.syncs),
        ("journal_sync_us", journal.statistics.sync_us),
        ("journal_sync_us_max", journal.statistics.sync_us_max),
        ("streams_bytes", journal.stream_bytes),
    ] {
        row.set_item(name, value)?;
    }
    Ok(())
}
