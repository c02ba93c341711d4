//! The bounds of a leaf: what its queries demand of a number, those of one attribute and kind side by side.
//!
//! ```text
//! bounds  attribute (32 bits) and flags (32); who asks; with HULL: the lowest and the highest bound, then the highest low
//!         bound and the lowest high bound; without HIGH_ONLY the low bounds, then, without LOW_ONLY,
//!         the high ones, of those who ask, or, with DENSE, of all queries
//! ```
//! With SCATTERED, each range is of its own attribute, and `scattered.rs` says what follows the head.
//!
//! Bounds are floats of eight bytes. Whole bounds, as most are, are stored with WHOLE as ranks of four bytes, two per word
//! (`number.rs`).

use crate::index::clause::{NumberKind, NumberRange};
use crate::index::layout::bytes::{extend_pairs, flags_of};

use super::number::{high_rank, low_rank};
use super::query::LEAF_QUERIES;
use super::scattered::{self, is_one_sided};

/// With this flag, the bounds are instants.
pub const TIME: u64 = 1;
/// With this flag, values outside of the bounds are wanted.
pub const NEGATED: u64 = 2;
/// With this flag, bounds lie at the positions of their queries.
pub const DENSE: u64 = 4;
/// With this flag, the lowest and the highest bound come first, then the bounds between which all hold.
pub const HULL: u64 = 8;
/// With this flag, bounds are ranks.
pub const WHOLE: u64 = 16;
/// With this flag, the bounds are days.
pub const DAY: u64 = 32;
/// With this flag, there is no upper bound.
pub const LOW_ONLY: u64 = 64;
/// With this flag, there is no lower bound.
pub const HIGH_ONLY: u64 = 128;
/// With this flag, each range is of an attribute and kind of its own.
pub const SCATTERED: u64 = 256;
/// The maximum number of ranges of one attribute that are scattered.
pub const SCATTERED_MAX: usize = HULL_MIN - 1;
/// The minimum number of attributes and kinds of scattered ranges.
const SCATTERED_MIN_HEADS: usize = 3;
/// The minimum number of ranges that are worth a hull.
const HULL_MIN: usize = 8;

/// Ranges of one attribute and kind, or scattered ones, at most one per query, each with the bit of its query.
pub struct Bounds<'q> {
    head: u64,
    ranges: Vec<(u64, &'q NumberRange)>,
}

/// The bounds of the ranges of queries in a leaf of `count`, each with its bit. Several ranges of one query on one attribute
/// go into several bounds.
pub fn bounds_of<'q>(queries: impl Iterator<Item = (u64, &'q [NumberRange])>, count: usize) -> Vec<Bounds<'q>> {
    let mut all: Vec<Bounds<'q>> = Vec::new();
    for (bit, ranges) in queries {
        for range in ranges {
            let is_kind = |kind| range.kind == kind;
            let kinds = [(is_kind(NumberKind::Time), TIME), (is_kind(NumberKind::Day), DAY)];
            let flags = flags_of(kinds) | flags_of([(range.is_negated, NEGATED)]);
            let head = u64::from(range.attribute.0) | flags << 32;
            let is_free = |bounds: &&mut Bounds<'_>| {
                bounds.head == head && bounds.ranges.last().is_none_or(|(last, _)| *last != bit)
            };
            match all.iter_mut().find(is_free) {
                Some(bounds) => bounds.ranges.push((bit, range)),
                None => all.push(Bounds { head, ranges: vec![(bit, range)] }),
            }
        }
    }
    scatter(all, count)
}

/// `all`, with those of few ranges each laid together, by the sides on which they are bounded.
fn scatter(all: Vec<Bounds<'_>>, count: usize) -> Vec<Bounds<'_>> {
    let is_few = |bounds: &Bounds<'_>| {
        let length = bounds.ranges.len();
        bounds.head >> 32 & NEGATED == 0 && length <= SCATTERED_MAX && !is_dense(length, count)
    };
    if all.iter().filter(|bounds| is_few(bounds)).count() < SCATTERED_MIN_HEADS {
        return all;
    }
    let (few, mut kept): (Vec<_>, Vec<_>) = all.into_iter().partition(is_few);
    let mut ranges: Vec<_> = few.into_iter().flat_map(|bounds| bounds.ranges).collect();
    ranges.sort_by_key(|(bit, _)| *bit);
    let mut scattered: Vec<Bounds<'_>> = Vec::new();
    for (bit, range) in ranges {
        let is_free = |bounds: &&mut Bounds<'_>| {
            bounds.ranges.last().is_some_and(|(last, other)| *last != bit && is_one_sided(other) == is_one_sided(range))
        };
        match scattered.iter_mut().find(is_free) {
            Some(bounds) => bounds.ranges.push((bit, range)),
            None => scattered.push(Bounds { head: SCATTERED << 32, ranges: vec![(bit, range)] }),
        }
    }
    kept.append(&mut scattered);
    kept
}

