//! The file system of the machine.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use super::{Disk, DiskFile};

/// Zeros are written in blocks of this size where the file system cannot create them itself.
static ZEROES: [u8; 64 * 1024] = [0; 64 * 1024];

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            names.extend(entry?.file_name().into_string()); // a name that is not text is none of ours
        }
        Ok(names)
    }

    fn create(&self, path: &Path, size_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        match allocate(&file, size_bytes) {
            Ok(()) => Ok(Arc::new(file)),
            Err(error) => {
                fs::remove_file(path)?;
                Err(error)
            }
        }
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(File::open(path)?))
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // miri cannot open directories as files.
        if cfg!(miri) { Ok(()) } else { File::open(dir)?.sync_all() }
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let answer = statvfs(dir)?;
        Ok(answer.f_bavail.saturating_mul(answer.f_frsize))
    }
}

impl DiskFile for File {
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match FileExt::read_at(self, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn zero(&self, offset: u64, size_bytes: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        match fallocate(self, FallocateFlags::ZERO_RANGE, offset, size_bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {} // tmpfs, among others
            answer => return Ok(answer?),
        }
        write_zeroes(self, offset, size_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

fn allocate(file: &File, size_bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, size_bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeroes(file, 0, size_bytes),
        answer => Ok(answer?),
    }
}

fn write_zeroes(file: &File, offset: u64, size_bytes: u64) -> io::Result<()> {
    let mut done = 0;
    while done < size_bytes {
        let count = (size_bytes - done).min(ZEROES.len() as u64) as usize;
        file.write_all_at(&ZEROES[..count], offset + done)?;
        done += count as u64;
    }
    Ok(())
}

/// A directory that one process has for itself, as long as this value lives. The system releases the lock when the
/// process ends, for whatever reason.
#[derive(Debug)]
pub struct DirectoryLock(#[expect(dead_code, reason = "holds the lock")] File);

impl DirectoryLock {
    /// Locks `dir`, by the file `lock` in it.
    ///
    /// # Errors
    /// `WouldBlock` when another process holds the lock, or the error of the file system.
    pub fn take(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(dir.join("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(fs::TryLockError::Error(error)) => Err(error),
            Err(fs::TryLockError::WouldBlock) => {
                let text = format!("{} is used by another process", dir.display());
                Err(io::Error::new(io::ErrorKind::WouldBlock, text))
            }
        }
    }
}
