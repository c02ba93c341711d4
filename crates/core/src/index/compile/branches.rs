//! Branches: an OR that no clause can express is filed by each of its branches, so that nothing has to be evaluated.
//!
//! `a < 1 OR (b = 2 AND c > 3)` has the branches `a < 1` and `b = 2 AND c > 3`. A query is true when all clauses of one of
//! its branches hold. The branches of an OR are as many as its text names. Those of an AND are the branches of its parts, each
//! with each, and as many as these have together would be too many: the most selective ORs are divided, and the others are
//! evaluated for what is left.

use crate::query::expr::Expr;

use super::clauses::Clauses;
use super::interner::Interner;

/// The maximum number of branches of a query. Each takes one of the 64 bits of a leaf, about as much as its text.
const BRANCHES_MAX: usize = 1_024;
/// The ORs of an AND are divided while their branches, each with each, are at most so many. Every OR of two that is divided
/// doubles the memory of a query; three of them that hold of one message in ten each leave one query in a thousand.
const PRODUCT_MAX: usize = 8;
/// Another OR is divided when that leaves at most this share of the candidates: doubling the memory halves the time.
const SHARE_MAX: f64 = 0.5;
/// The first OR is divided whatever it leaves, unless it has more branches: numbers may be distributed otherwise than bounds,
/// and then boxes rule out far more than what is estimated.
const FIRST_MAX: usize = 4;

/// The branches of `expr`; one, unless it has an OR that no clause can express. Cost: that of its clauses.
pub fn branches_of(expr: &Expr, interner: &mut Interner) -> Vec<Clauses> {
    let whole = Clauses::of(expr, false, interner);
    if !whole.needs_evaluation && whole.mixed.is_empty() {
        return vec![whole];
    }
    let mut branches = split(expr, false, interner);
    branches.retain(|branch| !branch.is_never);
    // A branch that rules out nothing makes the query a candidate of every message: then once is enough.
    if branches.is_empty() || branches.iter().any(is_free) { vec![whole] } else { branches }
}

fn split(expr: &Expr, is_negated: bool, interner: &mut Interner) -> Vec<Clauses> {
    match expr {
        Expr::Predicate(_) => vec![Clauses::of(expr, is_negated, interner)],
        Expr::Not(inner) => split(inner, !is_negated, interner),
        Expr::And(children) | Expr::Or(children) if matches!(expr, Expr::And(_)) != is_negated => {
            let mut parts: Vec<_> = children.iter().map(|child| split(child, is_negated, interner)).collect();
            parts.sort_by(|a, b| {
                selectivity(a, interner).total_cmp(&selectivity(b, interner)).then(a.len().cmp(&b.len()))
            });
            let each_with_each = |all: Vec<Clauses>, own: Vec<Clauses>| {
                let own = if own.len() > 1 { divided(own, all.len(), interner) } else { own };
                with_each(&all, &own, interner)
            };
            parts.into_iter().fold(vec![Clauses::default()], each_with_each)
        }
        Expr::And(children) | Expr::Or(children) => {
            let each: Vec<_> = children.iter().map(|child| split(child, is_negated, interner)).collect();
            let is_plain = each.iter().all(|branches| branches.len() == 1);
            let all = each.concat();
            if !is_plain && all.len() <= BRANCHES_MAX {
                return all;
            }
            let joined = Clauses::any(all.clone(), interner);
            let is_plain = !joined.needs_evaluation && joined.mixed.is_empty();
            if !is_plain && all.len() <= BRANCHES_MAX { all } else { vec![joined] }
        }
    }
}

/// The `branches` of an OR of an AND, or the OR as one clause if it is not worth dividing; `count` branches are divided already.
fn divided(branches: Vec<Clauses>, count: usize, interner: &mut Interner) -> Vec<Clauses> {
    let is_first = count == 1;
    if !is_first && count * branches.len() > PRODUCT_MAX {
        return vec![Clauses::any(branches, interner)];
    }
    if is_first && branches.len() <= FIRST_MAX || selectivity(&branches, interner) <= SHARE_MAX {
        return branches;
    }
    let joined = Clauses::any(branches.clone(), interner);
    if joined.needs_evaluation { branches } else { vec![joined] }
}

/// What the parts of an AND are ordered by: those without an OR first, then by an estimate of the share of messages for which
/// one of their branches is a candidate.
fn selectivity(branches: &[Clauses], interner: &Interner) -> f64 {
    let share = |branch: &Clauses| {
        let ranges = branch.ranges.iter().filter(|range| !range.is_negated).map(|range| interner.range_share(range));
        branch.access.as_ref().map_or(1.0, |access| access.share).min(1.0) * ranges.product::<f64>()
    };
    match branches {
        [_] => -1.0,
        _ => branches.iter().map(share).sum(),
    }
}

/// Each of `some` and each of `others`, joined by AND.
fn with_each(some: &[Clauses], others: &[Clauses], interner: &Interner) -> Vec<Clauses> {
    let both = |one: &Clauses, other: &Clauses| {
        let mut both = one.clone();
        both.and(other.clone(), interner);
        both
    };
    some.iter().flat_map(|one| others.iter().map(move |other| both(one, other))).collect()
}

/// True when no clause rules anything out.
fn is_free(branch: &Clauses) -> bool {
    branch.tests.is_empty() && branch.choices.is_empty() && branch.ranges.is_empty()
}
