//! How much work random and exhaustive tests do.
//!
//! miri runs a test some hundred times slower than the processor does. It looks at how memory is used, for which a few
//! rounds of every kind are enough; the whole count is for the answers, and they are the same without it.

use std::iter::StepBy;

/// All of `all`; under miri about the cube root of it, spread from its beginning to its end.
pub(crate) fn rounds<I: IntoIterator>(all: I) -> StepBy<I::IntoIter> {
    let all = all.into_iter();
    let count = all.size_hint().0.max(1);
    let mut step = count / fewer(count);
    // Rounds that do this or that by turns shall still do all of it.
    while step > 1 && (step.is_multiple_of(2) || step.is_multiple_of(3)) {
        step += 1;
    }
    all.step_by(step)
}

/// So many; under miri `few`: for what shows nothing with fewer, as a segment that has to be filled, and clients that come
/// and go.
pub(crate) const fn or_few(count: usize, few: usize) -> usize {
    if cfg!(miri) { few } else { count }
}

/// So many; under miri the cube root of it: for sizes, and for rounds whose numbers have to follow each other.
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
