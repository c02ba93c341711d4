//! Orders the queries of a group: queries that the same messages rule out lie in the same leaf.
//!
//! A group is split by the attribute whose values rule out the most of its queries; those that do not ask about it by the next
//! best attribute, and so on. Each part is split again by the attributes that are best there, until it fits into a leaf. Smaller
//! parts share a leaf. Parts that no attribute splits are ordered by their ranges of numbers (`packing.rs`), so that a number
//! lies outside of the boxes of most leaves.

use crate::index::clause::ValueTest;
use crate::index::ids::{AttributeId, BranchId, SymbolId};
use crate::index::leaf::query::LEAF_QUERIES;

use super::clauses::{Clauses, prefetch_clauses};
use super::interner::Interner;
use super::packing::{Packed, pack};
use super::thresholds::{LEAVES_MIN, Threshold};

/// The maximum number of values that the queries of a part have in common; such parts are split no more.
const DEPTH_MAX: usize = 12;

/// The queries are split at once by all criteria that rule out at least this share of what the best one does; the others are
/// ranked again for what is left. So 200 equal attributes need a few rounds, and the best of unequal ones is split by alone. With
/// every criterion in one round, 50,000 ITMO-like filters took 10 % more time at the median.
const NEARLY_BEST: f64 = 0.9;

/// A way to split queries: an attribute, and whether by the rarest of the values that they admit (0) or by the second (1).
/// Queries that admit the same rare value and different frequent ones are ruled out by different messages, too.
type SplitCriterion = (AttributeId, usize);

/// The demand of a query on one attribute.
#[derive(Clone, Copy)]
struct Demand {
    criterion: SplitCriterion,
    /// The value by which the query is sorted.
    symbol: SymbolId,
    /// An estimate of the share of messages that this rules out.
    rules_out: f64,
}

/// The demands of a query that determine its position in the order.
#[derive(Default)]
struct QueryDemands {
    id: BranchId,
    demands: Vec<Demand>,
}

impl QueryDemands {
    fn of(id: BranchId, clauses: &Clauses, interner: &Interner) -> Self {
        let tests = clauses.tests.iter().filter(|test| !test.is_open());
        let demands = tests.flat_map(|test| demands_of(test, interner)).collect();
        Self { id, demands }
    }
}

/// The two rarest values that `test` admits.
fn demands_of<'t>(test: &'t ValueTest, interner: &'t Interner) -> impl Iterator<Item = Demand> + 't {
    let by_share = |a: &SymbolId, b: &SymbolId| interner.share(*a).total_cmp(&interner.share(*b));
    let symbols = || test.symbols.iter().copied();
    let rarest = |except: Option<SymbolId>| symbols().filter(|symbol| Some(*symbol) != except).min_by(by_share);
    let first = rarest(None);
    let second = first.and_then(|first| rarest(Some(first)));
    let rules_out = 1.0 - interner.test_share(test).min(1.0);
    let demand = move |(rank, symbol)| Demand { criterion: (test.attribute, rank), symbol, rules_out };
    [first, second].into_iter().flatten().enumerate().map(demand)
}

/// Order `queries`. Returns them, and where each leaf ends. Cost: linear in them, for each value that they are split by.
pub fn cluster(queries: &[BranchId], clauses: &[Clauses], interner: &Interner) -> (Vec<BranchId>, Vec<usize>) {
    let demands_of = |ids: &[BranchId]| {
        prefetch_clauses(clauses, ids);
        ids.iter().map(|id| QueryDemands::of(*id, &clauses[id.index()], interner)).collect::<Vec<_>>()
    };
    let mut queries: Vec<_> = queries.chunks(LEAF_QUERIES).flat_map(demands_of).collect();
    let mut splitter = Splitter { clauses, ranking: Ranking::default(), used: Vec::new(), ends: Vec::new() };
    splitter.split(&mut queries, 0);
    (queries.into_iter().map(|query| query.id).collect(), splitter.ends)
}

/// Splits queries into leaves.
struct Splitter<'c> {
    clauses: &'c [Clauses],
    ranking: Ranking,
    /// The criteria by which the part at hand has been split.
    used: Vec<SplitCriterion>,
    ends: Vec<usize>,
}

