//! Estimates how numbers are distributed, from the bounds that queries compare them with.

use hashbrown::HashMap;

use crate::index::clause::NumberRange;

use super::packing::Dimension;

/// The maximum number of bounds of an attribute that are looked at.
const BOUNDS_MAX: usize = 1_024;
/// With fewer bounds, a range is taken to hold of half of all numbers, whatever its bounds are.
const BOUNDS_MIN: usize = 8;

/// Bounds, ascending. Numbers are taken to be distributed as these are.
#[derive(Debug, Default)]
pub struct SortedBounds(Vec<f64>);

impl SortedBounds {
    /// The bounds `all`, in any order.
    pub fn new(mut all: Vec<f64>) -> Self {
        all.sort_by(f64::total_cmp);
        Self(all)
    }

    /// The number of bounds.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The share of numbers below `number`: between two bounds, in proportion.
    pub fn below(&self, number: f64) -> f64 {
        let Self(bounds) = self;
        let index = bounds.partition_point(|bound| *bound < number);
        if index == 0 || index == bounds.len() {
            return index as f64 / bounds.len() as f64;
        }
        let (low, high) = (bounds[index - 1], bounds[index]);
        (index as f64 - 1.0 + (number - low) / (high - low)) / (bounds.len() as f64 - 1.0)
    }
}

/// The bounds of a sample of the queries.
#[derive(Debug, Default)]
pub struct SampledBounds {
    noted: HashMap<Dimension, Vec<f64>>,
    sorted: HashMap<Dimension, SortedBounds>,
}

impl SampledBounds {
    /// Note the bounds of `range`.
    pub fn add(&mut self, range: &NumberRange) {
        let known = self.noted.entry((range.attribute, range.kind)).or_default();
        if known.len() < BOUNDS_MAX {
            known.extend([range.low, range.high].into_iter().filter(|bound| bound.is_finite()));
        }
    }

    /// All have been noted.
    pub fn sort(&mut self) {
        self.sorted = self.noted.drain().map(|(dimension, bounds)| (dimension, SortedBounds::new(bounds))).collect();
    }

    /// The share of numbers that lie in `range`.
    pub fn share(&self, range: &NumberRange) -> f64 {
        match self.sorted.get(&(range.attribute, range.kind)).filter(|bounds| bounds.len() >= BOUNDS_MIN) {
            Some(bounds) => (bounds.below(range.high) - bounds.below(range.low)).clamp(0.0, 1.0),
            None => 0.5,
        }
    }
}
