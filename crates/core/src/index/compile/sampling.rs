//! Samples a sequence: one item of every `step`, at a varying position.
//!
//! Every tenth item of a sequence whose items alternate is always of the same kind, and says nothing about the others.

use std::iter::successors;

/// A number that spreads consecutive ones over all of 64 bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The indices of a sample of `count` items, ascending: one of each `step` in a row, from 1 on.
pub fn sample_indices(count: usize, step: usize) -> impl Iterator<Item = usize> {
    let step = step.max(1);
    let spread = successors(Some(0_u64), |number| Some(number.wrapping_add(SPREAD)));
    (0..count / step).zip(spread).map(move |(block, number)| {
        let index = ((number >> 32) as usize * step) >> 32;
        block * step + index
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_one_of_each_block_and_all_kinds_of_an_alternating_sequence() {
        for (count, step) in [(0, 1), (7, 1), (1_000_000, 976), (1_000, 10), (999, 50), (5, 6)] {
            let indices: Vec<_> = sample_indices(count, step).collect();
            assert!((0..count / step).eq(indices.iter().map(|index| index / step)), "{count} by {step}");
        }
        for kinds in 2..=12 {
            let mut counts = vec![0; kinds];
            sample_indices(1_000_000, 976).for_each(|index| counts[index % kinds] += 1);
            let expected = 1_024 / kinds;
            assert!(counts.iter().all(|count| *count > expected / 2), "{counts:?}");
        }
    }
}
