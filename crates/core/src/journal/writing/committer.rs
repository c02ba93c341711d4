//! Group commit: all records that arrived while the disk was busy are written and synced together.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::journal::blocks::BlockBytes;
use crate::journal::disk::Disk;
use crate::journal::writing::errands::{Errand, FileRemoval, FolderRemoval};
use crate::journal::writing::shared::SharedLog;
use crate::mutex::lock;

/// The pause before a full disk is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// The result of one round of commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// The number of logs that were written or tidied.
    pub logs: usize,
    /// Whether a log waits for room on the disk.
    pub is_full: bool,
}

/// Commits the records of any number of logs: by a thread, or in a simulation by calls of [`Committer::commit_once`].
///
/// After the first error of a write or a sync, nothing further is written or reported synced by any log: nobody knows
/// then what is on the disk, and trying again would only hide it ([`Committer::failed`]). A disk without room for a
/// further segment is no error: appended records wait, and are tried again.
///
/// It also opens logs ([`LogOpening`](crate::journal::LogOpening)) and removes folders, one step after each round.
///
/// Dropping it commits what was appended, unless it failed or the disk is full.
pub struct Committer {
    queue: Arc<CommitQueue>,
    thread: Option<JoinHandle<()>>,
}

/// The logs that have something to commit, and errands.
pub(crate) struct CommitQueue {
    state: Mutex<CommitState>,
    changed: Condvar,
    failed: OnceLock<String>,
    /// Held while committing: nobody else may sync again what has just failed.
    turn: Mutex<()>,
    wake: Box<dyn Fn() + Send + Sync>,
    /// The memory of what readers of all its logs have read.
    pub block_bytes: BlockBytes,
    /// The number of files that readers of all its logs have open.
    pub reader_files: Arc<AtomicU64>,
}

#[derive(Default)]
struct CommitState {
    waiting: Vec<Arc<SharedLog>>,
    errands: VecDeque<Box<dyn Errand>>,
    is_stopping: bool,
}

impl Committer {
    /// Starts the thread. It calls `wake` after each round that changed something: records became durable, the disk
    /// became full, an errand is done, or the committer failed.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(wake: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        let mut committer = Self::manual(wake);
        let queue = Arc::clone(&committer.queue);
        let thread = std::thread::Builder::new().name("tamis-journal".to_owned()).spawn(move || queue.run())?;
        committer.thread = Some(thread);
        Ok(committer)
    }

    /// A committer without a thread.
    pub fn manual(wake: impl Fn() + Send + Sync + 'static) -> Self {
        let queue = CommitQueue {
            state: Mutex::default(),
            changed: Condvar::new(),
            failed: OnceLock::new(),
            turn: Mutex::default(),
            wake: Box::new(wake),
            block_bytes: BlockBytes::default(),
            reader_files: Arc::default(),
        };
        Self { queue: Arc::new(queue), thread: None }
    }

    /// Writes the appended records, syncs them, and reports them; then takes a step of an errand. Does nothing after a
    /// failure.
    pub fn commit_once(&self) -> Commit {
        self.queue.commit_once()
    }

    /// Removes a file when all earlier errands are done. One that cannot be removed stays.
    pub fn remove_file_later(&self, disk: Arc<dyn Disk>, path: PathBuf) {
        self.queue.add_errand(Box::new(FileRemoval::new(disk, path)));
    }

    /// Removes a folder and the files in it when all earlier errands are done. What cannot be removed stays.
    pub fn remove_folder_later(&self, disk: Arc<dyn Disk>, dir: &Path) {
        self.queue.add_errand(Box::new(FolderRemoval::new(disk, dir)));
    }

    /// Whether a thread commits.
    #[must_use]
    pub fn has_thread(&self) -> bool {
        self.thread.is_some()
    }

    /// The reason why nothing is committed any more.
    #[must_use]
    pub fn failed(&self) -> Option<&str> {
        self.queue.failed()
    }

    /// The memory of what readers of its logs have read and may still need.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.queue.block_bytes.all.load(Ordering::Relaxed)
    }

    /// The number of files that readers of its logs have open.
    #[must_use]
    pub fn reader_files(&self) -> u64 {
        self.queue.reader_files.load(Ordering::Relaxed)
    }

    pub(crate) fn queue(&self) -> &Arc<CommitQueue> {
        &self.queue
    }
}

