//! The memory that matching a message against a segment needs, reused from message to message.

use crate::index::ids::{AttributeId, GroupId, LeafId, QueryId, SummaryId};
use crate::index::layout::symbol_row::SymbolInfo;
use crate::index::leaf::message_codes::MessageCodes;
use crate::index::segment::attributes::NamedAttributes;
use crate::index::segment::boxes::BoxedNumbers;
use crate::index::segment::text_search::NeedleWork;

use super::id_set::IdSet;
use super::verify::PredicateMemo;

/// Memory that is reused from segment to segment and from message to message.
#[derive(Debug, Default)]
pub struct SegmentScratch {
    /// The message in the codes of the segment.
    pub codes: MessageCodes,
    /// The properties of the message that the segment knows, by index, and their attributes.
    pub asked: Vec<(usize, NamedAttributes)>,
    /// The groups whose access keys the message has.
    pub groups: Vec<GroupId>,
    /// The summaries of the message's values that are stored whole.
    pub summaries: Vec<SummaryId>,
    /// The summaries that are computed for the message, one after the other.
    pub joined: Vec<u64>,
    /// The numbers of the message that rule out leaves by their boxes.
    pub numbers: BoxedNumbers,
    /// The leaves of a group that remain, one bit each.
    pub remaining: Vec<u64>,
    /// The leaves that are scanned.
    pub leaves: Vec<LeafId>,
    /// The queries that have to be evaluated, and whether as a whole.
    pub unsure: Vec<(QueryId, bool)>,
    /// The results of shared predicates.
    pub predicates: PredicateMemo,
    /// The ids of matching subscriptions.
    pub ids: IdSet,
    /// Memory for searching texts.
    pub needles: NeedleWork,
}

impl SegmentScratch {
    /// Add one of several symbols of an attribute. The symbols of an attribute must be added one after the other.
    pub fn add(&mut self, attribute: AttributeId, symbol: SymbolInfo) {
        self.codes.add(attribute, symbol);
        if symbol.group.is_some() {
            self.groups.push(symbol.group);
        }
    }
}
