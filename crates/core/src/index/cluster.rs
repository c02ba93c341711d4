//! The order of a group's queries: those that the same messages rule out lie in the same leaf.
//!
//! A group is split by the attribute whose values rule out the most of its queries, each part again by the attribute
//! that is best there, until a part fits into a leaf. Parts that are smaller share one. What no attribute parts is put in
//! the order of its bounds of numbers, so that a number is far from those of most leaves.

use std::cmp::Ordering;

use super::builder::Slot;
use super::leaf::LEAF;
use super::normal::Normal;
use super::symbols::{AttributeId, Interner, NONE, SymbolId};

/// So deep a group is split; beyond that, queries stay as they are.
const DEPTH_MAX: usize = 12;

/// What a query demands of one attribute.
#[derive(Clone, Copy)]
struct Demand {
    attribute: AttributeId,
    /// The rarest of the values, under which the query is found next to its like.
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
        let demand = rows.filter_map(|test| {
            let by_share = |a: &SymbolId, b: &SymbolId| interner.share(*a).total_cmp(&interner.share(*b));
            let rarest = test.symbols.iter().copied().min_by(by_share);
            let rules_out = 1.0 - test.share(interner).min(1.0);
            rarest.map(|symbol| Demand { attribute: test.attribute, symbol, rules_out })
        });
        let bounds = normal.ranges.first().map(|range| (range.attribute, range.low, range.high));
        Asking { slot: *slot, demands: demand.collect(), bounds }
    };
    let mut queries: Vec<_> = queries.iter().map(asking).collect();
    let mut ends = Vec::new();
    split(&mut queries, 0, &mut Vec::new(), &mut ends);
    (queries.into_iter().map(|asking| asking.slot).collect(), ends)
}

fn split(queries: &mut [Asking], start: usize, used: &mut Vec<AttributeId>, ends: &mut Vec<usize>) {
    let best = if queries.len() <= LEAF || used.len() == DEPTH_MAX { None } else { best_attribute(queries, used) };
    let Some(attribute) = best else {
        if queries.len() > LEAF {
            queries.sort_by(|a, b| by_bounds(a.bounds, b.bounds));
        }
        ends.extend((1..=queries.len().div_ceil(LEAF)).map(|leaf| start + (leaf * LEAF).min(queries.len())));
        return;
    };
    let symbol = |demands: &[Demand]| demands.iter().find(|d| d.attribute == attribute).map_or(NONE, |d| d.symbol);
    queries.sort_by_cached_key(|asking| symbol(&asking.demands));
    used.push(attribute);
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

/// The attribute whose demands rule out the most; None when none rules out anything.
fn best_attribute(queries: &[Asking], used: &[AttributeId]) -> Option<AttributeId> {
    let mut ruled_out: Vec<(AttributeId, f64)> = Vec::new();
    for demand in queries.iter().flat_map(|asking| &asking.demands).filter(|d| !used.contains(&d.attribute)) {
        match ruled_out.iter_mut().find(|(attribute, _)| *attribute == demand.attribute) {
            Some((_, sum)) => *sum += demand.rules_out,
            None => ruled_out.push((demand.attribute, demand.rules_out)),
        }
    }
    let best = ruled_out.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (best.1 > 0.0).then_some(best.0)
}