/// True when the bounds of so many ranges lie at the positions of their queries, of `count`.
fn is_dense(ranges: usize, count: usize) -> bool {
    ranges * 2 >= count
}

impl Bounds<'_> {
    /// Append the bounds to `words`, in a leaf of `count` queries.
    pub fn encode(&self, count: usize, words: &mut Vec<u64>) {
        let who = self.ranges.iter().fold(0, |mask, (bit, _)| mask | bit);
        if self.head >> 32 & SCATTERED != 0 {
            let ranges = self.ranges.iter().map(|(_, range)| *range);
            let side = flags_of([(ranges.clone().all(is_one_sided), LOW_ONLY)]);
            words.extend([self.head | side << 32, who]);
            return scattered::encode(ranges, words);
        }
        let is_dense = is_dense(self.ranges.len(), count);
        let has_hull = self.ranges.len() >= HULL_MIN;
        let rank_of = |range: &NumberRange| low_rank(range.low).zip(high_rank(range.high));
        let ranks: Option<Vec<_>> = self.ranges.iter().map(|(_, range)| rank_of(range)).collect();
        let exact: Vec<_> = self.ranges.iter().map(|(_, range)| (range.low, range.high)).collect();
        let is_low_only = exact.iter().all(|(_, high)| *high == f64::INFINITY);
        let is_high_only = !is_low_only && exact.iter().all(|(low, _)| *low == f64::NEG_INFINITY);
        let side = flags_of([(is_low_only, LOW_ONLY), (is_high_only, HIGH_ONLY)]);
        let flags = flags_of([(is_dense, DENSE), (has_hull, HULL), (ranks.is_some(), WHOLE)]) | side;
        words.extend([self.head | flags << 32, who]);
        let seat_count = if is_dense { count } else { self.ranges.len() };
        if let Some(ranks) = ranks {
            let append = |bounds: &[i32]| extend_pairs(words, bounds.iter().map(|bound| bound.cast_unsigned()));
            self.encode_bounds(&ranks, seat_count, flags, append);
        } else {
            let append = |bounds: &[f64]| words.extend(bounds.iter().map(|bound| bound.to_bits()));
            self.encode_bounds(&exact, seat_count, flags, append);
        }
    }

    /// Call `append` with the hull, the low bounds and the high bounds of `each`. With more seats than ranges, bounds lie at
    /// the positions of their queries, and the seats between them are unused: all are then compared at once.
    fn encode_bounds<B: Copy + Default + PartialOrd>(
        &self,
        each: &[(B, B)],
        seat_count: usize,
        flags: u64,
        mut append: impl FnMut(&[B]),
    ) {
        let wider = |all: (B, B), one: (B, B)| {
            (if one.0 < all.0 { one.0 } else { all.0 }, if one.1 > all.1 { one.1 } else { all.1 })
        };
        let narrower = |all: (B, B), one: (B, B)| {
            (if one.0 > all.0 { one.0 } else { all.0 }, if one.1 < all.1 { one.1 } else { all.1 })
        };
        for join in [wider, narrower] {
            if let Some((low, high)) = each.iter().copied().reduce(join).filter(|_| flags & HULL != 0) {
                append(&[low, high]);
            }
        }
        let (mut lows, mut highs) = ([B::default(); LEAF_QUERIES], [B::default(); LEAF_QUERIES]);
        for (index, ((bit, _), (low, high))) in self.ranges.iter().zip(each).enumerate() {
            let seat = if seat_count > each.len() { bit.trailing_zeros() as usize } else { index };
            (lows[seat], highs[seat]) = (*low, *high);
        }
        for (bounds, is_stored) in [(lows, flags & HIGH_ONLY == 0), (highs, flags & LOW_ONLY == 0)] {
            if is_stored {
                append(&bounds[..seat_count]);
            }
        }
    }
}
