//! The committer's work in folders besides committing: it opens logs, and removes the folders of those that are gone.
//!
//! Making the files of a log and removing them takes as long as the disk likes. An event loop leaves both to the committer,
//! which does one step of an errand after each round of commits, one errand after the other: what is made in a folder
//! begins when everything that was to be removed before is.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::journal::disk::Disk;
use crate::journal::errors::OpenError;
use crate::journal::log::Log;
use crate::journal::options::LogOptions;
use crate::journal::recovery::recover::LogRecovery;
use crate::journal::writing::committer::CommitQueue;
use crate::journal::writing::shared::lock;

/// The result of opening a log.
type Opened = Result<(Log, LogRecovery), OpenError>;

/// A log that the committer opens.
#[derive(Clone, Debug, Default)]
pub struct LogOpening(Arc<Mutex<Option<Opened>>>);

impl LogOpening {
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

/// What the committer is to do in a folder.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Open the log in a folder.
    Open { disk: Arc<dyn Disk>, dir: PathBuf, options: LogOptions, opening: LogOpening },
    /// Remove a folder with all files in it: one in a step, of those that were found in the first.
    Remove { disk: Arc<dyn Disk>, dir: PathBuf, files: Option<Vec<String>> },
}

impl Errand {
    /// Takes one step. Returns the errand if it is not done. What cannot be removed stays until the next start.
    pub fn step(self, queue: &Arc<CommitQueue>) -> Option<Self> {
        match self {
            Self::Open { disk, dir, options, opening } => {
                let opened = Log::open_in(disk, &dir, options, queue);
                *lock(&opening.0) = Some(opened);
                None
            }
            Self::Remove { disk, dir, files } => {
                let mut files = files.unwrap_or_else(|| disk.list(&dir).unwrap_or_default());
                remove_one(disk.as_ref(), &dir, files.pop()).then_some(Self::Remove { disk, dir, files: Some(files) })
            }
        }
    }
}

/// Removes a file, or the folder when there is none. Returns whether there is more to remove.
fn remove_one(disk: &dyn Disk, dir: &Path, file: Option<String>) -> bool {
    let is_file = file.is_some();
    _ = match file {
        Some(name) => disk.remove(&dir.join(name)),
        None => disk.remove_dir(dir),
    };
    is_file
}
