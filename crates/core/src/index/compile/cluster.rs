//! Orders the queries of a group: queries that the same messages rule out lie in the same leaf.
//!
//! A group is split by the attribute whose values rule out the most of its queries, and each part again by the attribute
//! that is best there, until a part fits into a leaf. Smaller parts share a leaf. Parts that no attribute splits are ordered
//! by their ranges of numbers (`packing.rs`), so that a number lies outside of the boxes of most leaves.

use crate::index::clause::ValueTest;
use crate::index::ids::{AttributeId, BranchId, SymbolId};
use crate::index::leaf::query::LEAF_QUERIES;

use super::clauses::{Clauses, prefetch_clauses};
use super::interner::Interner;
use super::packing::{Packed, pack};
use super::thresholds::{LEAVES_MIN, Threshold};

/// The maximum depth of splits of a group; deeper parts stay as they are.
const DEPTH_MAX: usize = 12;

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

    /// The value of `criterion`, or [`SymbolId::NONE`].
    fn symbol(&self, criterion: SplitCriterion) -> SymbolId {
        self.demands.iter().find(|demand| demand.criterion == criterion).map_or(SymbolId::NONE, |demand| demand.symbol)
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

/// Order `queries`. Returns them, and where each leaf ends. Cost: linear in them, per attribute that splits them.
pub fn cluster(queries: &[BranchId], clauses: &[Clauses], interner: &Interner) -> (Vec<BranchId>, Vec<usize>) {
    let demands_of = |ids: &[BranchId]| {
        prefetch_clauses(clauses, ids);
        ids.iter().map(|id| QueryDemands::of(*id, &clauses[id.index()], interner)).collect::<Vec<_>>()
    };
    let mut queries: Vec<_> = queries.chunks(LEAF_QUERIES).flat_map(demands_of).collect();
    let mut ends = Vec::new();
    split(&mut queries, clauses, 0, &mut Vec::new(), &mut ends);
    (queries.into_iter().map(|query| query.id).collect(), ends)
}

fn split(
    queries: &mut [QueryDemands],
    clauses: &[Clauses],
    start: usize,
    used: &mut Vec<SplitCriterion>,
    ends: &mut Vec<usize>,
) {
    let is_final = queries.len() <= LEAF_QUERIES || used.len() == DEPTH_MAX;
    let Some(criterion) = (if is_final { None } else { best_criterion(queries, used) }) else {
        order_by_ranges(queries, clauses);
        let leaves = 1..=queries.len().div_ceil(LEAF_QUERIES);
        ends.extend(leaves.map(|leaf| start + (leaf * LEAF_QUERIES).min(queries.len())));
        return;
    };
    queries.sort_by_cached_key(|query| query.symbol(criterion));
    used.push(criterion);
    let mut shared = 0; // queries before `at` in parts that are too small for a leaf of their own
    let mut at = 0;
    while at < queries.len() {
        let own = queries[at].symbol(criterion);
        let length = queries[at..].iter().take_while(|query| query.symbol(criterion) == own).count();
        if shared > 0 && (length > LEAF_QUERIES / 2 || shared + length > LEAF_QUERIES) {
            ends.push(start + at);
            shared = 0;
        }
        if length > LEAF_QUERIES / 2 {
            split(&mut queries[at..at + length], clauses, start + at, used, ends);
        } else {
            shared += length;
        }
        at += length;
    }
    if shared > 0 {
        ends.push(start + at);
    }
    used.pop();
}

/// Order queries by their ranges; many of one bound each come first, so that they fill leaves of their own.
fn order_by_ranges(queries: &mut [QueryDemands], clauses: &[Clauses]) {
    let is_threshold = |query: &QueryDemands| Threshold::of(&clauses[query.id.index()]).is_some();
    let count = queries.iter().filter(|query| is_threshold(query)).count();
    if count < LEAVES_MIN * LEAF_QUERIES {
        return pack_queries(queries, clauses);
    }
    queries.sort_by_cached_key(|query| !is_threshold(query));
    let (thresholds, others) = queries.split_at_mut(count);
    pack_queries(thresholds, clauses);
    pack_queries(others, clauses);
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

/// The criterion by which demands rule out the most; None when none rules out anything.
fn best_criterion(queries: &[QueryDemands], used: &[SplitCriterion]) -> Option<SplitCriterion> {
    let mut ruled_out: Vec<(SplitCriterion, f64)> = Vec::new();
    let is_next = |(attribute, rank): SplitCriterion| {
        !used.contains(&(attribute, rank)) && (rank == 0 || used.contains(&(attribute, rank - 1)))
    };
    for demand in queries.iter().flat_map(|query| &query.demands).filter(|demand| is_next(demand.criterion)) {
        match ruled_out.iter_mut().find(|(criterion, _)| *criterion == demand.criterion) {
            Some((_, sum)) => *sum += demand.rules_out,
            None => ruled_out.push((demand.criterion, demand.rules_out)),
        }
    }
    let best = ruled_out.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (best.1 > 0.0).then_some(best.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::selector::{SelectorDialect, parse};

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
