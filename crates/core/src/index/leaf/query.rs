//! One query in the form that a leaf stores, and the limits of what a leaf stores.

use smallvec::SmallVec;

use crate::index::SubscriptionId;
use crate::index::clause::{MixedChoice, NumberRange, ValueTest};
use crate::index::ids::QueryId;

/// The number of queries in a leaf: one bit of a word each.
pub const LEAF_QUERIES: usize = 64;
/// A leaf stores at most this many tests of a query; the query is then also evaluated.
pub const TESTS_MAX: usize = 24;
/// A leaf stores at most this many choices of a query; the query is then also evaluated.
pub const CHOICES_MAX: usize = 4;
/// A leaf stores at most this many ranges of a query; the query is then also evaluated. 64 times as many bounds still fit
/// into their count.
pub const RANGES_MAX: usize = 24;
/// The maximum number of levels of conditions within conditions of a mixed choice.
pub const CHOICE_DEPTH_MAX: usize = 7;

/// With this flag in the head of a leaf, some of its queries have to be evaluated.
pub const VERIFY: u64 = 1;
/// With this flag in the head of a leaf, some of its queries have mixed choices.
pub const MIXED: u64 = 2;

/// One query as a leaf stores it, apart from its tests of single attributes.
#[derive(Clone, Debug, Default)]
pub struct LeafQuery<'a> {
    /// The number of the query.
    pub id: QueryId,
    /// Tests of several attributes, of which one has to hold.
    pub choices: SmallVec<[&'a [ValueTest]; 1]>,
    /// Ranges of numbers.
    pub ranges: &'a [NumberRange],
    /// Mixed choices.
    pub mixed: Vec<&'a MixedChoice>,
    /// True when the query has to be evaluated after all that.
    pub needs_evaluation: bool,
    /// The ids of its subscriptions, ascending.
    pub subscriptions: &'a [SubscriptionId],
    /// The position of the first of them.
    pub position: u32,
}

/// True when a query has more clauses than a leaf stores.
#[must_use]
pub fn is_cut(tests: usize, choices: usize, ranges: usize) -> bool {
    tests > TESTS_MAX || choices > CHOICES_MAX || ranges > RANGES_MAX
}

/// Each item of a leaf with the bit of its query.
pub fn with_bits<T>(items: impl IntoIterator<Item = T>) -> impl Iterator<Item = (u64, T)> {
    (0..LEAF_QUERIES).map(|index| 1_u64 << index).zip(items)
}

/// A 1 for each of `count` queries.
#[must_use]
pub fn everyone(count: usize) -> u64 {
    u64::MAX >> (LEAF_QUERIES - count)
}
