//! The thresholds of leaves as they lie in memory: a message's number finds the ids of a run's first steps.

use crate::index::clause::NumberKind;
use crate::index::ids::{AttributeId, LeafId};
use crate::index::layout::bytes::{WordBytes, halves, word};

/// The number of words that describe a run.
const HEAD: usize = 4;

/// The thresholds of a segment (`compile/thresholds.rs`).
#[derive(Clone, Copy)]
pub struct Thresholds<'a> {
    words: &'a [WordBytes],
    count: usize,
}

/// Leaves whose queries all hold, and the bitmap of their ids.
pub struct HoldingSteps<'a> {
    /// The first leaf.
    pub first: LeafId,
    /// Where they end.
    pub end: LeafId,
    /// The word of the id of the first bit.
    pub first_word: usize,
    /// The bitmap.
    pub bitmap: &'a [WordBytes],
}

impl<'a> Thresholds<'a> {
    /// The thresholds in a section.
    #[inline(always)]
    pub fn new(words: &'a [WordBytes]) -> Self {
        Self { words, count: halves(word(words, 0).unwrap_or_default()).0 as usize }
    }

    /// Call `found` with the leaves of each run between `first` and `end` whose queries all hold. `number` says the numbers of a
    /// message, NaN where it has none. Returns None when the section is damaged.
    #[inline(always)]
    pub fn holding(
        &self,
        (first, end): (LeafId, LeafId),
        number: impl Fn(AttributeId, NumberKind) -> Option<f64>,
        mut found: impl FnMut(HoldingSteps<'a>) -> Option<()>,
    ) -> Option<()> {
        let mut start = 1 + HEAD * self.count;
        for run in 0..self.count {
            let pair = |at: usize| Some(halves(word(self.words, 1 + HEAD * run + at)?));
            let ((leaf, leaves), (attribute, kind)) = (pair(0)?, pair(1)?);
            let ((step, is_high), (first_word, words)) = (pair(2)?, pair(3)?);
            let (steps, words) = (leaves.checked_div(step)?, words as usize);
            let bounds = self.words.get(start..start.checked_add(steps as usize)?)?;
            let bitmaps = start + steps as usize;
            start = bitmaps.checked_add(words.checked_mul(steps as usize)?)?;
            if leaf < first.0 || leaf >= end.0 {
                continue;
            }
            let number = number(AttributeId(attribute), *NumberKind::ALL.get(kind as usize)?)?;
            let is_within = |bound: &WordBytes| {
                let bound = f64::from_le_bytes(*bound);
                if is_high == 0 { number >= bound } else { number <= bound }
            };
            let holding = bounds.partition_point(is_within);
            let Some(last) = holding.checked_sub(1) else { continue };
            let (count, run_end) = (holding as u32 * step, leaf.checked_add(leaves)?);
            let first = if is_high == 0 { leaf } else { run_end - count };
            let bitmap = self.words.get(bitmaps + last * words..bitmaps + holding * words)?;
            let (first, end) = (LeafId(first), LeafId(first + count));
            found(HoldingSteps { first, end, first_word: first_word as usize, bitmap })?;
        }
        Some(())
    }
}
