//! Opens a log by the committer, so that nobody else waits for the disk.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::journal::disk::Disk;
use crate::journal::errors::OpenError;
use crate::journal::log::Log;
use crate::journal::options::LogOptions;
use crate::journal::recovery::recover::LogRecovery;
use crate::journal::writing::committer::{CommitQueue, Committer};
use crate::journal::writing::errands::Errand;
use crate::mutex::lock;

/// The result of opening a log.
type Opened = Result<(Log, LogRecovery), OpenError>;

/// A log that the committer opens, or begins, when all its earlier errands are done.
#[derive(Clone, Debug, Default)]
pub struct LogOpening(Arc<Mutex<Option<Opened>>>);

impl LogOpening {
    /// Lets the committer open the log in `dir`, as [`Log::open`] does.
    #[must_use]
    pub fn begin(disk: Arc<dyn Disk>, dir: &Path, options: LogOptions, committer: &Committer) -> Self {
        let (opening, queue) = (Self::default(), Arc::clone(committer.queue()));
        let errand = OpenErrand { disk, dir: dir.to_owned(), options, queue, opening: opening.clone() };
        committer.queue().add_errand(Box::new(errand));
        opening
    }

    /// Whether the committer has opened the log, or has failed to, and nobody has taken it.
    #[must_use]
    pub fn is_done(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Takes the log, or the reason why it cannot be opened. None before it is done, and afterwards.
    #[must_use]
    pub fn take(&self) -> Option<Opened> {
        lock(&self.0).take()
    }
}

struct OpenErrand {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    options: LogOptions,
    queue: Arc<CommitQueue>,
    opening: LogOpening,
}

impl Errand for OpenErrand {
    fn step(&mut self) -> bool {
        let opened = Log::open_in(Arc::clone(&self.disk), &self.dir, self.options, &self.queue);
        *lock(&self.opening.0) = Some(opened);
        false
    }
}