impl fmt::Debug for Committer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Committer").field("failed", &self.failed()).finish_non_exhaustive()
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.queue.lock().is_stopping = true;
        self.queue.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed, and there is nobody left to tell.
            drop(thread.join());
        }
        // No thread commits the logs that still wait. They hold the queue and it holds them, so they must be let go here.
        let state = std::mem::take(&mut *self.queue.lock());
        drop(state);
    }
}

impl CommitQueue {
    fn lock(&self) -> MutexGuard<'_, CommitState> {
        lock(&self.state)
    }

    /// Adds a log that has something to commit. It does so once, until its turn comes.
    pub fn add(&self, log: Arc<SharedLog>) {
        self.lock().waiting.push(log);
        self.changed.notify_one();
    }

    pub fn add_errand(&self, errand: Box<dyn Errand>) {
        self.lock().errands.push_back(errand);
        self.changed.notify_one();
    }

    pub fn failed(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// Ends all committing.
    fn fail(&self, reason: String) {
        // The first reason counts.
        drop(self.failed.set(reason));
        (self.wake)();
    }

    fn run(&self) {
        let _guard = PanicReport(self);
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() && state.errands.is_empty() && !state.is_stopping {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let is_done = state.is_stopping && state.waiting.is_empty();
            drop(state);
            if is_done || self.failed().is_some() {
                return;
            }
            if self.commit_once().is_full && !self.pause() {
                return;
            }
        }
    }

    /// Waits before a full disk is tried again; false when the committer is stopping.
    fn pause(&self) -> bool {
        let state = self.lock();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, FULL_PAUSE, |state| !state.is_stopping)
            .unwrap_or_else(PoisonError::into_inner);
        !state.is_stopping
    }

    fn commit_once(&self) -> Commit {
        let _turn = lock(&self.turn);
        let commit = self.commit_waiting();
        self.run_errand();
        commit
    }

    fn commit_waiting(&self) -> Commit {
        let mut logs = std::mem::take(&mut self.lock().waiting);
        logs.retain(|log| !log.is_abandoned.load(Ordering::Acquire));
        if logs.is_empty() || self.failed().is_some() {
            return Commit::default();
        }
        match commit_all(&logs) {
            Ok(waiting) => {
                let commit = Commit { logs: logs.len(), is_full: !waiting.is_empty() };
                let mut state = self.lock();
                // A log to which something was appended meanwhile is already queued.
                waiting.into_iter().for_each(|log| add_once(&mut state.waiting, log));
                drop(state);
                (self.wake)();
                commit
            }
            Err(reason) => {
                self.fail(reason);
                Commit::default()
            }
        }
    }

    /// Takes a step of the first errand, unless nothing is written any more.
    fn run_errand(&self) {
        let errand = if self.failed().is_some() { None } else { self.lock().errands.pop_front() };
        let Some(mut errand) = errand else { return };
        match errand.step() {
            true => self.lock().errands.push_front(errand),
            false => (self.wake)(),
        }
    }
}

fn add_once(logs: &mut Vec<Arc<SharedLog>>, log: Arc<SharedLog>) {
    if !logs.iter().any(|other| Arc::ptr_eq(other, &log)) {
        logs.push(log);
    }
}

/// Reports a panic of the thread: publishers would otherwise wait for ever.
struct PanicReport<'a>(&'a CommitQueue);

impl Drop for PanicReport<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("the journal's thread has panicked".to_owned());
        }
    }
}

/// Writes all logs, then syncs all, then reports all. Returns those that lack room.
fn commit_all(logs: &[Arc<SharedLog>]) -> Result<Vec<Arc<SharedLog>>, String> {
    let mut full = Vec::new();
    for log in logs {
        if log.write()?.is_full {
            add_once(&mut full, Arc::clone(log));
        }
    }
    for log in logs {
        log.sync()?;
    }
    for log in logs {
        log.publish()?;
    }
    Ok(full)
}
