//! The options of a log: the size of its segments, what waits in memory, and what is kept.

use crate::journal::format::segment::capacity;

/// The options of a log. Segments written with other options stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The maximum size of a segment, from [`SEGMENT_BYTES_MIN`](super::SEGMENT_BYTES_MIN) to
    /// [`SEGMENT_BYTES_MAX`](super::SEGMENT_BYTES_MAX), of which whole pages of 4096 bytes are used. Its file is allocated
    /// whole. A record may take half of it.
    pub segment_bytes: u32,
    /// The growth of segments to that size; None if the first one has it already.
    pub growth: Option<SegmentGrowth>,
    /// Whether sealed segments have an index of the heads of their records, so that
    /// [`Log::for_each_head`](super::Log::for_each_head) need not read the records. It takes 27 bytes per record and
    /// the head itself: on disk, and in memory for the segment that is being written.
    pub index_heads: bool,
    /// The maximum size of records that wait in memory to be written. Beyond it, [`Log::append`](super::Log::append)
    /// refuses.
    pub pending_bytes_max: usize,
    /// The rules by which old segments are removed.
    pub retention: Retention,
    /// The maximum number of files of removed segments that are kept for reuse.
    pub spares_max: usize,
    /// Whether the file of one further segment is allocated before it is needed. When the disk has no room for it,
    /// [`Log::is_full`](super::Log::is_full) says so, and one segment is left for records that must still be written.
    pub has_reserve: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * 1024 * 1024,
            growth: None,
            index_heads: false,
            pending_bytes_max: 64 * 1024 * 1024,
            retention: Retention::default(),
            spares_max: 2,
            has_reserve: false,
        }
    }
}

/// The size of a page of memory, in which the system reads files.
const PAGE_BYTES: u32 = 4096;

impl LogOptions {
    /// The same, with segments of whole pages: the last part of a file that is no whole page may never be read ahead, so that
    /// who does not wait for the disk asks for it in vain.
    pub(crate) fn in_whole_pages(self) -> Self {
        let whole = |bytes: u32| bytes - bytes % PAGE_BYTES;
        let growth = self.growth.map(|growth| SegmentGrowth {
            first_bytes: whole(growth.first_bytes),
            usual_bytes: whole(growth.usual_bytes),
        });
        Self { segment_bytes: whole(self.segment_bytes), growth, ..self }
    }

    /// The size of the segment after one of `previous` bytes, 0 for none: `needed` is the record that it begins with.
    pub(crate) fn next_segment_bytes(&self, previous: u64, needed: u64) -> u32 {
        let Some(growth) = self.growth else { return self.segment_bytes };
        let grown = (2 * previous).clamp(growth.first_bytes.into(), growth.usual_bytes.into());
        let is_large_enough = |bytes: &u64| capacity(*bytes) >= needed;
        let sizes = std::iter::successors(Some(grown), |bytes| Some(2 * bytes));
        let bytes = sizes.take_while(|bytes| *bytes < u64::from(self.segment_bytes)).find(is_large_enough);
        bytes.map_or(self.segment_bytes, |bytes| bytes as u32)
    }
}

/// The growth of a log's segments: each is twice as large as the one before, so that a small log takes little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentGrowth {
    /// The size of the first segment, at least [`SEGMENT_BYTES_MIN`](super::SEGMENT_BYTES_MIN).
    pub first_bytes: u32,
    /// The size from which on they stay the same. Only a segment for a record that needs more is larger.
    pub usual_bytes: u32,
}

/// The bounds of what a log keeps. Whole segments are removed, oldest first, but never the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The maximum size of the log; older segments beyond it are removed. None keeps all.
    pub bytes_max: Option<u64>,
    /// The maximum age of a segment's newest record, at the time given to [`Log::expire`](super::Log::expire). None
    /// keeps all.
    pub age_us_max: Option<i64>,
}
