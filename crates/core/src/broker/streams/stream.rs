//! A stream and a reader of it, as the queue and the consumer keep them.

use std::fmt;
use std::path::PathBuf;

use crate::journal::{SegmentNumber, Sequence};

use crate::broker::disk_waits::DiskWait;
use crate::broker::ids::{ConsumerSlot, LogId};
use crate::broker::streams::cursor::Cursor;
use crate::broker::streams::live_readers::LiveReaders;
use crate::broker::streams::reader_offset::{NamedReader, ReaderOffsets};
use crate::broker::streams::skipping::Skipping;
use crate::broker::topology::ConsumerFilter;

/// The log of a queue of type stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub log: LogId,
    pub dir: PathBuf,
    /// Readers that have read everything, and wait for more.
    pub(super) waiting: Vec<ConsumerSlot>,
    /// The synced end of the log when these readers were last woken.
    pub(super) woken: Sequence,
    /// Readers that are at the end; None before the first one, and while they are served.
    pub(super) live: Option<Box<LiveReaders>>,
    /// The last segment that was given to be summarized.
    pub(super) summarized: SegmentNumber,
    /// The offsets of named readers.
    pub(super) offsets: ReaderOffsets,
}

#[cfg(test)]
impl Stream {
    /// The number of distinct queries in the table of its live readers.
    pub fn query_count(&self) -> usize {
        self.live.as_ref().map_or(0, |live| live.query_count())
    }
}

/// The position and the query of a consumer of a stream.
pub(crate) struct StreamReader {
    pub(super) cursor: Cursor,
    pub(super) filter: Option<ConsumerFilter>,
    /// The summaries by which it skips messages; None if it has to read all.
    pub(super) skipping: Option<Box<Skipping>>,
    /// Its unacknowledged deliveries, if the broker keeps its offset.
    pub(super) named: Option<Box<NamedReader>>,
    pub(super) missed: u64,
    /// Whether it gets what comes from memory.
    pub(super) is_live: bool,
    /// Whether it is in the matching table of its stream.
    pub(super) is_listed: bool,
    /// How often it has fallen back from live delivery to the log.
    pub(super) fallbacks: u64,
    /// The bytes of the next record, if it waits for memory for it: until then it is not read again.
    pub(super) awaited_bytes: usize,
    /// Since when it has asked the disk for the next record.
    pub(super) disk_wait: DiskWait,
}

impl StreamReader {
    /// The query of the consumer, if it has one.
    pub fn filter(&self) -> Option<&ConsumerFilter> {
        self.filter.as_ref()
    }

    /// Let go of what was read ahead, and of the file of the summaries if there are too many files.
    pub(super) fn rest(&mut self, has_many_files: bool) {
        self.cursor.rest();
        if has_many_files && let Some(skipping) = &mut self.skipping {
            skipping.rest();
        }
    }

    /// Read on in the log, from this number.
    pub(super) fn return_to_log(&mut self, sequence: Sequence) {
        self.cursor.seek(sequence);
        self.is_live = false;
        self.fallbacks += 1;
    }
}

impl fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cursor.fmt(f)
    }
}
