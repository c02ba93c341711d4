//! The records that were appended and that the committer has not yet taken.

use std::sync::Arc;

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
    /// The records, and the terminator once the run has ended.
    pub bytes: Vec<u8>,
    /// The body of the last record, and how many logs have it: it belongs behind `bytes`, before the terminator.
    shared: Option<(Arc<Vec<u8>>, usize)>,
}

/// The body of a record.
#[derive(Clone, Copy)]
pub(crate) enum RecordBody<'a> {
    /// In parts, which are copied.
    Parts(&'a [&'a [u8]]),
    /// In one piece, which as many logs have as the number says.
    Shared(&'a Arc<Vec<u8>>, usize),
}

impl RecordBody<'_> {
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Parts(parts) => parts.iter().map(|part| part.len()).sum(),
            Self::Shared(bytes, _) => bytes.len(),
        }
    }

    /// The part of it that others count.
    pub fn elsewhere_bytes(&self) -> usize {
        match self {
            Self::Parts(_) => 0,
            Self::Shared(bytes, holders) => elsewhere_bytes(bytes, *holders),
        }
    }
}

fn elsewhere_bytes(bytes: &Arc<Vec<u8>>, holders: usize) -> usize {
    bytes.len() - bytes.len() / holders.max(1)
}

impl PendingRun {
    /// Append the body of the record whose head was appended last.
    pub fn put_body(&mut self, body: RecordBody<'_>) {
        match body {
            RecordBody::Parts(parts) => parts.iter().for_each(|part| self.bytes.extend_from_slice(part)),
            RecordBody::Shared(bytes, holders) => self.shared = Some((Arc::clone(bytes), holders)),
        }
    }

    /// Whether no further record may follow in it.
    fn is_full(&self) -> bool {
        self.shared.is_some() || self.bytes.len() >= RUN_BYTES
    }

    fn end(&mut self) {
        if self.shared.is_none() {
            self.bytes.extend_from_slice(&TERMINATOR);
        }
    }

    /// The bytes of its records, once it has ended.
    pub fn records_bytes(&self) -> usize {
        match &self.shared {
            Some((body, _)) => self.bytes.len() + body.len(),
            None => self.bytes.len() - TERMINATOR.len(),
        }
    }

    /// The part of its records that others count.
    pub fn elsewhere_bytes(&self) -> usize {
        self.shared.as_ref().map_or(0, |(body, holders)| elsewhere_bytes(body, *holders))
    }

    /// Its bytes, and the body of the last record where that is not among them; the terminator is behind the records otherwise.
    pub fn into_parts(self) -> (Vec<u8>, Option<Arc<Vec<u8>>>) {
        (self.bytes, self.shared.map(|(body, _)| body))
    }
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
        if is_new || self.batch.runs.last().is_none_or(PendingRun::is_full) {
            self.end_run();
            let bytes = self.batch.buffers.pop().unwrap_or_default();
            let segment_bytes = self.segment_bytes as u32;
            let (ordinal, offset, first) = (self.ordinal, self.offset, self.next);
            self.batch.runs.push(PendingRun { ordinal, segment_bytes, offset, first, bytes, shared: None });
        }
        let location = Location { segment: self.ordinal, offset: self.offset };
        self.offset += length;
        self.heads_bytes += heads;
        location
    }

    pub fn end_run(&mut self) {
        if let Some(run) = self.batch.runs.last_mut() {
            run.end();
        }
    }
}
