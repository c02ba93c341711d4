//! The allocator of all that is made in Rust, and what it does with memory that is freed.

use std::ffi::CString;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use tikv_jemalloc_ctl::{arenas, background_thread, raw};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Let a thread of the allocator give freed memory back to the system, from now on.
///
/// Otherwise whoever allocates does it on the way, ten seconds after the memory was freed. To give back 12 MiB takes
/// 2 to 7 ms.
///
/// Args:
///     kept_ms: how long freed memory is kept for the next allocation, in milliseconds. It goes back bit by bit in that
///         time.
///
/// Raises:
///     OSError: the allocator cannot start the thread.
#[pyfunction]
pub fn give_memory_back(kept_ms: u32) -> PyResult<()> {
    let failed = |error| PyOSError::new_err(format!("the allocator gives no memory back: {error}"));
    keep("arenas.dirty_decay_ms", kept_ms).map_err(failed)?;
    for arena in 0..arenas::narenas::read().map_err(failed)? {
        // One that is not used yet refuses the setting, and takes it from those of new ones when it is.
        let _ = keep(&format!("arena.{arena}.dirty_decay_ms"), kept_ms);
    }
    background_thread::write(true).map_err(failed)
}

/// Set for how long freed memory is kept.
#[expect(unsafe_code, reason = "the allocator takes a setting by its name, and a number that must be of its type")]
fn keep(setting: &str, kept_ms: u32) -> tikv_jemalloc_ctl::Result<()> {
    let name = CString::new(setting).unwrap_or_default();
    unsafe { raw::write(name.as_bytes_with_nul(), kept_ms as isize) }
}
