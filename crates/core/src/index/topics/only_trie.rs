//! The one trie that holds all topic patterns of a version, where there is such a trie.

use crate::error::EngineError;
use crate::index::ids::TrieId;
use crate::index::segment::Segment;
use crate::index::segment::patterns::TopicSymbols;
use crate::topic::trie::TopicTrie;

use super::combined_trie::CombinedTrie;
use super::matches::TopicMatches;
use super::plan::TopicSources;

/// The trie that says all that a version knows of any topic.
#[derive(Clone, Copy)]
pub enum OnlyTrie<'a> {
    /// The trie of the segment with this index.
    Segment(usize, &'a Segment),
    /// The combined trie of the small segments.
    Combined(&'a CombinedTrie),
}

impl<'a> OnlyTrie<'a> {
    /// The only trie of a version; None when it has several, or searches topics for texts.
    #[inline]
    pub fn of(sources: TopicSources<'a>) -> Option<Self> {
        let plan = sources.plan;
        match plan.trie_count {
            _ if plan.looks_into => None,
            1 if plan.in_tail == 0 => Some(Self::Segment(plan.last_trie, &sources.segments[plan.last_trie])),
            count => plan.combined.all_of(count).map(Self::Combined),
        }
    }

    /// The identity of the trie.
    #[inline]
    pub fn id(&self) -> TrieId {
        match self {
            Self::Segment(_, segment) => segment.trie_id,
            Self::Combined(combined) => combined.id,
        }
    }

    /// The trie.
    #[inline]
    pub fn trie(&self) -> Result<TopicTrie<'a>, EngineError> {
        match self {
            Self::Segment(_, segment) => segment.trie(),
            Self::Combined(combined) => combined.trie(),
        }
    }

    /// The error for a damaged trie.
    #[cold]
    pub fn damaged(&self, reason: String) -> EngineError {
        match self {
            Self::Segment(_, segment) => segment.store.damaged(&reason),
            Self::Combined(_) => EngineError::Snapshot(reason),
        }
    }

    /// Add what `patterns` stand for to `matches`.
    pub fn add_to(&self, matches: &mut TopicMatches, patterns: &[u32], version: u64) -> Result<(), EngineError> {
        match self {
            Self::Combined(combined) => {
                patterns.iter().for_each(|pattern| combined.add_to(matches, *pattern as usize));
            }
            Self::Segment(index, segment) => {
                let mut none = TopicSymbols::new();
                let TopicMatches { ids, symbols, .. } = matches;
                let symbols = symbols.get_mut(*index).unwrap_or(&mut none);
                segment.patterns()?.meanings(patterns, version, ids, symbols)?;
            }
        }
        Ok(())
    }
}
