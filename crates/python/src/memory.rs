//! The allocator of all that is made in Rust, and what it does with memory that is freed.

use std::ffi::{CString, c_int};
use std::ptr::null_mut;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tikv_jemalloc_sys::mallctl;

/// What the allocator says of a name that it does not know: ENOENT.
const UNKNOWN: c_int = 2;

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
///     RuntimeError: the allocator cannot start the thread.
#[pyfunction]
pub fn give_memory_back(kept_ms: u32) -> PyResult<()> {
    let failed = |code| PyRuntimeError::new_err(format!("the allocator gives no memory back: error {code}"));
    set("arenas.dirty_decay_ms", kept_ms as isize).map_err(failed)?;
    // An arena that is not in use yet refuses the setting, and takes that of new ones when it is.
    (0..).find(|arena| set(&format!("arena.{arena}.dirty_decay_ms"), kept_ms as isize) == Err(UNKNOWN));
    set("background_thread", true).map_err(failed)
}

/// Change a setting of the allocator, whose type must be `T`.
fn set<T>(name: &str, mut value: T) -> Result<(), c_int> {
    let name = CString::new(name).unwrap_or_default();
    #[expect(unsafe_code, reason = "the allocator takes a setting by its name, and reads as many bytes as it is told")]
    let code = unsafe { mallctl(name.as_ptr(), null_mut(), null_mut(), (&raw mut value).cast(), size_of::<T>()) };
    if code == 0 { Ok(()) } else { Err(code) }
}
