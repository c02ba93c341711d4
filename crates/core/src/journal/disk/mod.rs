//! What the journal asks of a file system, so that a simulated one can take its place.

#[cfg(unix)]
pub mod real;
#[cfg(test)]
pub mod simulated;
pub mod unsynced;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file system. Nothing is durable before the sync that covers it: a file's bytes [`DiskFile::sync`], its name
/// [`Disk::sync_dir`].
pub trait Disk: Send + Sync + fmt::Debug {
    /// Make a directory and those above it; no error when it is there.
    ///
    /// # Errors
    /// What the system says; so for all below.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The names of the files and directories in a directory, in any order. A directory that is not there is `NotFound`.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// A new file of `size_bytes` zeroes whose space is taken now, so that writing into it cannot find the disk full.
    /// `StorageFull` or `QuotaExceeded` when there is not enough; then no file is left behind.
    fn create(&self, path: &Path, size_bytes: u64) -> io::Result<Arc<dyn DiskFile>>;

    /// A file that is there, for reading.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// A file that is there, for reading and writing.
    fn open_to_write(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Give a file another name in its directory, in place of what had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Remove a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Remove a directory that has nothing in it.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Make durable which names a directory has.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// How much can still be written where `dir` is.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// An open file.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Its length.
    ///
    /// # Errors
    /// What the system says; so for all below.
    fn size_bytes(&self) -> io::Result<u64>;

    /// Fill `buffer` from `offset` on as far as the file goes; how much of it was filled.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Write all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Make `size_bytes` from `offset` on zeroes.
    fn zero(&self, offset: u64, size_bytes: u64) -> io::Result<()>;

    /// Make durable what was written (`fdatasync`). After an error nobody knows what is: never try again.
    fn sync(&self) -> io::Result<()>;
}

/// Whether an error says that there is no room, which may pass, rather than that the disk is broken, which does not.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
