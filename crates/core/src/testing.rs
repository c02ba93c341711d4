//! Pseudo-random numbers for the tests, and how much work random and exhaustive tests do.
//!
//! miri runs a test some hundred times slower than the processor does. It checks how memory is used, for which a few
//! rounds of every kind are enough. The full counts check the results, which are the same without miri.

use std::iter::StepBy;

/// SplitMix64 from a seed: the same sequence on every machine, without a dependency.
///
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub u64);

impl Random {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    /// True once in `count` times on average.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// One of `choices`.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// At most `count_max` random bytes.
    pub fn bytes(&mut self, count_max: usize) -> Vec<u8> {
        (0..self.below(count_max + 1)).map(|_| self.bits() as u8).collect()
    }

    /// At most `count_max` characters of `alphabet`.
    pub fn text(&mut self, alphabet: &[char], count_max: usize) -> String {
        (0..self.below(count_max + 1)).map(|_| self.pick(alphabet)).collect()
    }
}

/// Every item of `all`; under miri about the cube root of their number, spread from the first to the last.
pub(crate) fn rounds<I: IntoIterator>(all: I) -> StepBy<I::IntoIter> {
    let all = all.into_iter();
    let count = all.size_hint().0.max(1);
    let mut step = count / fewer(count);
    // Rounds that alternate between two or three kinds of work still do every kind.
    while step > 1 && (step.is_multiple_of(2) || step.is_multiple_of(3)) {
        step += 1;
    }
    all.step_by(step)
}

/// `count`; under miri `few`, for tests that need a minimum, such as enough queries to fill a segment.
pub(crate) const fn or_few(count: usize, few: usize) -> usize {
    if cfg!(miri) { few } else { count }
}

/// `count`; under miri its cube root, for sizes and for rounds whose numbers must be consecutive.
pub(crate) const fn fewer(count: usize) -> usize {
    if !cfg!(miri) {
        return count;
    }
    let mut root = 1;
    while (root + 1) * (root + 1) * (root + 1) <= count {
        root += 1;
    }
    root
}
