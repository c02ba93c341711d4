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
}

/// A number of a message in a dimension that has boxes.
#[derive(Clone, Copy, Debug)]
pub struct BoxedNumber {
    number: f64,
    /// Where the bounds of the dimension start.
    start: usize,
    /// Its first block, and the number of its blocks.
    first: usize,
    count: usize,
}

/// The numbers of a message in the dimensions that have boxes.
pub type BoxedNumbers = Vec<BoxedNumber>;

impl<'a> Boxes<'a> {
    /// The boxes in a section.
    #[inline(always)]
    pub fn new(words: &'a [WordBytes]) -> Self {
        Self { words }
    }

    /// Collect the numbers that boxes can rule out leaves by: `number` says those of a message, NaN where it has none.
    #[inline(always)]
    pub fn collect(
        &self,
        number: impl Fn(AttributeId, NumberKind) -> Option<f64>,
        numbers: &mut BoxedNumbers,
    ) -> Option<()> {
        numbers.clear();
        let dimensions = halves(word(self.words, 0).unwrap_or_default()).0 as usize;
        let mut start = 1 + 2 * dimensions;
        for dimension in 0..dimensions {
            let (attribute, kind) = halves(word(self.words, 1 + 2 * dimension)?);
            let (first, count) = halves(word(self.words, 2 + 2 * dimension)?);
            let kind = NumberKind::ALL.get(kind as usize)?;
            let number = number(AttributeId(attribute), *kind)?;
            if !number.is_nan() {
                numbers.push(BoxedNumber { number, start, first: first as usize, count: count as usize });
            }
            start += 2 * (count as usize + count as usize * BLOCK_LEAVES);
        }
        Some(())
    }

    /// Clear the bits of the leaves of which the box does not hold all of `numbers`. `remaining` has one word per block, from
    /// the block `from` on. All numbers rule out blocks before any is compared with the leaves of those that remain.
    #[inline(always)]
    pub fn rule_out(&self, numbers: &BoxedNumbers, from: usize, remaining: &mut [u64]) -> Option<()> {
        for number in numbers {
            let (own, blocks) = number.own(from, remaining);
            let bounds = self.bounds(number.start, number.count)?;
            let bounds = bounds.0.get(blocks.clone())?.iter().zip(bounds.1.get(blocks)?);
            for (remaining, (low, high)) in own.iter_mut().zip(bounds) {
                *remaining &= u64::from(holds(low, high, number.number)).wrapping_neg();
            }
        }
        for number in numbers {
            let (own, blocks) = number.own(from, remaining);
            for (remaining, block) in own.iter_mut().zip(blocks) {
                if *remaining != 0 {
                    *remaining &= self.holding_leaves(number, block)?;
                }
            }
        }
        Some(())
    }

    /// The leaves of a block of the dimension of `number` whose box holds it.
    #[inline(always)]
    fn holding_leaves(&self, number: &BoxedNumber, block: usize) -> Option<u64> {
        let (blocks, _) = self.bounds(number.start, number.count)?;
        if f64::from_le_bytes(*blocks.get(block)?).is_nan() {
            return Some(u64::MAX);
        }
        let (low, high) = self.bounds(number.start + 2 * number.count, number.count * BLOCK_LEAVES)?;
        let own = block * BLOCK_LEAVES..(block + 1) * BLOCK_LEAVES;
        let mut holding = 0;
        for (leaf, (low, high)) in low.get(own.clone())?.iter().zip(high.get(own)?).enumerate() {
            holding |= u64::from(holds(low, high, number.number)) << (leaf % BLOCK_LEAVES);
        }
        Some(holding)
    }

    /// `count` low bounds from `start` on, and the high bounds that follow them.
    #[inline(always)]
    fn bounds(&self, start: usize, count: usize) -> Option<(&'a [WordBytes], &'a [WordBytes])> {
        self.words.get(start..start.checked_add(2 * count)?)?.split_at_checked(count)
    }
}

impl BoxedNumber {
    /// The words of `remaining`, which begins with the block `from`, that are those of the dimension's blocks, and their numbers
    /// within the dimension. Both are empty when the dimension lies before them or after.
    #[inline(always)]
    fn own<'r>(&self, from: usize, remaining: &'r mut [u64]) -> (&'r mut [u64], std::ops::Range<usize>) {
        let (start, end) = (self.first.max(from), (self.first + self.count).min(from + remaining.len()));
        if start >= end {
            return (&mut [], 0..0);
        }
        (&mut remaining[start - from..end - from], start - self.first..end - self.first)
    }
}

/// Whether `number` lies between the bounds. Bounds that are no numbers hold every number.
#[inline(always)]
fn holds(low: &WordBytes, high: &WordBytes, number: f64) -> bool {
    let (is_below, is_above) = (number < f64::from_le_bytes(*low), number > f64::from_le_bytes(*high));
    !is_below & !is_above
}
