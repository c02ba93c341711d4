//! Prefetching of memory, and code compiled for the instructions that newer processors count and shift with.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "hints, and code compiled for what the processor has been found to have")
)]

use super::bytes::WordBytes;

/// The number of bytes in a cache line.
const LINE: usize = 64;

/// Prefetch `LINES` cache lines from the start of `values`, even if these are shorter. Leaves lie far apart, and waiting
/// for each in turn is most of the time of a match.
#[inline(always)]
pub fn prefetch<const LINES: usize>(values: &[WordBytes]) {
    for line in 0..LINES {
        prefetch_line(values.as_ptr().cast::<u8>().wrapping_add(line * LINE));
    }
}

/// Prefetch all of `values`.
#[inline]
pub fn prefetch_all<T>(values: &[T]) {
    for offset in (0..size_of_val(values)).step_by(LINE) {
        prefetch_line(values.as_ptr().cast::<u8>().wrapping_add(offset));
    }
}

/// Prefetch the first cache line of `bytes`, even if they are shorter.
#[inline(always)]
pub fn prefetch_first(bytes: &[u8]) {
    prefetch_line(bytes.as_ptr());
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

/// Work that is compiled twice. [`Self::run`] and all that it calls have to be `inline(always)`: a closure would be
/// compiled for plain processors only.
pub trait WideWork {
    /// The result.
    type Output;

    /// Do the work.
    fn run(self) -> Self::Output;
}

/// Do `work` in the form that was compiled for newer processors, if this is one.
#[inline]
pub fn at_full_width<W: WideWork>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn wide<W: WideWork>(work: W) -> W::Output {
            work.run()
        }
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt") {
            // SAFETY: the processor has all the instructions that `wide` is compiled for, as just checked.
            return unsafe { wide(work) };
        }
    }
    work.run()
}
