//! Brute force evaluates every filter until it is decided.
//!
//! It is the definition, and the baseline of all other algorithms.

use super::BooleanMatcher;
use super::filter::{BooleanFilter, FilterMessage, Schema, Tree};

/// All filters in a row.
#[derive(Debug)]
pub struct FilterBruteForce {
    trees: Vec<Tree>,
}

impl BooleanMatcher for FilterBruteForce {
    const NAME: &'static str = "brute force";
    type Scratch = ();

    fn build(filters: &[BooleanFilter], _: &Schema) -> Self {
        Self { trees: filters.iter().map(|filter| filter.tree.clone()).collect() }
    }

    fn match_into(&self, message: &FilterMessage, (): &mut (), matched: &mut Vec<u32>) {
        let is_true = |tree: &Tree| tree.is_true(&message.values);
        matched.extend((0..).zip(&self.trees).filter(|(_, tree)| is_true(tree)).map(|(number, _)| number));
    }
}