impl Splitter<'_> {
    /// Split `queries`, of which `start` others come before. Those that demand nothing of the best criteria are one part, and are
    /// split by the next best: of 200 attributes of which a query asks about four, all part the queries, and not the first
    /// [`DEPTH_MAX`].
    fn split(&mut self, queries: &mut [QueryDemands], start: usize) {
        let is_final = queries.len() <= LEAF_QUERIES || self.used.len() == DEPTH_MAX;
        if is_final || !self.ranking.rank(queries, &self.used) {
            let thresholds = order_by_ranges(queries, self.clauses);
            // A leaf of both would have no box.
            for (first, count) in [(0, thresholds), (thresholds, queries.len() - thresholds)] {
                let leaves = 1..=count.div_ceil(LEAF_QUERIES);
                self.ends.extend(leaves.map(|leaf| start + first + (leaf * LEAF_QUERIES).min(count)));
            }
            return;
        }
        queries.sort_by_cached_key(|query| self.ranking.key(query));
        let keys: Vec<_> = queries.iter().map(|query| self.ranking.key(query)).collect();
        let criteria = self.ranking.take();
        let mut shared = 0; // queries before `at` in parts that are too small for a leaf of their own
        let mut at = 0;
        while at < queries.len() {
            let length = keys[at..].iter().take_while(|key| **key == keys[at]).count();
            // A leaf that no attribute is common to is read for every message: a half filled one ends with its attribute.
            let is_next_criterion = at > 0 && keys[at].0 != keys[at - 1].0;
            let is_half_full = is_next_criterion && shared > LEAF_QUERIES / 2;
            if shared > 0 && (length > LEAF_QUERIES / 2 || shared + length > LEAF_QUERIES || is_half_full) {
                self.ends.push(start + at);
                shared = 0;
            }
            if length > LEAF_QUERIES / 2 {
                let depth = self.used.len();
                self.used.extend(criteria.get(keys[at].0 as usize));
                self.split(&mut queries[at..at + length], start + at);
                self.used.truncate(depth);
            } else {
                shared += length;
            }
            at += length;
        }
        if shared > 0 {
            self.ends.push(start + at);
        }
    }
}

/// The position of a part among those that queries are split into: the rank of its criterion, and the value.
type PartKey = (u32, SymbolId);

/// The criteria by which queries can be split, ranked by how much they rule out.
#[derive(Default)]
struct Ranking {
    /// What each criterion rules out, by [`Self::index`].
    weights: Vec<f64>,
    /// The rank of each, by the same.
    ranks: Vec<u32>,
    /// All criteria, by rank.
    criteria: Vec<SplitCriterion>,
}

impl Ranking {
    const NO_RANK: u32 = u32::MAX;

    /// The place of a criterion: an attribute has two.
    fn index((attribute, rank): SplitCriterion) -> usize {
        2 * attribute.index() + rank
    }

    /// Rank the best criteria of `queries` that come after those `used`. False when none rules out anything, or none is left.
    fn rank(&mut self, queries: &[QueryDemands], used: &[SplitCriterion]) -> bool {
        let is_next = |(attribute, rank): SplitCriterion| {
            !used.contains(&(attribute, rank)) && (rank == 0 || used.contains(&(attribute, rank - 1)))
        };
        for demand in queries.iter().flat_map(|query| &query.demands).filter(|demand| demand.rules_out > 0.0) {
            let index = Self::index(demand.criterion);
            if index >= self.weights.len() {
                self.weights.resize(index + 1, 0.0);
                self.ranks.resize(index + 1, Self::NO_RANK);
            }
            if self.weights[index] == 0.0 {
                if !is_next(demand.criterion) {
                    continue;
                }
                self.criteria.push(demand.criterion);
            }
            self.weights[index] += demand.rules_out;
        }
        let weight = |criterion: &SplitCriterion| self.weights[Self::index(*criterion)];
        self.criteria.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.cmp(b)));
        let least = NEARLY_BEST * self.criteria.first().map_or(0.0, weight);
        let near = self.criteria.partition_point(|criterion| weight(criterion) >= least);
        self.criteria.drain(near..).for_each(|criterion| self.weights[Self::index(criterion)] = 0.0);
        (0..).zip(&self.criteria).for_each(|(rank, criterion)| self.ranks[Self::index(*criterion)] = rank);
        !self.criteria.is_empty()
    }

    /// The part that `query` belongs to: that of its best criterion, or the last.
    fn key(&self, query: &QueryDemands) -> PartKey {
        let rank = |demand: &Demand| self.ranks.get(Self::index(demand.criterion)).copied().unwrap_or(Self::NO_RANK);
        let ranked = query.demands.iter().map(|demand| (rank(demand), demand.symbol));
        let best = ranked.min_by_key(|(rank, _)| *rank).filter(|(rank, _)| *rank != Self::NO_RANK);
        best.unwrap_or((Self::NO_RANK, SymbolId::NONE))
    }

    /// Take out all criteria, by rank, and forget them. Cost: linear in them.
    fn take(&mut self) -> Vec<SplitCriterion> {
        for criterion in &self.criteria {
            let index = Self::index(*criterion);
            (self.weights[index], self.ranks[index]) = (0.0, Self::NO_RANK);
        }
        std::mem::take(&mut self.criteria)
    }
}

