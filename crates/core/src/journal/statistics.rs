//! Counts what a log has written since it was opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts of what a log has written since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The number of records.
    pub records: u64,
    /// The bytes of the records, including their headers.
    pub written_bytes: u64,
    /// The number of syncs of its segments.
    pub syncs: u64,
    /// The total time of these syncs, in microseconds.
    pub sync_us: u64,
    /// The time of the longest sync, in microseconds.
    pub sync_us_max: u64,
}

/// The counters behind [`Statistics`]. Each is right by itself; they need not be of the same moment.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    records: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
    sync_us: AtomicU64,
    sync_us_max: AtomicU64,
}

impl Counters {
    pub fn wrote(&self, records: u64, size_bytes: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
        self.written_bytes.fetch_add(size_bytes, Ordering::Relaxed);
    }

    pub fn synced(&self, time: Duration) {
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_us.fetch_add(time_us, Ordering::Relaxed);
        self.sync_us_max.fetch_max(time_us, Ordering::Relaxed);
    }

    pub fn read(&self) -> Statistics {
        let [records, written_bytes, syncs, sync_us, sync_us_max] =
            [&self.records, &self.written_bytes, &self.syncs, &self.sync_us, &self.sync_us_max]
                .map(|counter| counter.load(Ordering::Relaxed));
        Statistics { records, written_bytes, syncs, sync_us, sync_us_max }
    }
}
