//! Summarizes the segments of streams as they are sealed, in a thread of its own; in a simulation by calls.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::journal::{Log, SegmentNumber};

use crate::broker::streams::summary_file::{Sealed, provide};
use crate::mutex::lock;

/// The bytes of the messages that have one summary together.
const RUN_BYTES: usize = 256 * 1024;
/// The maximum number of logs that wait. What is beyond is summarized when a reader lacks it.
const WAITING_MAX: usize = 4096;

/// The logs whose segments are to be summarized, and the thread that does it.
pub(crate) struct Summarizer {
    work: Arc<Work>,
    /// Whether a thread is started for the first log.
    pub has_thread: bool,
    /// The bytes of the messages that have one summary together.
    pub run_bytes: usize,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Work {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Logs, each with the segment after which it may lack summaries.
    waiting: VecDeque<(Log, SegmentNumber)>,
    is_stopping: bool,
}

impl Default for Summarizer {
    fn default() -> Self {
        Self { work: Arc::default(), has_thread: false, run_bytes: RUN_BYTES, thread: None }
    }
}

impl Summarizer {
    /// Summarize the sealed segments of a log after this one that lack it.
    pub fn add(&mut self, log: &Log, after: SegmentNumber) {
        let mut state = self.work.lock();
        match state.waiting.iter().position(|(other, _)| other.id() == log.id()) {
            Some(known) => state.waiting[known].1 = after.min(state.waiting[known].1),
            None if state.waiting.len() < WAITING_MAX => state.waiting.push_back((log.clone(), after)),
            None => return,
        }
        drop(state);
        self.work.changed.notify_one();
        if self.has_thread && self.thread.is_none() {
            let (work, run_bytes) = (Arc::clone(&self.work), self.run_bytes);
            let thread = std::thread::Builder::new().name("tamis-summaries".to_owned());
            // Without a thread, readers read everything.
            self.thread = thread.spawn(move || work.run(run_bytes)).ok();
        }
    }

    /// Summarize what waits.
    pub fn run_once(&self) {
        while let Some((log, after)) = self.work.next() {
            self.work.summarize(&log, after, self.run_bytes);
        }
    }
}

impl Work {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn next(&self) -> Option<(Log, SegmentNumber)> {
        self.lock().waiting.pop_front()
    }

    fn run(&self, run_bytes: usize) {
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() && !state.is_stopping {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let next = if state.is_stopping { None } else { state.waiting.pop_front() };
            drop(state);
            match next {
                Some((log, after)) => self.summarize(&log, after, run_bytes),
                None => return,
            }
        }
    }

    /// Summarize the segments of a log. What cannot be read or written stays without: a reader will read it, or report it.
    fn summarize(&self, log: &Log, mut after: SegmentNumber, run_bytes: usize) {
        let is_wanted = || !self.lock().is_stopping && !log.is_abandoned();
        while is_wanted()
            && let Some((ordinal, last)) = log.sealed_after(after)
        {
            after = ordinal;
            if let Some(sealed) = Sealed::at(log, last) {
                _ = provide(log, sealed, run_bytes, &is_wanted);
            }
        }
    }
}

impl Drop for Summarizer {
    fn drop(&mut self) {
        let mut state = self.work.lock();
        state.is_stopping = true;
        state.waiting.clear();
        drop(state);
        self.work.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed, and there is nobody left to tell.
            drop(thread.join());
        }
    }
}

impl fmt::Debug for Summarizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Summarizer").field("run_bytes", &self.run_bytes).finish_non_exhaustive()
    }
}
