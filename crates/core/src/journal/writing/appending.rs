//! The records that were appended and not yet taken by the committer.

use crate::journal::format::footer::HEAD_ENTRY_BYTES;
use crate::journal::format::record::Sequence;
use crate::journal::format::segment::{DATA_START, Location, TERMINATOR, capacity};
use crate::journal::options::{LogOptions, Retention};

/// A run that has this much is written by itself, so that no buffer grows far beyond it.
const RUN_BYTES: usize = 1024 * 1024;

/// The appender's side: what was not yet taken, and where the next record will lie.
pub(crate) struct Appending {
    pub batch: PendingBatch,
    pub next: Sequence,
    pub ordinal: u32,
    pub offset: u32,
    pub heads_bytes: u32,
    pub capacity: u64,
    /// Whether the committer knows that there is something to do.
    pub is_queued: bool,
    pub retention: Retention,
    pub remove_through: Sequence,
    pub now_us: i64,
}

/// Records that are written together.
#[derive(Debug, Default)]
pub(crate) struct PendingBatch {
    pub runs: Vec<PendingRun>,
    /// Empty buffers for further runs: memory that has been used once need not be asked for again.
    pub buffers: Vec<Vec<u8>>,
}

/// Records that lie one behind the other in a segment, with the terminator behind them: what one call writes.
#[derive(Debug)]
pub(crate) struct PendingRun {
    pub ordinal: u32,
    pub offset: u32,
    pub first: Sequence,
    pub bytes: Vec<u8>,
}

impl Appending {
    /// Where a record of this size goes, in a segment of its own when the last one has no room.
    pub fn place(&mut self, length: u32, head_bytes: usize, options: &LogOptions) -> Location {
        let heads = if options.index_heads { (HEAD_ENTRY_BYTES + head_bytes) as u32 } else { 0 };
        let needed = u64::from(self.offset) + u64::from(length) + u64::from(self.heads_bytes) + u64::from(heads);
        // What was recovered may be smaller than the segments of now; one of them holds any record that is taken.
        let is_small = self.capacity < capacity(u64::from(options.segment_bytes));
        let is_new = needed > self.capacity && (self.offset > DATA_START || is_small);
        if is_new {
            self.ordinal += 1;
            self.offset = DATA_START;
            self.heads_bytes = 0;
            self.capacity = capacity(u64::from(options.segment_bytes));
        }
        if is_new || self.batch.runs.last().is_none_or(|run| run.bytes.len() >= RUN_BYTES) {
            self.end_run();
            let bytes = self.batch.buffers.pop().unwrap_or_default();
            let run = PendingRun { ordinal: self.ordinal, offset: self.offset, first: self.next, bytes };
            self.batch.runs.push(run);
        }
        let location = Location { segment: self.ordinal, offset: self.offset };
        self.offset += length;
        self.heads_bytes += heads;
        location
    }

    pub fn end_run(&mut self) {
        if let Some(run) = self.batch.runs.last_mut() {
            run.bytes.extend_from_slice(&TERMINATOR);
        }
    }
}
