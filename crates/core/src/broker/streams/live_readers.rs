//! The readers of a stream that are at its end, as the stream keeps them.

use crate::broker::streams::reader_table::ReaderTable;
use crate::broker::streams::tail::Tail;

/// The live readers of a stream, and what they have yet to get.
#[derive(Debug, Default)]
pub(crate) struct LiveReaders {
    pub(super) tail: Tail,
    pub(super) table: ReaderTable,
    /// The number of readers that are live now.
    pub(super) count: usize,
    /// Whether the stream is among those that have something for live readers.
    pub(super) is_ready: bool,
}

#[cfg(test)]
impl LiveReaders {
    /// The number of distinct queries.
    pub fn query_count(&self) -> usize {
        self.table.query_count()
    }
}
