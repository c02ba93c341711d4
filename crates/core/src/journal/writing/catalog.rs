//! The segments and spare files that a log has.

use std::collections::VecDeque;

use crate::journal::format::footer::SparsePoint;
use crate::journal::format::record::Sequence;
use crate::journal::recovery::recover::SegmentMeta;

/// The segments of a log.
pub(crate) struct Catalog {
    pub segments: VecDeque<SegmentMeta>,
    pub spares: Vec<String>,
    /// The sparse index of the last segment, as far as it is synced.
    pub sparse: Vec<SparsePoint>,
    pub first: Sequence,
}
