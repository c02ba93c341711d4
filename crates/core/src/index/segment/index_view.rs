//! The sections that a match reads, as plain slices.

use std::ops::Range;

use crate::error::EngineError;
use crate::index::ids::{GroupId, LeafId, QueryId, SummaryId};
use crate::index::layout::bytes::{NumberBytes, WordBytes, halves, number, word};
use crate::index::layout::sections::SectionName;
use crate::index::layout::store::{LazyItems, SectionStore};

use super::boxes::Boxes;
use super::thresholds::Thresholds;

/// The sections that a match reads. Offsets may be damaged: each is checked when it is used.
pub struct IndexView<'a> {
    groups: &'a [WordBytes],
    leaf_starts: &'a [NumberBytes],
    leaves: LazyItems<'a, 8>,
    /// The number of leaves that summaries cover, and the summaries.
    summaries: &'a [WordBytes],
    rare_summaries: &'a [NumberBytes],
    boxes: &'a [WordBytes],
    thresholds: &'a [WordBytes],
    query_ends: LazyItems<'a, 4>,
    /// The ids of the subscriptions, by position.
    pub ids: LazyItems<'a, 8>,
}

impl<'a> IndexView<'a> {
    /// The sections of `store`.
    #[inline]
    pub fn of(store: &'a SectionStore) -> Result<Self, EngineError> {
        Ok(Self {
            groups: store.words(SectionName::Groups)?,
            leaf_starts: store.numbers(SectionName::LeafStarts)?,
            leaves: store.lazy(SectionName::Leaves),
            summaries: store.words(SectionName::Summaries)?,
            rare_summaries: store.numbers(SectionName::RareSummaries)?,
            boxes: store.words(SectionName::Boxes)?,
            thresholds: store.words(SectionName::Thresholds)?,
            query_ends: store.lazy(SectionName::QueryEnds),
            ids: store.lazy(SectionName::Ids),
        })
    }

    /// The first leaf of a group, and where its leaves end.
    #[inline(always)]
    pub fn group(&self, group: GroupId) -> Option<(LeafId, LeafId)> {
        let (first, count) = halves(word(self.groups, group.index())?);
        let end = first.checked_add(count)?;
        (end as usize <= self.leaf_starts.len()).then_some((LeafId(first), LeafId(end)))
    }

    /// The words of a leaf.
    #[inline(always)]
    pub fn leaf(&self, leaf: LeafId) -> Option<&'a [WordBytes]> {
        self.leaves.get(self.leaf_range(leaf)?)
    }

    /// The words of a leaf that is scanned later, not checked: they are only prefetched.
    #[inline(always)]
    pub fn leaf_ahead(&self, leaf: LeafId) -> Option<&'a [WordBytes]> {
        self.leaves.unchecked(self.leaf_range(leaf)?)
    }

    #[inline(always)]
    fn leaf_range(&self, leaf: LeafId) -> Option<Range<usize>> {
        let leaf = leaf.index();
        Some(number(self.leaf_starts, leaf)? as usize..number(self.leaf_starts, leaf + 1)? as usize)
    }

    /// `count` words of a summary of `words` words, from word `first` on.
    #[inline(always)]
    pub fn summary(&self, summary: SummaryId, words: usize, first: usize, count: usize) -> Option<&'a [WordBytes]> {
        let start = (summary.0 as usize).checked_mul(words)?.checked_add(first + 1)?;
        self.summaries.get(start..start.checked_add(count)?)
    }

    /// The leaves in which the summary of a rare value differs from that of values which no query names.
    #[inline(always)]
    pub fn rare_summary(&self, summary: SummaryId) -> Option<&'a [NumberBytes]> {
        let start = summary.index();
        let count = number(self.rare_summaries, start)? as usize;
        self.rare_summaries.get(start + 1..(start + 1).checked_add(count)?)
    }

    /// The boxes of the leaves of wide groups.
    #[inline(always)]
    pub fn boxes(&self) -> Boxes<'a> {
        Boxes::new(self.boxes)
    }

    /// The thresholds of the leaves of wide groups.
    #[inline(always)]
    pub fn thresholds(&self) -> Thresholds<'a> {
        Thresholds::new(self.thresholds)
    }

    /// The positions of the subscriptions to a query.
    #[inline(always)]
    pub fn positions(&self, query: QueryId) -> Option<Range<usize>> {
        let query = query.index();
        if self.query_ends.is_empty() {
            return Some(query..query + 1);
        }
        let end = |query: usize| number(self.query_ends.get(query..query + 1)?, 0);
        let start = if query == 0 { 0 } else { end(query - 1)? };
        Some(start as usize..end(query)? as usize)
    }
}
