//! Taking a mutex, also one whose holder panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The right to what a mutex has. A panic of an earlier holder is its own matter: it does not spread to who comes next.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
