//! The boxes of leaves as they lie in memory, and the leaves that a number does not rule out.

use crate::index::clause::NumberKind;
use crate::index::ids::AttributeId;
use crate::index::layout::bytes::{WordBytes, halves, word};

/// The number of leaves in a block, one bit of a word each.
const BLOCK_LEAVES: usize = 64;

/// The boxes of the leaves of wide groups (`compile/boxes.rs`).
#[derive(Clone, Copy)]
pub struct Boxes<'a> {
    words: &'a [WordBytes],
    /// The number of blocks of leaves.
    blocks: usize,
}

/// The numbers of a message in the dimensions that have boxes: where their bounds start, and the number.
pub type BoxedNumbers = Vec<(usize, f64)>;

impl<'a> Boxes<'a> {
    /// The boxes of `leaf_count` leaves, in a section.
    #[inline(always)]
    pub fn new(words: &'a [WordBytes], leaf_count: usize) -> Self {
        Self { words, blocks: leaf_count.div_ceil(BLOCK_LEAVES) }
    }

    /// Collect the numbers that boxes can rule out leaves by: `number` says those of a message, NaN where it has none.
    #[inline(always)]
    pub fn collect(
        &self,
        number: impl Fn(AttributeId, NumberKind) -> Option<f64>,
        numbers: &mut BoxedNumbers,
    ) -> Option<()> {
        numbers.clear();
        let count = halves(word(self.words, 0).unwrap_or_default()).0 as usize;
        let size = 2 * (self.blocks + self.blocks * BLOCK_LEAVES);
        for dimension in 0..count {
            let (attribute, kind) = halves(word(self.words, 1 + dimension)?);
            let kind = NumberKind::ALL.get(kind as usize)?;
            let number = number(AttributeId(attribute), *kind)?;
            if !number.is_nan() {
                numbers.push((1 + count + dimension * size, number));
            }
        }
        Some(())
    }

    /// Clear the bits of the leaves of which the box does not hold all of `numbers`. `remaining` has one word per block, from
    /// the block `from` on.
    #[inline(always)]
    pub fn rule_out(&self, numbers: &BoxedNumbers, from: usize, remaining: &mut [u64]) -> Option<()> {
        for &(start, number) in numbers {
            let column = |start: usize, count: usize| self.words.get(start..start.checked_add(count)?);
            let block_low = column(start + from, remaining.len())?;
            let block_high = column(start + self.blocks + from, remaining.len())?;
            let leaves = start + 2 * self.blocks;
            for (index, remaining) in remaining.iter_mut().enumerate() {
                if *remaining == 0 {
                    continue;
                }
                if !holds(&block_low[index], &block_high[index], number) {
                    *remaining = 0;
                    continue;
                }
                let first = leaves + (from + index) * BLOCK_LEAVES;
                let low = column(first, BLOCK_LEAVES)?;
                let high = column(first + self.blocks * BLOCK_LEAVES, BLOCK_LEAVES)?;
                let mut holding = 0;
                for (leaf, (low, high)) in low.iter().zip(high).enumerate() {
                    holding |= u64::from(holds(low, high, number)) << (leaf % BLOCK_LEAVES);
                }
                *remaining &= holding;
            }
        }
        Some(())
    }
}

#[inline(always)]
fn holds(low: &WordBytes, high: &WordBytes, number: f64) -> bool {
    (number >= f64::from_le_bytes(*low)) & (number <= f64::from_le_bytes(*high))
}
