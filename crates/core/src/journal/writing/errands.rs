//! The committer's errands besides committing: it opens logs, and removes files and the folders of logs that are gone.
//!
//! Making the files of a log and removing them takes as long as the disk likes. An event loop leaves both to the committer,
//! which does one step of an errand after each round of commits, one errand after the other: what is made in a folder
//! begins when everything that was to be removed before is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::journal::disk::Disk;

/// Work of the committer, in steps.
pub(crate) trait Errand: Send {
    /// Takes one step. Returns whether there is more to do.
    fn step(&mut self) -> bool;
}

/// Removes a file. One that cannot be removed stays.
pub(crate) struct FileRemoval {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl FileRemoval {
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf) -> Self {
        Self { disk, path }
    }
}

impl Errand for FileRemoval {
    fn step(&mut self) -> bool {
        _ = self.disk.remove(&self.path);
        false
    }
}

/// Removes a folder with the files in it, one in a step. What cannot be removed stays.
pub(crate) struct FolderRemoval {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The files that are left, once they were looked for.
    files: Option<Vec<String>>,
}

impl FolderRemoval {
    pub fn new(disk: Arc<dyn Disk>, dir: &Path) -> Self {
        Self { disk, dir: dir.to_owned(), files: None }
    }
}

impl Errand for FolderRemoval {
    fn step(&mut self) -> bool {
        let Self { disk, dir, files } = self;
        let next = files.get_or_insert_with(|| disk.list(dir).unwrap_or_default()).pop();
        let has_more = next.is_some();
        _ = match next {
            Some(name) => disk.remove(&dir.join(name)),
            None => disk.remove_dir(dir),
        };
        has_more
    }
}
