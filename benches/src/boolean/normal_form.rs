//! Disjunctive normal form, for the algorithms that accept conjunctions only.
//!
//! It may be exponential in the filter (the ITMO paper gives that as the reason not to use it), so a filter of more than
//! [`CONJUNCTIONS_MAX`] conjunctions is kept aside as it is and evaluated for every message.

use super::filter::{BooleanFilter, FilterAttribute, FilterLiteral, FilterTest, Tree};

/// How many conjunctions one filter may become.
pub const CONJUNCTIONS_MAX: usize = 64;

/// All filters as conjunctions.
#[derive(Debug, Default)]
pub struct NormalForm {
    /// The literals of each conjunction.
    pub conjunctions: Vec<Vec<FilterLiteral>>,
    /// Which filter each belongs to.
    pub owners: Vec<u32>,
    /// The filters that would have become too many.
    pub aside: Vec<(u32, Tree)>,
}

impl NormalForm {
    /// Expand every filter.
    #[must_use]
    pub fn of(filters: &[BooleanFilter]) -> Self {
        let mut all = Self::default();
        for (number, filter) in (0..).zip(filters) {
            match expand(&filter.tree) {
                Some(conjunctions) => {
                    all.owners.extend(std::iter::repeat_n(number, conjunctions.len()));
                    all.conjunctions.extend(conjunctions);
                }
                None => all.aside.push((number, filter.tree.clone())),
            }
        }
        all
    }
}

/// The conjunctions of `tree`; None when they are too many.
fn expand(tree: &Tree) -> Option<Vec<Vec<FilterLiteral>>> {
    match tree {
        Tree::Literal(literal) => Some(vec![vec![literal.clone()]]),
        Tree::Or(operands) => match one_equality(operands) {
            Some(literal) => Some(vec![vec![literal]]),
            None => {
                let expanded: Option<Vec<_>> = operands.iter().map(expand).collect();
                Some(expanded?.concat()).filter(|all| all.len() <= CONJUNCTIONS_MAX)
            }
        },
        Tree::And(operands) => {
            operands.iter().try_fold(vec![Vec::new()], |all, operand| product(&all, &expand(operand)?))
        }
    }
}

/// `a = 1 OR a IN (2, 3)` is `a IN (1, 2, 3)`: one conjunction instead of two.
fn one_equality(operands: &[Tree]) -> Option<FilterLiteral> {
    let mut attribute: Option<FilterAttribute> = None;
    let mut values = Vec::new();
    for operand in operands {
        let Tree::Literal(literal) = operand else { return None };
        if *attribute.get_or_insert(literal.attribute) != literal.attribute {
            return None;
        }
        values.extend_from_slice(literal.equality()?);
    }
    values.sort_unstable();
    values.dedup();
    Some(FilterLiteral { attribute: attribute?, test: FilterTest::OneOf(values.into()) })
}

fn product(left: &[Vec<FilterLiteral>], right: &[Vec<FilterLiteral>]) -> Option<Vec<Vec<FilterLiteral>>> {
    if left.len() * right.len() > CONJUNCTIONS_MAX {
        return None;
    }
    let joined = left.iter().flat_map(|first| right.iter().map(move |second| [&first[..], &second[..]].concat()));
    Some(joined.collect())
}
