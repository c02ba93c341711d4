//! Boxes: for each leaf of a wide group the range in which all ranges of its queries lie, per attribute and kind of number.
//!
//! The section is words of eight bytes:
//! ```text
//! count        the number of dimensions
//! dimensions   of each: attribute (32 bits), kind of number (32); its first block (32), the number of its blocks (32)
//! bounds       of each dimension: the low bounds of its blocks, their high bounds; the low bounds of the leaves of these
//!              blocks, their high bounds
//! ```
//! A block is 64 leaves from a multiple of 64 on. The last one is filled with leaves that hold no number. The blocks of a
//! dimension reach from the first that has a leaf bounded in it to the last. A block between them without such a leaf has
//! bounds that are no numbers.

use hashbrown::HashMap;

use crate::index::clause::NumberRange;
use crate::index::ids::LeafId;

use super::packing::Dimension;

/// The maximum number of blocks of all dimensions, per block of leaves: boxes take at most 1 KiB a leaf. The dimensions that
/// most leaves are bounded in come first.
const DIMENSIONS_PER_BLOCK: usize = 64;
/// The number of leaves in a block.
pub const BLOCK_LEAVES: usize = 64;
/// The range of a leaf that rules out no number.
const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
/// A leaf and its range.
type LeafRange = (LeafId, (f64, f64));
/// The bounds of a block without a leaf that is bounded: no number is below or above them.
const UNBOUNDED: (f64, f64) = (f64::NAN, f64::NAN);
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
    pub fn finish(mut self) -> Vec<u8> {
        let mut dimensions: Vec<_> = std::mem::take(&mut self.dimensions).into_iter().collect();
        let number = |(attribute, kind): Dimension| (attribute, kind as u32);
        dimensions.sort_unstable_by_key(|(id, leaves)| (std::cmp::Reverse(leaves.len()), number(*id)));
        let mut blocks_left = DIMENSIONS_PER_BLOCK * self.leaf_count.div_ceil(BLOCK_LEAVES);
        let mut all: Vec<_> =
            dimensions.into_iter().map(|(id, leaves)| (number(id), BlockRun::of(&leaves), leaves)).collect();
        all.retain(|(_, run, _)| match blocks_left.checked_sub(run.count) {
            Some(left) => {
                blocks_left = left;
                true
            }
            None => false,
        });
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let mut words = vec![all.len() as u64];
        for ((attribute, kind), run, _) in &all {
            words.extend([pair(attribute.0, *kind), pair(run.first as u32, run.count as u32)]);
        }
        for (_, run, leaves) in all {
            self.extend_bounds(run, leaves, &mut words);
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Append the bounds of one dimension.
    fn extend_bounds(&self, run: BlockRun, leaves: Vec<LeafRange>, words: &mut Vec<u64>) {
        let first = run.first * BLOCK_LEAVES;
        let leaf_count = run.count * BLOCK_LEAVES;
        let mut bounds = vec![ANY; leaf_count.min(self.leaf_count - first)];
        leaves.into_iter().for_each(|(leaf, own)| bounds[leaf.index() - first] = own);
        let blocks: Vec<_> = bounds.chunks(BLOCK_LEAVES).map(around).collect();
        bounds.resize(leaf_count, NOTHING);
        for bounds in [blocks, bounds] {
            words.extend(bounds.iter().map(|(low, _)| low.to_bits()));
            words.extend(bounds.iter().map(|(_, high)| high.to_bits()));
        }
    }
}

/// The blocks from the first to the last that have a leaf bounded in a dimension.
#[derive(Clone, Copy)]
struct BlockRun {
    first: usize,
    count: usize,
}

impl BlockRun {
    /// The blocks of `leaves`, which ascend; there is one at least.
    fn of(leaves: &[LeafRange]) -> Self {
        let block = |at: usize| leaves[at].0.index() / BLOCK_LEAVES;
        let first = block(0);
        Self { first, count: block(leaves.len() - 1) + 1 - first }
    }
}

/// The box around the `leaves` of a block; [`UNBOUNDED`] when none of them is bounded.
fn around(leaves: &[(f64, f64)]) -> (f64, f64) {
    if leaves.iter().all(|leaf| *leaf == ANY) { UNBOUNDED } else { leaves.iter().copied().fold(NOTHING, wider) }
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
