//! The options of a log: the size of its segments, what waits in memory, and what is kept.

/// How a log is kept. What a directory has from other options stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// How large a segment is, [`SEGMENT_BYTES_MIN`] to [`SEGMENT_BYTES_MAX`]. Its file is allocated whole. A record may
    /// take half of it.
    pub segment_bytes: u32,
    /// Whether sealed segments have an index of the heads of their records, so that [`Log::for_each_head`] need not read
    /// the records. It takes 27 bytes a record and the head, on disk, and in memory for the segment that is written.
    pub index_heads: bool,
    /// How much may wait in memory to be written. Beyond that, [`Log::append`] refuses.
    pub pending_bytes_max: usize,
    /// What is removed when.
    pub retention: Retention,
    /// How many files of removed segments are kept to be used again.
    pub spares_max: usize,
    /// Whether the file of one further segment is there before it is needed. When the disk has no room for it,
    /// [`Log::is_full`] says so, and there is a segment left for what has to be written all the same.
    pub has_reserve: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * 1024 * 1024,
            index_heads: false,
            pending_bytes_max: 64 * 1024 * 1024,
            retention: Retention::default(),
            spares_max: 2,
            has_reserve: false,
        }
    }
}

/// What a log keeps. Whole segments are removed, oldest first, and never the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Segments are removed while the log has more than this; None keeps all.
    pub bytes_max: Option<u64>,
    /// A segment is removed when its newest record is this much older than [`Log::expire`] says; None keeps all.
    pub age_us_max: Option<i64>,
}
