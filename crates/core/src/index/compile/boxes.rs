//! Boxes: for each leaf of a wide group the range in which all ranges of its queries lie, per attribute and kind of number.
//!
//! The section is words of eight bytes:
//! ```text
//! count        the number of dimensions
//! dimensions   of each: attribute (32 bits), kind of number (32)
//! bounds       of each dimension: the low bounds of the blocks, their high bounds; the low bounds of the leaves, their high
//!              bounds
//! ```
//! A block is 64 leaves from a multiple of 64 on. The last one is filled with leaves that hold no number.

use hashbrown::HashMap;

use crate::index::clause::NumberRange;
use crate::index::ids::LeafId;

use super::packing::Dimension;

/// The maximum number of dimensions with boxes: those that most leaves are bounded in.
const DIMENSIONS_MAX: usize = 64;
/// The number of leaves in a block.
pub const BLOCK_LEAVES: usize = 64;
/// The range of a leaf that rules out no number.
const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
/// A leaf and its range.
type LeafRange = (LeafId, (f64, f64));
/// The range of no leaf.
const NOTHING: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

/// Collects the ranges of leaves.
pub struct BoxBuilder {
    leaf_count: usize,
    dimensions: HashMap<Dimension, Vec<LeafRange>>,
}

impl BoxBuilder {
    /// A builder for the first `leaf_count` leaves.
    pub fn new(leaf_count: usize) -> Self {
        Self { leaf_count, dimensions: HashMap::new() }
    }

    /// Add the ranges of each query of `leaf`.
    pub fn add<'q>(&mut self, leaf: LeafId, queries: impl Iterator<Item = &'q [NumberRange]> + Clone) {
        let Some(first) = queries.clone().next() else { return };
        // A box is bounded only where every query is: the dimensions of the first are all that need to be looked at.
        let mut done: Vec<Dimension> = Vec::new();
        for dimension in first.iter().map(|range| (range.attribute, range.kind)) {
            if done.contains(&dimension) {
                continue;
            }
            done.push(dimension);
            if let Some(bounds) = box_of(dimension, queries.clone()) {
                self.dimensions.entry(dimension).or_default().push((leaf, bounds));
            }
        }
    }

    /// The section.
    pub fn finish(self) -> Vec<u8> {
        let mut dimensions: Vec<_> = self.dimensions.into_iter().collect();
        let number = |(attribute, kind): Dimension| (attribute, kind as u32);
        dimensions.sort_unstable_by_key(|(id, leaves)| (std::cmp::Reverse(leaves.len()), number(*id)));
        dimensions.truncate(DIMENSIONS_MAX);
        let mut words = vec![dimensions.len() as u64];
        words.extend(dimensions.iter().map(|((attribute, kind), _)| u64::from(attribute.0) | (*kind as u64) << 32));
        for (_, leaves) in dimensions {
            let mut bounds = vec![ANY; self.leaf_count];
            leaves.into_iter().for_each(|(leaf, own)| bounds[leaf.index()] = own);
            bounds.resize(self.leaf_count.next_multiple_of(BLOCK_LEAVES), NOTHING);
            let blocks: Vec<_> =
                bounds.chunks(BLOCK_LEAVES).map(|block| block.iter().copied().fold(NOTHING, wider)).collect();
            for bounds in [blocks, bounds] {
                words.extend(bounds.iter().map(|(low, _)| low.to_bits()));
                words.extend(bounds.iter().map(|(_, high)| high.to_bits()));
            }
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }
}

fn wider(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// The range in which those of all `queries` lie; None when one has none, or when it rules out no number.
fn box_of<'q>(dimension: Dimension, mut queries: impl Iterator<Item = &'q [NumberRange]>) -> Option<(f64, f64)> {
    let of_query = |ranges: &'q [NumberRange]| {
        let is_mine = |range: &&NumberRange| (range.attribute, range.kind) == dimension && !range.is_negated;
        let bounds = ranges.iter().filter(is_mine).map(|range| (range.low, range.high));
        bounds.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))
    };
    let all = queries.try_fold(NOTHING, |all, ranges| Some(wider(all, of_query(ranges)?)))?;
    (all != ANY).then_some(all)
}
