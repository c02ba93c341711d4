//! Compacts the engines that many changes have left in several segments, once nobody changes them for a while.
//!
//! Merging while changes go on leaves a few segments of each size, and each of them takes time per match. One thread of the
//! process watches the engines that are worn, as long as there are any.

use std::io;
use std::sync::{Mutex, MutexGuard, Weak};
use std::time::Duration;

use crate::index::changes::EngineState;
use crate::mutex::lock;

use super::threads;

/// An engine is quiet when it has not changed for so long.
pub const QUIET: Duration = Duration::from_millis(500);
/// The time between two looks at the engines.
const PERIOD: Duration = Duration::from_millis(100);

/// The engines that are worn, and the process that has the thread: a fork of it does not.
struct Compactor {
    worn: Vec<Weak<EngineState>>,
    process: Option<u32>,
}

static COMPACTOR: Mutex<Compactor> = Mutex::new(Compactor { worn: Vec::new(), process: None });

fn compactor() -> MutexGuard<'static, Compactor> {
    lock(&COMPACTOR)
}

/// Compact `engine` when it is quiet.
///
/// # Errors
/// No thread can be started.
pub fn watch(engine: Weak<EngineState>) -> io::Result<()> {
    let mut compactor = compactor();
    let here = Some(std::process::id());
    if compactor.process != here {
        threads::run(run)?;
        compactor.process = here;
    }
    compactor.worn.push(engine);
    Ok(())
}

fn run() {
    loop {
        std::thread::sleep(PERIOD);
        let worn = {
            let mut compactor = compactor();
            if compactor.worn.is_empty() {
                compactor.process = None;
                return;
            }
            std::mem::take(&mut compactor.worn)
        };
        let still_worn = |engine: &Weak<EngineState>| engine.upgrade().is_some_and(|engine| !engine.compact_if_quiet());
        let left: Vec<_> = worn.into_iter().filter(still_worn).collect();
        compactor().worn.extend(left);
    }
}
