//! The sections that a match reads, as plain slices.

use std::ops::Range;

use crate::error::EngineError;
use crate::index::ids::{GroupId, LeafId, QueryId, SummaryId};
use crate::index::layout::bytes::{NumberBytes, WordBytes, halves, number, word};
use crate::index::layout::sections::SectionName;
use crate::index::layout::store::SectionStore;

use super::boxes::Boxes;

/// The sections that a match reads. Offsets may be damaged: each is checked when it is used.
pub struct IndexView<'a> {
    groups: &'a [WordBytes],
    leaf_starts: &'a [NumberBytes],
    leaves: &'a [WordBytes],
    /// The number of leaves that summaries cover, and the summaries.
    summaries: &'a [WordBytes],
    rare_summaries: &'a [NumberBytes],
    boxes: &'a [WordBytes],
    query_ends: &'a [NumberBytes],
    /// The ids of the subscriptions, by position.
    pub ids: &'a [WordBytes],
}

impl<'a> IndexView<'a> {
    /// The sections of `store`.
    #[inline]
    pub fn of(store: &'a SectionStore) -> Result<Self, EngineError> {
        Ok(Self {
            groups: store.words(SectionName::Groups)?,
            leaf_starts: store.numbers(SectionName::LeafStarts)?,
            leaves: store.words(SectionName::Leaves)?,
            summaries: store.words(SectionName::Summaries)?,
            rare_summaries: store.numbers(SectionName::RareSummaries)?,
            boxes: store.words(SectionName::Boxes)?,
            query_ends: store.numbers(SectionName::QueryEnds)?,
            ids: store.words(SectionName::Ids)?,
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
        let leaf = leaf.index();
        let (start, end) = (number(self.leaf_starts, leaf)?, number(self.leaf_starts, leaf + 1)?);
        self.leaves.get(start as usize..end as usize)
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

    /// The boxes of the first `leaf_count` leaves.
    #[inline(always)]
    pub fn boxes(&self, leaf_count: usize) -> Boxes<'a> {
        Boxes::new(self.boxes, leaf_count)
    }

    /// The positions of the subscriptions to a query.
    #[inline(always)]
    pub fn positions(&self, query: QueryId) -> Option<Range<usize>> {
        let query = query.index();
        if self.query_ends.is_empty() {
            return Some(query..query + 1);
        }
        let start = if query == 0 { 0 } else { number(self.query_ends, query - 1)? };
        Some(start as usize..number(self.query_ends, query)? as usize)
    }
}
