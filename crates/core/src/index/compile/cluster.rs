//! The order of a group's queries: those that the same messages rule out lie in the same leaf.
//!
//! A group is split by the attribute whose values rule out the most of its queries, each part again by the attribute
//! that is best there, until a part fits into a leaf. Parts that are smaller share one. What no attribute parts is put in
//! the order of its bounds of numbers, so that a number is far from those of most leaves.

use std::cmp::Ordering;

use crate::index::compile::builder::Slot;
use crate::index::compile::clauses::{Normal, ask_for};
use crate::index::compile::interner::{AttributeId, Interner, NONE, SymbolId};
use crate::index::leaf::LEAF;

/// So deep a group is split; beyond that, queries stay as they are.
const DEPTH_MAX: usize = 12;

/// What parts queries: an attribute, and whether by the rarest of the values that they admit of it (0) or by the second
/// (1). Queries that admit the same rare value and different frequent ones are ruled out by different messages, too.
type Criterion = (AttributeId, usize);

/// What a query demands of one attribute.
#[derive(Clone, Copy)]
struct Demand {
    criterion: Criterion,
    /// The value, under which the query is found next to its like.
    symbol: SymbolId,
    /// The part of the messages that this rules out, guessed.
    rules_out: f64,
}

/// What a query asks for, as far as its place in the order goes.
struct Asking {
    slot: Slot,
    demands: Vec<Demand>,
    /// Of the first of its ranges.
    bounds: Option<(AttributeId, f64, f64)>,
}

/// Put `queries` in order. Returns them, and where each leaf ends. Cost: linear in them, for each attribute that parts
/// them.
pub fn cluster(queries: &[Slot], normals: &[Normal], interner: &Interner) -> (Vec<Slot>, Vec<usize>) {
    let asking = |slot: &Slot| {
        let normal = &normals[*slot as usize];
        let rows = normal.rows.iter().filter(|test| !test.is_open());
        let demands = rows.flat_map(|test| {
            let by_share = |a: &SymbolId, b: &SymbolId| interner.share(*a).total_cmp(&interner.share(*b));
            let symbols = || test.symbols.iter().copied();
            let rarest = |but: Option<SymbolId>| symbols().filter(|symbol| Some(*symbol) != but).min_by(by_share);
            let first = rarest(None);
            let second = first.and_then(|first| rarest(Some(first)));
            let rules_out = 1.0 - test.share(interner).min(1.0);
            let demand = move |(place, symbol)| Demand { criterion: (test.attribute, place), symbol, rules_out };
            [first, second].into_iter().flatten().enumerate().map(demand)
        });
        let bounds = normal.ranges.first().map(|range| (range.attribute, range.low, range.high));
        Asking { slot: *slot, demands: demands.collect(), bounds }
    };
    let asking_of = |slots: &[Slot]| {
        ask_for(normals, slots);
        slots.iter().map(asking).collect::<Vec<_>>()
    };
    let mut queries: Vec<_> = queries.chunks(LEAF).flat_map(asking_of).collect();
    let mut ends = Vec::new();
    split(&mut queries, 0, &mut Vec::new(), &mut ends);
    (queries.into_iter().map(|asking| asking.slot).collect(), ends)
}

fn split(queries: &mut [Asking], start: usize, used: &mut Vec<Criterion>, ends: &mut Vec<usize>) {
    let best = if queries.len() <= LEAF || used.len() == DEPTH_MAX { None } else { best_criterion(queries, used) };
    let Some(criterion) = best else {
        if queries.len() > LEAF {
            queries.sort_by(|a, b| by_bounds(a.bounds, b.bounds));
        }
        ends.extend((1..=queries.len().div_ceil(LEAF)).map(|leaf| start + (leaf * LEAF).min(queries.len())));
        return;
    };
    let symbol = |demands: &[Demand]| demands.iter().find(|d| d.criterion == criterion).map_or(NONE, |d| d.symbol);
    queries.sort_by_cached_key(|asking| symbol(&asking.demands));
    used.push(criterion);
    let mut shared = 0; // queries at the end of what is done, in parts too small for a leaf of their own
    let mut at = 0;
    while at < queries.len() {
        let own = symbol(&queries[at].demands);
        let length = queries[at..].iter().take_while(|asking| symbol(&asking.demands) == own).count();
        if shared > 0 && (length > LEAF / 2 || shared + length > LEAF) {
            ends.push(start + at);
            shared = 0;
        }
        if length > LEAF / 2 {
            split(&mut queries[at..at + length], start + at, used, ends);
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

fn by_bounds(a: Option<(AttributeId, f64, f64)>, b: Option<(AttributeId, f64, f64)>) -> Ordering {
    let (Some(a), Some(b)) = (a, b) else { return a.is_some().cmp(&b.is_some()) };
    a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
}

/// The criterion by which demands rule out the most; None when none rules out anything.
fn best_criterion(queries: &[Asking], used: &[Criterion]) -> Option<Criterion> {
    let mut ruled_out: Vec<(Criterion, f64)> = Vec::new();
    let is_next = |(attribute, place): Criterion| {
        !used.contains(&(attribute, place)) && (place == 0 || used.contains(&(attribute, place - 1)))
    };
    for demand in queries.iter().flat_map(|asking| &asking.demands).filter(|demand| is_next(demand.criterion)) {
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
        let normals = (0..1_500).map(|number| {
            let (a, b) = pairs[number % pairs.len()];
            let text = format!("group IN ('{a}', '{b}') AND price > {number}");
            Normal::of(parse(&text, SelectorDialect::Jms).expect("a selector").expr(), false, &mut interner)
        });
        let normals: Vec<_> = normals.collect();
        let (order, ends) = cluster(&(0..1_500).collect::<Vec<_>>(), &normals, &interner);
        assert_eq!(ends.len(), 2 * pairs.len(), "100 queries of each pair have two leaves");
        for (start, end) in [0].iter().chain(&ends).zip(&ends) {
            let pair = |slot: &Slot| *slot as usize % pairs.len();
            assert!(order[*start..*end].iter().all(|slot| pair(slot) == pair(&order[*start])));
        }
    }
}
