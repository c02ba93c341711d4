//! Branches: an OR that no clause can express is filed by each of its branches, so that nothing has to be evaluated.
//!
//! `a < 1 OR (b = 2 AND c > 3)` has the branches `a < 1` and `b = 2 AND c > 3`. A query is true when all clauses of one of
//! its branches hold. The branches of an AND are those of its parts, each with each. Their number is bounded: beyond it,
//! the OR is evaluated.

use crate::query::expr::Expr;

use super::clauses::Clauses;
use super::interner::Interner;

/// The maximum number of branches of a query. Each takes one of the 64 bits of a leaf.
const BRANCHES_MAX: usize = 64;

/// The branches of `expr`; one, unless it has an OR that no clause can express. Cost: that of its clauses.
pub fn branches_of(expr: &Expr, interner: &mut Interner) -> Vec<Clauses> {
    let whole = Clauses::of(expr, false, interner);
    if !whole.needs_evaluation {
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
            let each_with_each = |all: Vec<Clauses>, child| {
                let own = split(child, is_negated, interner);
                let is_too_much = all.len() * own.len() > BRANCHES_MAX;
                with_each(&all, &if is_too_much { vec![Clauses::any(own, interner)] } else { own }, interner)
            };
            children.iter().fold(vec![Clauses::default()], each_with_each)
        }
        Expr::And(children) | Expr::Or(children) => {
            let each: Vec<_> = children.iter().map(|child| split(child, is_negated, interner)).collect();
            let is_plain = each.iter().all(|branches| branches.len() == 1);
            let all = each.concat();
            if !is_plain && all.len() <= BRANCHES_MAX {
                return all;
            }
            let joined = Clauses::any(all.clone(), interner);
            if joined.needs_evaluation && all.len() <= BRANCHES_MAX { all } else { vec![joined] }
        }
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
