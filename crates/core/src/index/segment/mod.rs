//! A segment: an immutable part of an engine, the same whether it was built in memory or mapped from a file.
//!
//! Its methods fail when the file is damaged, and for no other reason.

pub mod attributes;
pub mod boxes;
pub mod field_index;
pub mod guard;
pub mod index_view;
pub mod patterns;
pub mod queries;
pub mod regex_sets;
pub mod subscriptions;
pub mod tail;
pub mod text_search;
pub mod thresholds;
pub mod tombstones;

use std::sync::OnceLock;

use crate::error::EngineError;
use crate::expensive::Opaque;
use crate::index::asked::AskedParts;
use crate::query::Query;

use crate::index::ids::TrieId;
use crate::index::layout::sections::{SectionName, Sections};
use crate::index::layout::store::SectionStore;

use attributes::Attributes;
use field_index::FieldIndex;
use queries::KeptQueries;
use regex_sets::RegexSets;
use text_search::TextSearch;
use tombstones::Tombstones;

/// Subscriptions, and an index over their queries.
#[derive(Debug)]
pub struct Segment {
    /// The bytes of its sections.
    pub store: SectionStore,
    /// The parts of a message that its queries ask for, removed ones included.
    pub asked: AskedParts,
    /// The attributes that its queries ask about.
    pub attributes: Attributes,
    /// The needles and words that the queries look for in texts.
    pub text_search: TextSearch,
    opaques: Vec<Opaque>,
    /// The identity of its trie of topic patterns.
    pub trie_id: TrieId,
    queries: KeptQueries,
    shared_predicates: Vec<OnceLock<Query>>,
    /// The regular expressions among them that are searched for together; built when many are first evaluated.
    regex_sets: OnceLock<RegexSets>,
    position_count: usize,
    query_count: usize,
    /// The number of leaves that summaries cover.
    pub wide_leaf_count: usize,
    /// The marks of removed subscriptions.
    pub tombstones: Tombstones,
    /// The criteria of the fields queries; built when hits are first counted.
    pub field_index: OnceLock<FieldIndex>,
}

impl Segment {
    /// A segment of the sections that a builder made.
    ///
    /// # Panics
    /// Never: the sections of a builder are whole.
    pub fn of(sections: Sections, opaques: Vec<Opaque>) -> Self {
        Self::new(SectionStore::Memory(sections), opaques).expect("a builder's sections are whole")
    }

    /// A segment of sections in memory or in a file.
    ///
    /// # Errors
    /// Damage in the attributes, which are read at once.
    pub fn new(store: SectionStore, opaques: Vec<Opaque>) -> Result<Self, EngineError> {
        let attributes = Attributes::decode(store.whole(SectionName::Attributes)?)
            .map_err(|reason| store.damaged(&format!("its attributes cannot be read: {reason}")))?;
        let asked = AskedParts::decode(store.whole(SectionName::AskedParts)?, &opaques)
            .map_err(|reason| store.damaged(&format!("the names that queries ask for cannot be read: {reason}")))?;
        let query_count = store.length(SectionName::RecordEnds) / 8;
        let position_count = store.length(SectionName::Ids) / 8;
        let wide_leaf_count = usize::try_from(store.word(SectionName::Summaries, 0)?).unwrap_or(usize::MAX);
        if wide_leaf_count > store.length(SectionName::LeafStarts) / 4 {
            return Err(store.damaged("its summaries cover more leaves than there are"));
        }
        let shared_predicate_count = store.length(SectionName::SharedPredicateEnds) / 8;
        Ok(Self {
            asked,
            attributes,
            text_search: TextSearch::default(),
            opaques,
            trie_id: TrieId::default(),
            queries: KeptQueries::new(query_count),
            shared_predicates: (0..shared_predicate_count).map(|_| OnceLock::new()).collect(),
            regex_sets: OnceLock::new(),
            position_count,
            query_count,
            wide_leaf_count,
            tombstones: Tombstones::new(position_count),
            field_index: OnceLock::new(),
            store,
        })
    }

    /// The number of words of a summary.
    #[inline]
    pub fn summary_words(&self) -> usize {
        self.wide_leaf_count.div_ceil(64)
    }

    /// True when there are queries that a match may find in leaves.
    pub fn has_leaves(&self) -> bool {
        self.store.length(SectionName::Leaves) > 0
    }

    /// The error for a damaged page, or else for sections that contradict each other.
    #[cold]
    pub fn contradiction(&self) -> EngineError {
        self.store.check_all().err().unwrap_or_else(|| self.store.damaged("its index contradicts itself"))
    }
}
