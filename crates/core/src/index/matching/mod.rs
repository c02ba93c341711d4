//! Matches a message against the queries of one segment: encodes it, selects and scans leaves, and verifies candidates.
//!
//! A match fails when a file is damaged, and for no other reason.

pub mod encode;
pub mod field_hits;
pub mod hashed_message;
mod id_bits;
pub mod id_set;
pub mod matched_ids;
pub mod scan;
pub mod scratch;
pub mod select;
pub mod verify;

use crate::error::EngineError;
use crate::hierarchy::Hierarchies;
use crate::index::ids::AttributeId;
use crate::index::layout::cpu::{WideWork, at_full_width};
use crate::index::layout::symbol_row::SymbolInfo;
use crate::index::segment::Segment;
use crate::index::segment::index_view::IndexView;

use hashed_message::HashedMessage;
use scratch::SegmentScratch;

/// The state of the engine that a message sees.
#[derive(Clone, Copy)]
pub struct MatchState<'a> {
    /// The hierarchies now.
    pub hierarchies: &'a Hierarchies,
    /// The version's number: subscriptions that a later version removed still match.
    pub version: u64,
}

impl Segment {
    /// Add the ids of the subscriptions that `message` satisfies to those of `scratch`, some perhaps twice: all except the
    /// pure topic queries. `topic` are the symbols of the topic.
    pub fn match_into(
        &self,
        message: &mut HashedMessage<'_, '_>,
        topic: &[(AttributeId, SymbolInfo)],
        state: MatchState<'_>,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        self.encode(message, topic, state.hierarchies, scratch)?;
        let index = IndexView::of(&self.store)?;
        at_full_width(LeafScan { segment: self, index: &index, version: state.version, scratch })?;
        self.verify(&index, message.message, state, scratch)
    }
}

/// The part of a match that takes most of the time.
struct LeafScan<'a> {
    segment: &'a Segment,
    index: &'a IndexView<'a>,
    version: u64,
    scratch: &'a mut SegmentScratch,
}

impl WideWork for LeafScan<'_> {
    type Output = Result<(), EngineError>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let Self { segment, index, version, scratch } = self;
        segment.select_leaves(index, scratch)?;
        segment.scan_leaves(index, version, scratch)
    }
}
