//! The records that were appended and that the committer has not yet taken.

use crate::journal::format::footer::HEAD_FIXED_BYTES;
use crate::journal::format::record::Sequence;
use crate::journal::format::segment::{DATA_START, Location, SegmentNumber, TERMINATOR, capacity};
use crate::journal::options::{LogOptions, Retention};

/// A run of this size is written by itself, so that no buffer grows far beyond it.
const RUN_BYTES: usize = 1024 * 1024;

/// The appender's side: the batch that was not yet taken, and the position of the next record.
pub(crate) struct Appending {
    pub batch: PendingBatch,
    pub next: Sequence,
    pub ordinal: SegmentNumber,
    pub offset: u32,
    pub heads_bytes: u32,
    /// The size of the segment; 0 before the first one.
    pub segment_bytes: u64,
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
    /// Empty buffers for further runs, so that memory is reused.
    pub buffers: Vec<Vec<u8>>,
}

/// Consecutive records of one segment, with the terminator behind them: one call writes them.
#[derive(Debug)]
pub(crate) struct PendingRun {
    pub ordinal: SegmentNumber,
    /// The size of the segment.
    pub segment_bytes: u32,
    pub offset: u32,
    pub first: Sequence,
    pub bytes: Vec<u8>,
}

impl Appending {
    /// Reserves room for a record of this size, in a new segment when the current one has none.
    pub fn locate(&mut self, length: u32, head_bytes: usize, options: &LogOptions) -> Location {
        let heads = if options.index_heads { (HEAD_FIXED_BYTES + head_bytes) as u32 } else { 0 };
        let added = u64::from(length) + u64::from(heads);
        let needed = u64::from(self.offset) + u64::from(self.heads_bytes) + added;
        // A segment may be smaller than the maximum; one of the maximum holds any record that is accepted.
        let is_small = self.segment_bytes < u64::from(options.segment_bytes);
        let is_new = needed > capacity(self.segment_bytes) && (self.offset > DATA_START || is_small);
        if is_new {
            self.ordinal = self.ordinal.next();
            self.offset = DATA_START;
            self.heads_bytes = 0;
            self.segment_bytes = options.next_segment_bytes(self.segment_bytes, u64::from(DATA_START) + added).into();
        }
        if is_new || self.batch.runs.last().is_none_or(|run| run.bytes.len() >= RUN_BYTES) {
            self.end_run();
            let bytes = self.batch.buffers.pop().unwrap_or_default();
            let segment_bytes = self.segment_bytes as u32;
            let run = PendingRun { ordinal: self.ordinal, segment_bytes, offset: self.offset, first: self.next, bytes };
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
