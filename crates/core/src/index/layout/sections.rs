//! The sections of a segment: what each holds, and all of them in memory.

use std::ops::{Index, IndexMut};

/// The sections in the order in which they lie in the file.
///
/// Queries are numbered within a segment. Subscriptions have *positions*: ordered by the number of their query, then by
/// id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionName {
    /// The id of the subscription at each position, 8 bytes each.
    Ids,
    /// The positions in ascending order of their ids, 4 bytes each.
    ById,
    /// The end of each query's positions, 4 bytes each; empty when every query has one subscription.
    QueryEnds,
    /// The end of each query's record in `Records`, 8 bytes each.
    RecordEnds,
    /// The queries (`codec/`).
    Records,
    /// The numbers of the fields queries, 4 bytes each, ascending.
    FieldsQueries,
    /// The parts of a message that the queries ask for (`asked.rs`).
    AskedParts,
    /// The attributes (`attribute_info.rs`).
    Attributes,
    /// The table of symbols (`symbol_row.rs`).
    Symbols,
    /// Texts that are too long for the table of symbols.
    LongTexts,
    /// The needles, and words while they are few: attribute and position in the table of symbols, 4 bytes each, ascending.
    TextTerms,
    /// The trie of topic patterns (`topic/trie`): first the pure topic queries, which have the first numbers, then the
    /// patterns that are part of a query.
    Topics,
    /// The position in the table of symbols of each pattern that is part of a query, 4 bytes each.
    PatternSymbols,
    /// The first leaf and the number of leaves of each group, 4 bytes each; the common group is the first.
    Groups,
    /// The start of each leaf in `Leaves`, in words, and the end of the last one; 4 bytes each.
    LeafStarts,
    /// The leaves (`leaf/`).
    Leaves,
    /// The number of leaves that summaries cover, then the summaries, one after the other (`compile/summary.rs`).
    Summaries,
    /// The summaries of rare values, as differences: a count, then that many leaves; 4 bytes each.
    RareSummaries,
    /// The boxes of leaves (`compile/boxes.rs`).
    Boxes,
    /// The thresholds of leaves (`compile/thresholds.rs`).
    Thresholds,
    /// The shared predicates, as queries (`compile/shared_predicates.rs`).
    SharedPredicates,
    /// The end of each shared predicate in `SharedPredicates`, 8 bytes each.
    SharedPredicateEnds,
    /// The end of each query's predicates in `Verifications`, 4 bytes each; empty when there are none.
    VerificationEnds,
    /// The shared predicates of each query, 4 bytes each; all ones where the whole query has to be evaluated.
    Verifications,
    /// Names and costs of the expensive predicates, which records refer to by index.
    Opaques,
    /// The end of each position's saved key in `Keys`, 8 bytes each; empty when no keys were saved.
    KeyEnds,
    /// The saved keys of subscriptions, as they were given.
    Keys,
    /// The hierarchies of attributes: values with their parents.
    Hierarchies,
}

/// The number of sections.
pub const SECTION_COUNT: usize = SectionName::Hierarchies as usize + 1;

/// The sections of a segment in memory.
#[derive(Clone, Debug, Default)]
pub struct Sections([Vec<u8>; SECTION_COUNT]);

impl Sections {
    /// All sections, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}

impl Index<SectionName> for Sections {
    type Output = Vec<u8>;

    fn index(&self, section: SectionName) -> &Vec<u8> {
        &self.0[section as usize]
    }
}

impl IndexMut<SectionName> for Sections {
    fn index_mut(&mut self, section: SectionName) -> &mut Vec<u8> {
        &mut self.0[section as usize]
    }
}
