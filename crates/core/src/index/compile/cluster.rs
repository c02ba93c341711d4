//! Orders the queries of a group: queries that the same messages rule out lie in the same leaf.
//!
//! A group is split by the attribute whose values rule out the most of its queries, and each part again by the attribute
//! that is best there, until a part fits into a leaf. Where each attribute is asked about by few of the queries, they are
//! split by the rarest value of each instead. Smaller parts share a leaf. Parts that nothing splits are ordered
//! by their ranges of numbers (`packing.rs`), so that a number lies outside of the boxes of most leaves.

use hashbrown::HashMap;

use crate::index::clause::ValueTest;
use crate::index::ids::{AttributeId, BranchId, SymbolId};
use crate::index::leaf::query::LEAF_QUERIES;

use super::clauses::{Clauses, prefetch_clauses};
use super::interner::Interner;
use super::packing::{Packed, pack};

/// The maximum depth of splits of a group; deeper parts are ordered by the rarest value of each query.
const DEPTH_MAX: usize = 12;

/// The strictest demands have to rule out this many times what the best attribute does. An attribute parts all of its queries
/// at once and leaves others to be split further, while strictest demands scatter queries that also ask for the same.
const STRICTEST_MIN: f64 = 2.0;

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

    /// The demand that rules out the most, of those that have not split the query's part.
    fn strictest(&self, used: &[SplitCriterion]) -> Option<&Demand> {
        let demands = self.demands.iter().filter(|demand| is_next(demand.criterion, used));
        demands.max_by(|a, b| {
            a.rules_out.total_cmp(&b.rules_out).then((b.criterion, b.symbol).cmp(&(a.criterion, a.symbol)))
        })
    }

    /// The value of `criterion`, or [`SymbolId::NONE`].
    fn symbol(&self, criterion: SplitCriterion) -> SymbolId {
        self.demands.iter().find(|demand| demand.criterion == criterion).map_or(SymbolId::NONE, |demand| demand.symbol)
    }
}

/// The value of queries that demand that an attribute is absent or null.
const NO_VALUE: SymbolId = SymbolId(SymbolId::NONE.0 - 1);
/// The share of messages that a demand for absence rules out, of which queries say nothing.
const ABSENCE_RULES_OUT: f64 = 0.5;

/// The two rarest values that `test` admits.
fn demands_of<'t>(test: &'t ValueTest, interner: &'t Interner) -> impl Iterator<Item = Demand> + 't {
    let by_share = |a: &SymbolId, b: &SymbolId| interner.share(*a).total_cmp(&interner.share(*b));
    let symbols = || test.symbols.iter().copied();
    let rarest = |except: Option<SymbolId>| symbols().filter(|symbol| Some(*symbol) != except).min_by(by_share);
    let first = rarest(None);
    let second = first.and_then(|first| rarest(Some(first)));
    let rules_out = match first {
        None => ABSENCE_RULES_OUT,
        Some(_) => 1.0 - interner.test_share(test).min(1.0),
    };
    let first = first.or(Some(NO_VALUE));
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

/// What the queries of a part are sorted by, so that those that lie side by side are ruled out together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SplitKey {
    criterion: Option<SplitCriterion>,
    symbol: SymbolId,
}

/// A way to split a part.
#[derive(Clone, Copy)]
enum Split {
    /// By the values of one attribute.
    ByAttribute(SplitCriterion),
    /// By the strictest demand of each query.
    ByStrictest,
}

impl Split {
    fn key(self, query: &QueryDemands, used: &[SplitCriterion]) -> SplitKey {
        match self {
            Self::ByAttribute(criterion) => SplitKey { criterion: Some(criterion), symbol: query.symbol(criterion) },
            Self::ByStrictest => match query.strictest(used) {
                Some(demand) => SplitKey { criterion: Some(demand.criterion), symbol: demand.symbol },
                None => SplitKey { criterion: None, symbol: SymbolId::NONE },
            },
        }
    }
}

