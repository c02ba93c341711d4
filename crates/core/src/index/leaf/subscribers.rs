//! The end of a leaf: the subscriptions that match when its queries are true.
//!
//! ```text
//! several   with SEVERAL: the queries that do not have exactly one subscription with an id of 32 bits
//! queries   with REFS: the numbers of the queries, two per word; without, they are consecutive
//! numbers   of each query the id of its subscription, two per word; with LISTS, of the several, where its list starts
//! lists     with LISTS: the number of ids, then the ids, ascending; one list after the other
//! ```
//! Where most queries are true of a message, their ids lie side by side and near the masks. Other ids are looked up by the
//! number of their query: ids beyond 32 bits, and the lists of queries that stand in other leaves too, which would
//! otherwise be stored once per leaf.

use crate::index::ids::QueryId;
use crate::index::layout::bytes::{NumberBytes, WordBytes, extend_pairs, flags_of, number};

use super::query::LeafQuery;

const REFS: u64 = 1;
const SEVERAL: u64 = 2;
const LISTS: u64 = 4;

/// Ids as they lie in memory; None when they have to be looked up by the number of their query.
type StoredIds<'a> = Option<&'a [NumberBytes]>;

/// The id of the only subscription, where it has 32 bits.
fn only(query: &LeafQuery<'_>) -> Option<u32> {
    match query.subscriptions {
        [id] => u32::try_from(id.0).ok(),
        _ => None,
    }
}

/// The flags of the subscribers in the head of a leaf.
pub fn flags(queries: &[LeafQuery<'_>]) -> u64 {
    let follows = |(query, id): (&LeafQuery<'_>, u32)| query.id.0 == id;
    let has_refs = !queries.iter().zip(queries[0].id.0..).all(follows);
    let has_several = queries.iter().any(|query| only(query).is_none());
    let has_lists =
        has_several && !has_refs && queries.iter().flat_map(|q| q.subscriptions).all(|id| u32::try_from(id.0).is_ok());
    flags_of([(has_refs, REFS), (has_several, SEVERAL), (has_lists, LISTS)])
}

/// Append the subscribers of `queries` to the words of their leaf.
pub fn encode(queries: &[LeafQuery<'_>], words: &mut Vec<u64>) {
    let flags = flags(queries);
    if flags & SEVERAL != 0 {
        let several = (0..).zip(queries).filter(|(_, query)| only(query).is_none());
        words.push(several.fold(0, |mask, (bit, _)| mask | 1 << bit));
    }
    if flags & REFS != 0 {
        extend_pairs(words, queries.iter().map(|query| query.id.0));
    }
    let mut lists: Vec<u32> = Vec::new();
    let numbers = queries.iter().map(|query| {
        only(query).unwrap_or_else(|| {
            let start = lists.len() as u32;
            if flags & LISTS != 0 {
                lists.push(query.subscriptions.len() as u32);
                lists.extend(query.subscriptions.iter().map(|id| id.0 as u32));
            }
            start
        })
    });
    extend_pairs(words, numbers.collect::<Vec<_>>());
    extend_pairs(words, lists);
}

/// The subscribers of a leaf, as they lie in memory. Methods return None where these are damaged.
pub struct LeafSubscribers<'a> {
    flags: u64,
    first_query: u32,
    first_position: u32,
    /// The queries whose number is not the id of their subscription.
    pub several: u64,
    queries: &'a [NumberBytes],
    numbers: &'a [NumberBytes],
    lists: &'a [NumberBytes],
}

impl<'a> LeafSubscribers<'a> {
    /// The subscribers of `count` queries, in `words`; `flags` as in the head of the leaf.
    #[inline(always)]
    pub fn of(words: &'a [WordBytes], flags: u64, count: usize, first_query: u32, first_position: u32) -> Option<Self> {
        let (mut several, mut words) = (0, words);
        if flags & SEVERAL != 0 {
            let (mask, remaining) = words.split_first()?;
            (several, words) = (u64::from_le_bytes(*mask), remaining);
        }
        let mut queries: &[NumberBytes] = &[];
        if flags & REFS != 0 {
            let (all, remaining) = words.split_at_checked(count.div_ceil(2))?;
            (queries, words) = (all.as_flattened().as_chunks().0, remaining);
        }
        let (numbers, lists) = words.split_at_checked(count.div_ceil(2))?;
        let (numbers, lists) = (numbers.as_flattened().as_chunks().0, lists.as_flattened().as_chunks().0);
        Some(Self { flags, first_query, first_position, several, queries, numbers, lists })
    }

    /// The ids of all queries, by their bits: of those that are not `several`.
    #[inline(always)]
    pub fn ids(&self) -> &'a [NumberBytes] {
        self.numbers
    }

    /// The number of the query with this bit.
    #[inline(always)]
    pub fn query(&self, bit: u32) -> Option<QueryId> {
        if self.flags & REFS == 0 {
            return self.first_query.checked_add(bit).map(QueryId);
        }
        number(self.queries, bit as usize).map(QueryId)
    }

    /// The ids of one of [`Self::several`].
    #[inline(always)]
    pub fn list(&self, bit: u32) -> Option<StoredIds<'a>> {
        if self.flags & LISTS == 0 {
            return Some(None);
        }
        let start = self.number(bit)? as usize;
        let count = number(self.lists, start)? as usize;
        self.lists.get(start + 1..start + 1 + count).map(Some)
    }

    /// The ids of a query, and the position of the first of them.
    #[inline(always)]
    pub fn positioned(&self, bit: u32) -> Option<(usize, StoredIds<'a>)> {
        if self.flags & REFS != 0 || self.flags & (SEVERAL | LISTS) == SEVERAL {
            return Some((0, None));
        }
        // Positions are consecutive like the queries: those of the lists before this query, and one of each other.
        let before = self.several & ((1 << bit) - 1);
        let mut position = self.first_position as usize + bit as usize - before.count_ones() as usize;
        if before != 0 {
            let last = before.ilog2();
            let (start, list) = (self.number(last)? as usize, self.list(last)??);
            position += (start + 1 + list.len()).checked_sub(before.count_ones() as usize)?;
        }
        let bit = bit as usize;
        let ids = if self.several >> bit & 1 == 0 { self.numbers.get(bit..=bit)? } else { self.list(bit as u32)?? };
        Some((position, Some(ids)))
    }

    /// The id of the subscription to the query with this bit; for one of [`Self::several`], where its list starts.
    #[inline(always)]
    pub fn number(&self, bit: u32) -> Option<u32> {
        number(self.numbers, bit as usize)
    }
}
