//! What the processor can do that plain code does not ask for: memory before it is needed, and, where it has them, the
//! instructions that newer processors count and shift with.
#![expect(unsafe_code, reason = "hints, and code compiled for what the processor has been found to have")]

use crate::index::leaf::Word;

/// Bytes that come in one piece.
const LINE: usize = 64;

/// Ask for `LINES` cache lines from where `values` begin, whether these are so long or not: leaves lie far apart, and
/// waiting for each in turn is most of a match's time.
#[inline(always)]
pub fn prefetch<const LINES: usize>(values: &[Word]) {
    for line in 0..LINES {
        prefetch_line(values.as_ptr().cast::<u8>().wrapping_add(line * LINE));
    }
}

/// Ask for all of `values`.
#[inline]
pub fn prefetch_all<T>(values: &[T]) {
    for place in (0..size_of_val(values)).step_by(LINE) {
        prefetch_line(values.as_ptr().cast::<u8>().wrapping_add(place));
    }
}

#[inline(always)]
fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of every x86-64; a prefetch never faults, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address; // stable Rust has no such hint for other processors
}

/// What is worth compiling twice. [`Self::run`] has to be `inline(always)`, with all that it calls: a closure would stay
/// a function of its own, for plain processors.
pub trait Work {
    /// What comes of it.
    type Output;

    /// Do it.
    fn run(self) -> Self::Output;
}

/// Do `work`, in the form that was compiled for newer processors where this is one.
#[inline]
pub fn at_full_width<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn wide<W: Work>(work: W) -> W::Output {
            work.run()
        }
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt") {
            // SAFETY: the processor has just been found to have all that `wide` is compiled for.
            return unsafe { wide(work) };
        }
    }
    work.run()
}
