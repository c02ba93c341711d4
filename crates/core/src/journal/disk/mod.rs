//! The file system that the journal needs, as a trait, so that a simulated one can replace it.

#[cfg(unix)]
pub mod real;
#[cfg(test)]
pub mod simulated;
#[cfg(test)]
mod simulated_names;
pub mod unsynced;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file system. Nothing is durable before it is synced: the bytes of a file by [`DiskFile::sync`], its name by
/// [`Disk::sync_dir`].
pub trait Disk: Send + Sync + fmt::Debug {
    /// Creates a directory and its parents; no error when it exists.
    ///
    /// # Errors
    /// The file system reports an error. The same holds for all other methods.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// The names of the files and directories in a directory, in any order. A missing directory is `NotFound`.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Creates a file of `size_bytes` zeros and allocates its space, so that writing into it cannot find the disk full.
    /// `StorageFull` or `QuotaExceeded` when there is not enough space; no file is left behind then.
    fn create(&self, path: &Path, size_bytes: u64) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file for reading.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file for reading and writing.
    fn open_to_write(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file within its directory, replacing any file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// The number of bytes that can still be written where `dir` is.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// Whether a reader waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It waits until the bytes are there.
    ForDisk,
    /// It gets the error `WouldBlock` if some of the bytes are not in memory. The system begins to read them then.
    Never,
}

/// An open file.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// The length of the file.
    ///
    /// # Errors
    /// The file system reports an error. The same holds for all other methods.
    fn size_bytes(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset` on, as far as the file goes, and returns the number of bytes filled.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// The same, without waiting for the disk: [`Wait::Never`]. A file that cannot tell waits nevertheless.
    fn read_now(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, buffer)
    }

    /// One of these two.
    fn read(&self, wait: Wait, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match wait {
            Wait::ForDisk => self.read_at(offset, buffer),
            Wait::Never => self.read_now(offset, buffer),
        }
    }

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Sets `size_bytes` from `offset` on to zero.
    fn zero(&self, offset: u64, size_bytes: u64) -> io::Result<()>;

    /// Makes the written bytes durable (`fdatasync`). After an error nobody knows what is durable: never try again.
    fn sync(&self) -> io::Result<()>;
}

/// Whether an error says that there is no room, which may pass, rather than that the disk is broken, which does not.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
