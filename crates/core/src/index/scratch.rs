//! The memory that matching needs, kept by the caller so that nothing is allocated per message.

use super::matching::scratch::SegmentScratch;
use super::topics::scratch::TopicScratch;

/// Memory that is reused from message to message, by one thread at a time; any engine may use it.
#[derive(Debug, Default)]
pub struct Scratch {
    /// For matching against segments.
    pub(super) matching: SegmentScratch,
    /// For looking up topics; None before the first topic that a query asks about.
    pub(super) topics: Option<Box<TopicScratch>>,
}

impl Scratch {
    /// An empty scratch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}
