//! The names on a simulated disk, and the changes of them that a power cut may take back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The names of files and directories, as they are in the cache or on the disk.
#[derive(Clone, Default)]
pub(super) struct DiskNames {
    pub files: BTreeMap<PathBuf, usize>,
    pub directories: BTreeSet<PathBuf>,
}

/// A change of names that is not durable before its directory is synced.
pub(super) enum NameChange {
    CreateDirectory(PathBuf),
    RemoveDirectory(PathBuf),
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl DiskNames {
    pub fn apply(&mut self, change: NameChange) {
        match change {
            NameChange::CreateDirectory(path) => {
                self.directories.insert(path);
            }
            NameChange::RemoveDirectory(path) => {
                self.directories.remove(&path);
            }
            NameChange::Create(path, id) => {
                self.files.insert(path, id);
            }
            NameChange::Rename(from, to) => {
                if let Some(id) = self.files.remove(&from) {
                    self.files.insert(to, id);
                }
            }
            NameChange::Remove(path) => {
                self.files.remove(&path);
            }
        }
    }

    /// Drops what lies in a directory of `known` that is not here.
    pub fn drop_unreachable(&mut self, known: &BTreeSet<PathBuf>) {
        let lost: BTreeSet<PathBuf> = known.difference(&self.directories).cloned().collect();
        let is_lost = |path: &Path| path.ancestors().skip(1).any(|parent| lost.contains(parent));
        self.files.retain(|path, _| !is_lost(path));
        self.directories.retain(|path| !is_lost(path));
    }

    pub fn is_directory(&self, path: &Path) -> bool {
        self.directories.contains(path) || self.files.keys().any(|file| file.starts_with(path))
    }
}

impl NameChange {
    pub fn is_in(&self, dir: &Path) -> bool {
        let (Self::CreateDirectory(path)
        | Self::RemoveDirectory(path)
        | Self::Create(path, _)
        | Self::Rename(path, _)
        | Self::Remove(path)) = self;
        path.parent() == Some(dir)
    }
}