fn split(
    queries: &mut [QueryDemands],
    clauses: &[Clauses],
    start: usize,
    used: &mut Vec<SplitCriterion>,
    ends: &mut Vec<usize>,
) {
    let best = if queries.len() <= LEAF_QUERIES { None } else { best_split(queries, used) };
    let Some(best) = best.filter(|_| used.len() < DEPTH_MAX) else {
        if best.is_some() {
            queries.sort_by_cached_key(|query| Split::ByStrictest.key(query, used));
        } else {
            order_by_ranges(queries, clauses);
        }
        let leaves = 1..=queries.len().div_ceil(LEAF_QUERIES);
        ends.extend(leaves.map(|leaf| start + (leaf * LEAF_QUERIES).min(queries.len())));
        return;
    };
    queries.sort_by_cached_key(|query| best.key(query, used));
    let keys: Vec<_> = queries.iter().map(|query| best.key(query, used)).collect();
    let mut shared = 0; // queries before `at` in parts that are too small for a leaf of their own
    let mut at = 0;
    for part in keys.chunk_by(|a, b| a == b) {
        let length = part.len();
        if shared > 0 && (length > LEAF_QUERIES / 2 || shared + length > LEAF_QUERIES) {
            ends.push(start + at);
            shared = 0;
        }
        if length > LEAF_QUERIES / 2 {
            // A part without a value has nothing else to be split by than what its queries are ordered by in the end.
            let criterion = part[0].criterion;
            used.extend(criterion);
            split(&mut queries[at..at + length], clauses, start + at, used, ends);
            used.truncate(used.len() - usize::from(criterion.is_some()));
        } else {
            shared += length;
        }
        at += length;
    }
    if shared > 0 {
        ends.push(start + at);
    }
}

fn order_by_ranges(queries: &mut [QueryDemands], clauses: &[Clauses]) {
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

/// True when a part that `used` have split can be split by this one: each attribute by its rarest value first.
fn is_next((attribute, rank): SplitCriterion, used: &[SplitCriterion]) -> bool {
    !used.contains(&(attribute, rank)) && (rank == 0 || used.contains(&(attribute, rank - 1)))
}

/// The split that rules out the most; None when none rules out anything.
///
/// One attribute rules out what each of its values does. If few queries ask about any one attribute, that leaves most of them
/// together: the strictest demand of each is then better, as far as enough queries share it.
fn best_split(queries: &[QueryDemands], used: &[SplitCriterion]) -> Option<Split> {
    let mut ruled_out: HashMap<SplitCriterion, f64> = HashMap::new();
    let demands = queries.iter().flat_map(|query| &query.demands).filter(|demand| is_next(demand.criterion, used));
    demands.for_each(|demand| *ruled_out.entry(demand.criterion).or_default() += demand.rules_out);
    let best = ruled_out.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    if best.1 <= 0.0 {
        return None;
    }
    let by_attribute = Split::ByAttribute(best.0);
    let strictest: Vec<_> = queries.iter().filter_map(|query| query.strictest(used)).collect();
    let at_most: f64 = strictest.iter().map(|demand| demand.rules_out).sum();
    if at_most <= best.1 * STRICTEST_MIN {
        return Some(by_attribute);
    }
    let by_strictest = ruled_out_by_leaves(strictest);
    Some(if by_strictest > best.1 * STRICTEST_MIN { Split::ByStrictest } else { by_attribute })
}

/// How much `demands`, one of each query, rule out when neighbours share leaves: what all values in a leaf have in common.
fn ruled_out_by_leaves(mut demands: Vec<&Demand>) -> f64 {
    demands.sort_unstable_by_key(|demand| (demand.criterion, demand.symbol));
    let of_leaf = |leaf: &[&Demand]| {
        if leaf[0].criterion != leaf[leaf.len() - 1].criterion {
            return 0.0;
        }
        let shares = leaf.chunk_by(|a, b| a.symbol == b.symbol).map(|same| 1.0 - same[0].rules_out);
        (1.0 - shares.sum::<f64>()).max(0.0) * leaf.len() as f64
    };
    demands.chunks(LEAF_QUERIES).map(of_leaf).sum()
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
