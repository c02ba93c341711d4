//! Counts the bytes that a structure occupies as the allocator sees them, which is exact where resident memory is not.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, which counts while [`bytes_of`] asks for it; otherwise it costs one branch.
struct CountingAllocator;

fn count(change: isize) {
    if COUNTING.load(Ordering::Relaxed) {
        BYTES.fetch_add(change, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches nothing of the caller's.
#[expect(unsafe_code, reason = "the trait is unsafe; nothing in std tells what has been allocated")]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// What `build` makes, and the bytes that were allocated meanwhile and are still held, by all threads together.
pub fn bytes_of<T>(build: impl FnOnce() -> T) -> (T, usize) {
    BYTES.store(0, Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    let built = build();
    COUNTING.store(false, Ordering::Relaxed);
    (built, usize::try_from(BYTES.load(Ordering::Relaxed)).unwrap_or(0))
}
