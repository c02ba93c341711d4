//! The subscriptions of a segment: their positions, ids and saved keys.

use std::ops::Range;

use crate::error::EngineError;
use crate::index::SubscriptionId;
use crate::index::ids::QueryId;
use crate::index::layout::sections::SectionName;

use super::Segment;
use super::index_view::IndexView;

impl Segment {
    /// The number of subscriptions, removed ones included.
    pub fn position_count(&self) -> usize {
        self.position_count
    }

    /// The positions of the subscriptions to a query.
    ///
    /// # Errors
    /// A damaged file.
    pub fn positions(&self, query: QueryId) -> Result<Range<usize>, EngineError> {
        let positions = IndexView::of(&self.store)?.positions(query);
        positions.filter(|positions| positions.end <= self.position_count).ok_or_else(|| self.contradiction())
    }

    /// The query of the subscription at `position`.
    ///
    /// # Errors
    /// A damaged file.
    pub fn query_of(&self, position: usize) -> Result<QueryId, EngineError> {
        let ends_before = |query| Ok(self.store.number(SectionName::QueryEnds, query)? as usize <= position);
        let query = match self.store.length(SectionName::QueryEnds) {
            0 => position,
            _ => count_first(self.query_count, ends_before)?,
        };
        u32::try_from(query).map(QueryId).map_err(|_| self.store.damaged("too many queries"))
    }

    /// The id of the subscription at `position`.
    ///
    /// # Errors
    /// A damaged file.
    #[inline]
    pub fn id(&self, position: usize) -> Result<SubscriptionId, EngineError> {
        Ok(SubscriptionId(self.store.word(SectionName::Ids, position)?))
    }

    /// The position of `id`, removed or not. Cost: a binary search, unless `id` is outside of the segment's range of ids.
    ///
    /// # Errors
    /// A damaged file.
    pub fn find(&self, id: SubscriptionId) -> Result<Option<usize>, EngineError> {
        let position = |rank| Ok::<_, EngineError>(self.store.number(SectionName::ById, rank)? as usize);
        let Some(last) = self.position_count.checked_sub(1) else { return Ok(None) };
        if id < self.id(position(0)?)? || id > self.id(position(last)?)? {
            return Ok(None);
        }
        let rank = count_first(self.position_count, |rank| Ok(self.id(position(rank)?)? < id))?;
        if rank == self.position_count {
            return Ok(None); // in a damaged file
        }
        let position = position(rank)?;
        Ok((self.id(position)? == id).then_some(position))
    }

    /// Every position, by ascending id.
    pub fn positions_by_id(&self) -> impl Iterator<Item = Result<usize, EngineError>> {
        (0..self.position_count).map(|rank| Ok(self.store.number(SectionName::ById, rank)? as usize))
    }

    /// The key that was saved for the subscription at `position`; None when no keys were saved.
    ///
    /// # Errors
    /// A damaged file.
    pub fn key(&self, position: usize) -> Result<Option<&[u8]>, EngineError> {
        if self.store.length(SectionName::KeyEnds) == 0 {
            return Ok(None);
        }
        self.store.item(SectionName::KeyEnds, SectionName::Keys, position).map(Some)
    }

    /// Call `add` with the ids of the live subscriptions to a query, ascending.
    ///
    /// # Errors
    /// A damaged file.
    pub fn for_each_id(
        &self,
        index: &IndexView<'_>,
        query: QueryId,
        version: u64,
        add: impl FnMut(SubscriptionId),
    ) -> Result<(), EngineError> {
        self.push_ids(index, query, version, add).ok_or_else(|| self.contradiction())
    }

    /// Call `push` with the ids of the live subscriptions to a query, ascending. None in a damaged file.
    #[inline(always)]
    pub fn push_ids(
        &self,
        index: &IndexView<'_>,
        query: QueryId,
        version: u64,
        mut push: impl FnMut(SubscriptionId),
    ) -> Option<()> {
        let positions = index.positions(query)?;
        let is_whole = self.tombstones.count() == 0;
        for (position, id) in positions.clone().zip(index.ids.get(positions)?) {
            if is_whole || self.tombstones.is_live(position, version) {
                push(SubscriptionId(u64::from_le_bytes(*id)));
            }
        }
        Some(())
    }
}

/// The number of the first of `count` items for which `is_before` is true. Cost: a binary search.
fn count_first(count: usize, is_before: impl Fn(usize) -> Result<bool, EngineError>) -> Result<usize, EngineError> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle)? { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}
