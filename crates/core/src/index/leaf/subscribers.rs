//! The end of a leaf: whose ids are found when its queries are true.
//!
//! ```text
//! several   with SEVERAL: the queries that have not exactly one subscription, or one whose id 32 bits do not hold
//! refs      with REFS: the slot numbers, two a word; else they follow one another
//! numbers   of each query the id of its subscription, two a word; with LISTS, of the several, where its list begins
//! lists     with LISTS: how many ids, and those ids, ascending; one list after the other
//! ```
//! Where most queries are true of a message, their ids lie beside one another and beside the rows. What is not here is
//! looked up by the slot: ids beyond 32 bits, and lists of queries that stand in other leaves too, which would be written
//! as often as those.

use crate::index::leaf::{LeafQuery, Word, encode_pairs, flags_of};

const REFS: u64 = 1;
const SEVERAL: u64 = 2;
const LISTS: u64 = 4;

/// Ids as they lie in memory; None when they have to be looked up by the slot of their query.
type Ids<'a> = Option<&'a [[u8; 4]]>;

/// The id of the only subscription, where it has 32 bits.
fn only(query: &LeafQuery<'_>) -> Option<u32> {
    match query.ids {
        [id] => u32::try_from(id.0).ok(),
        _ => None,
    }
}

/// What the head of a leaf says of its answers.
pub fn flags(queries: &[LeafQuery<'_>]) -> u64 {
    let follows = |(query, slot): (&LeafQuery<'_>, u32)| query.slot == slot;
    let has_refs = !queries.iter().zip(queries[0].slot..).all(follows);
    let has_several = queries.iter().any(|query| only(query).is_none());
    let has_lists =
        has_several && !has_refs && queries.iter().flat_map(|q| q.ids).all(|id| u32::try_from(id.0).is_ok());
    flags_of([(has_refs, REFS), (has_several, SEVERAL), (has_lists, LISTS)])
}

/// Append the answers of `queries` to the words of their leaf.
pub fn encode(queries: &[LeafQuery<'_>], words: &mut Vec<u64>) {
    let flags = flags(queries);
    if flags & SEVERAL != 0 {
        let several = (0..).zip(queries).filter(|(_, query)| only(query).is_none());
        words.push(several.fold(0, |mask, (bit, _)| mask | 1 << bit));
    }
    if flags & REFS != 0 {
        encode_pairs(queries.iter().map(|query| query.slot), words);
    }
    let mut lists: Vec<u32> = Vec::new();
    let numbers = queries.iter().map(|query| {
        only(query).unwrap_or_else(|| {
            let begin = lists.len() as u32;
            if flags & LISTS != 0 {
                lists.push(query.ids.len() as u32);
                lists.extend(query.ids.iter().map(|id| id.0 as u32));
            }
            begin
        })
    });
    encode_pairs(numbers.collect::<Vec<_>>().into_iter(), words);
    encode_pairs(lists.into_iter(), words);
}

/// The answers of a leaf, as they lie in memory. What is asked of damaged ones is None.
pub struct Answers<'a> {
    flags: u64,
    first_slot: u32,
    first_place: u32,
    /// Queries whose number is not the id of their subscription.
    pub several: u64,
    refs: &'a [[u8; 4]],
    numbers: &'a [[u8; 4]],
    lists: &'a [[u8; 4]],
}

impl<'a> Answers<'a> {
    /// Those of `count` queries, in `words`; `flags` as the leaf's head has them.
    #[inline(always)]
    pub fn of(words: &'a [Word], flags: u64, count: usize, first_slot: u32, first_place: u32) -> Option<Self> {
        let (mut several, mut words) = (0, words);
        if flags & SEVERAL != 0 {
            let (mask, rest) = words.split_first()?;
            (several, words) = (u64::from_le_bytes(*mask), rest);
        }
        let mut refs: &[[u8; 4]] = &[];
        if flags & REFS != 0 {
            let (all, rest) = words.split_at_checked(count.div_ceil(2))?;
            (refs, words) = (all.as_flattened().as_chunks().0, rest);
        }
        let (numbers, lists) = words.split_at_checked(count.div_ceil(2))?;
        let (numbers, lists) = (numbers.as_flattened().as_chunks().0, lists.as_flattened().as_chunks().0);
        Some(Self { flags, first_slot, first_place, several, refs, numbers, lists })
    }

    /// Of each query the id of its subscription, but for [`Self::several`].
    #[inline(always)]
    pub fn numbers(&self) -> &'a [[u8; 4]] {
        self.numbers
    }

    /// The slot of the query with this bit's index.
    #[inline(always)]
    pub fn slot(&self, bit: u32) -> Option<u32> {
        if self.flags & REFS == 0 {
            return self.first_slot.checked_add(bit);
        }
        self.refs.get(bit as usize).map(|slot| u32::from_le_bytes(*slot))
    }

    /// The ids of one of the several.
    #[inline(always)]
    pub fn list(&self, bit: u32) -> Option<Ids<'a>> {
        if self.flags & LISTS == 0 {
            return Some(None);
        }
        let begin = self.number(bit)? as usize;
        let count = u32::from_le_bytes(*self.lists.get(begin)?) as usize;
        self.lists.get(begin + 1..begin + 1 + count).map(Some)
    }

    /// The ids of a query, and the place of the first of them.
    #[inline(always)]
    pub fn placed(&self, bit: u32) -> Option<(usize, Ids<'a>)> {
        if self.flags & REFS != 0 || self.flags & (SEVERAL | LISTS) == SEVERAL {
            return Some((0, None));
        }
        // Places follow one another like the slots: before this one lie those of the lists before and of the others.
        let before = self.several & ((1 << bit) - 1);
        let mut place = self.first_place as usize + bit as usize - before.count_ones() as usize;
        if before != 0 {
            let last = before.ilog2();
            let (begin, list) = (self.number(last)? as usize, self.list(last)??);
            place += (begin + 1 + list.len()).checked_sub(before.count_ones() as usize)?;
        }
        let bit = bit as usize;
        let ids = if self.several >> bit & 1 == 0 { self.numbers.get(bit..=bit)? } else { self.list(bit as u32)?? };
        Some((place, Some(ids)))
    }

    #[inline(always)]
    fn number(&self, bit: u32) -> Option<u32> {
        self.numbers.get(bit as usize).map(|number| u32::from_le_bytes(*number))
    }
}
