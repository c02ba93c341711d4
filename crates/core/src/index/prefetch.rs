//! Asking for memory before it is needed: leaves lie far apart, and waiting for each in turn is most of a match's time.
#![expect(unsafe_code, reason = "a hint to the processor, which is no memory access")]

/// Bytes that come in one piece.
const LINE: usize = 64;

/// Ask for the first `lines` cache lines of `bytes`.
#[inline]
pub fn prefetch(bytes: &[u8], lines: usize) {
    for line in bytes.chunks(LINE).take(lines) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE is part of every x86-64; a prefetch never faults, whatever the address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line; // stable Rust has no such hint for other processors
    }
}
