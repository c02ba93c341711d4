//! Decides by cost which queries are filed under their access keys, and which are found by the summaries of the common group.
//!
//! The cost of a query is the expected number of masks that are read for it. A leaf is read for the share of messages that its
//! summaries or its key do not rule out. Reading it takes a mask for each attribute that its queries ask about, and as long as
//! some more before the first; its queries share that.

use hashbrown::{HashMap, HashSet};

use crate::index::clause::{AccessKey, AccessKeys, ValueTest};
use crate::index::ids::{AttributeId, BranchId};
use crate::index::leaf::query::LEAF_QUERIES;

use super::clauses::{Clauses, prefetch_clauses};
use super::interner::Interner;
use super::summary::ATTRIBUTES_MAX;

/// A query whose keys at most this share of messages has is filed under them without comparing costs: summaries could save
/// less than comparing all leaves with its values takes to build.
const RARE_SHARE: f64 = 1.0 / 40.0;
/// The cost of reaching a leaf, in masks: about 20 ns, where a mask takes 5.
const LEAF_COST: f64 = 4.0;
/// The cost of the memory of a copy under one more key, in masks: that of reading a hundredth of a leaf. A list of 30 values,
/// of which half the messages have one, stays in the common group unless its leaves are read for nearly every message.
const COPY_COST: f64 = 0.01 * LEAF_COST / LEAF_QUERIES as f64;

/// What is known of the queries when they are placed.
pub struct Placing<'b> {
    clauses: &'b [Clauses],
    interner: &'b Interner,
    /// The attributes that have summaries.
    summarised: HashSet<AttributeId>,
    /// The number of queries that can be filed under each key.
    queries: HashMap<AccessKey, usize>,
}

impl<'b> Placing<'b> {
    /// What is known of the queries with these clauses. Cost: linear in their keys.
    #[must_use]
    pub fn new(clauses: &'b [Clauses], interner: &'b Interner) -> Self {
        let mut queries: HashMap<AccessKey, usize> = HashMap::new();
        let keys = clauses.iter().filter_map(|query| query.access.as_ref()).flat_map(|access| &access.keys);
        keys.for_each(|key| *queries.entry(*key).or_default() += 1);
        Self { clauses, interner, summarised: interner.most_asked(ATTRIBUTES_MAX), queries }
    }

    /// True when a query with these keys is filed under them whatever else it demands.
    #[must_use]
    pub fn is_rare(&self, access: &AccessKeys) -> bool {
        access.share <= RARE_SHARE
    }

    /// The queries of a leaf of the common group that cost less under their keys.
    pub fn cheaper_by_key(&self, leaf: &[BranchId]) -> impl Iterator<Item = BranchId> {
        prefetch_clauses(self.clauses, leaf);
        let attributes = self.attribute_count(leaf);
        let cost = self.share_read(leaf) * (LEAF_COST + attributes as f64) / leaf.len() as f64;
        let is_cheaper = move |id: &BranchId| {
            let clauses = &self.clauses[id.index()];
            let Some(access) = &clauses.access else { return false };
            // A body is searched for nothing but keys: without one, the query is evaluated.
            if self.is_of_body(access) {
                self.is_free(clauses)
            } else {
                self.key_cost(clauses, access, attributes) < cost
            }
        };
        leaf.iter().copied().filter(is_cheaper)
    }

    fn is_of_body(&self, access: &AccessKeys) -> bool {
        let is_it = |key: &AccessKey| match *key {
            AccessKey::Symbol(symbol) => self.interner.origin(self.interner.attribute_of(symbol)).is_of_body(),
            AccessKey::Presence(_) => false,
        };
        access.keys.iter().any(is_it)
    }

    /// True when no summary can rule out a query.
    fn is_free(&self, clauses: &Clauses) -> bool {
        let rules_out = |tests: &[ValueTest]| tests.iter().all(|test| self.is_demand(test));
        !clauses.tests.iter().any(|test| self.is_demand(test)) && !clauses.choices.iter().any(|tests| rules_out(tests))
    }

    /// The number of attributes that a leaf has masks of.
    fn attribute_count(&self, leaf: &[BranchId]) -> usize {
        let tests = leaf.iter().flat_map(|id| &self.clauses[id.index()].tests);
        let mut attributes: Vec<_> = tests.map(|test| test.attribute).collect();
        attributes.sort_unstable();
        attributes.dedup();
        attributes.len()
    }

    /// The cost of a query under its keys. Small groups have no summaries, so that all their leaves are read; their queries ask
    /// about no more `attributes` than those of a leaf of the common group.
    fn key_cost(&self, clauses: &Clauses, access: &AccessKeys, attributes: usize) -> f64 {
        let of_key = |key: &AccessKey| {
            let share = match *key {
                AccessKey::Symbol(symbol) => self.interner.share(symbol),
                AccessKey::Presence(attribute) => self.interner.presence_share(attribute),
            };
            let neighbours = self.queries[key].min(LEAF_QUERIES);
            let masks = (clauses.tests.len() * neighbours).min(attributes);
            share * (LEAF_COST + masks as f64) / neighbours as f64 + COPY_COST
        };
        access.keys.iter().map(of_key).sum()
    }

    /// An estimate of the share of messages for which the summaries leave a leaf: the product over the attributes that all
    /// its queries demand a value of.
    fn share_read(&self, leaf: &[BranchId]) -> f64 {
        let demands = |id: BranchId| self.clauses[id.index()].tests.iter().filter(|test| self.is_demand(test));
        let of_attribute = |demand: &ValueTest| {
            let mut symbols = Vec::new();
            for id in leaf {
                match demands(*id).find(|test| test.attribute == demand.attribute) {
                    None => return 1.0,
                    Some(test) => symbols.extend_from_slice(&test.symbols),
                }
            }
            symbols.sort_unstable();
            symbols.dedup();
            symbols.iter().map(|symbol| self.interner.share(*symbol)).sum::<f64>().min(1.0)
        };
        leaf.first().map_or(1.0, |first| demands(*first).map(of_attribute).product())
    }

    /// True when the summaries of one attribute decide `test`.
    fn is_demand(&self, test: &ValueTest) -> bool {
        let is_several = || self.interner.origin(test.attribute).is_several();
        !test.is_open() && !test.symbols.is_empty() && self.summarised.contains(&test.attribute) && !is_several()
    }
}