/// Order queries by their ranges; many of one bound each come first, so that they fill leaves of their own. Returns how many
/// these are.
fn order_by_ranges(queries: &mut [QueryDemands], clauses: &[Clauses]) -> usize {
    let is_threshold = |query: &QueryDemands| Threshold::of(&clauses[query.id.index()]).is_some();
    let count = queries.iter().filter(|query| is_threshold(query)).count();
    if count < LEAVES_MIN * LEAF_QUERIES {
        pack_queries(queries, clauses);
        return 0;
    }
    queries.sort_by_cached_key(|query| !is_threshold(query));
    let (thresholds, others) = queries.split_at_mut(count);
    pack_queries(thresholds, clauses);
    pack_queries(others, clauses);
    count
}

fn pack_queries(queries: &mut [QueryDemands], clauses: &[Clauses]) {
    let ranges = |query: &QueryDemands| &clauses[query.id.index()].ranges[..];
    if queries.len() <= LEAF_QUERIES || queries.iter().all(|query| ranges(query).is_empty()) {
        return;
    }
    let mut all: Vec<_> = queries
        .iter_mut()
        .map(|query| {
            let own = ranges(query);
            Packed::new(std::mem::take(query), own)
        })
        .collect();
    pack(&mut all);
    queries.iter_mut().zip(all).for_each(|(query, packed)| *query = packed.item);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::selector::{SelectorDialect, parse};
    use crate::testing::Random;

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn all_queries_of_most_leaves_ask_about_one_attribute() {
        const ATTRIBUTES: usize = 60;
        let (mut random, mut interner) = (Random(3), Interner::default());
        let clauses = (0..20_000).map(|_| {
            let first = random.below(ATTRIBUTES);
            let second = (first + 1 + random.below(ATTRIBUTES - 1)) % ATTRIBUTES;
            let text = format!("a{first} = 'v{}' AND a{second} = 'v{}'", random.below(10), random.below(10));
            Clauses::of(parse(&text, SelectorDialect::Jms).expect("a selector").expr(), false, &mut interner)
        });
        let clauses: Vec<_> = clauses.collect();
        let (order, ends) = cluster(&(0..20_000).map(BranchId).collect::<Vec<_>>(), &clauses, &interner);
        let asks = |query: &BranchId, attribute: u32| {
            clauses[query.index()].tests.iter().any(|test| test.attribute == AttributeId(attribute))
        };
        let of_one = |leaf: &[BranchId]| (0..60).any(|attribute| leaf.iter().all(|query| asks(query, attribute)));
        let count = [0].iter().chain(&ends).zip(&ends).filter(|(start, end)| of_one(&order[**start..**end])).count();
        assert!(ends.len() < 500 && count * 20 > ends.len() * 17, "{count} of {} leaves", ends.len());
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn queries_that_admit_the_same_two_values_lie_together() {
        let names = ["a", "b", "c", "d", "e", "f"];
        let pairs: Vec<_> = (1..6).flat_map(|b| (0..b).map(move |a| (names[a], names[b]))).collect();
        let mut interner = Interner::default();
        let clauses = (0..1_500).map(|number| {
            let (a, b) = pairs[number % pairs.len()];
            let text = format!("group IN ('{a}', '{b}') AND price > {number}");
            Clauses::of(parse(&text, SelectorDialect::Jms).expect("a selector").expr(), false, &mut interner)
        });
        let clauses: Vec<_> = clauses.collect();
        let (order, ends) = cluster(&(0..1_500).map(BranchId).collect::<Vec<_>>(), &clauses, &interner);
        assert_eq!(ends.len(), 2 * pairs.len(), "100 queries of each pair have two leaves");
        for (start, end) in [0].iter().chain(&ends).zip(&ends) {
            let pair = |query: &BranchId| query.index() % pairs.len();
            assert!(order[*start..*end].iter().all(|query| pair(query) == pair(&order[*start])));
        }
    }
}
