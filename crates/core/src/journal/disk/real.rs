//! The file system of the machine.

use std::fs::{self, DirBuilder, File, OpenOptions};
#[cfg(target_os = "linux")]
use std::io::IoSliceMut;
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{error, fmt, io};

#[cfg(target_os = "linux")]
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::fs::{FallocateFlags, fallocate, ftruncate, statvfs};
use rustix::io::Errno;
#[cfg(target_os = "linux")]
use rustix::io::{ReadWriteFlags, preadv2};

use super::{Disk, DiskFile};

/// Zeros are written in blocks of this size where the file system cannot create them itself.
static ZEROES: [u8; 64 * 1024] = [0; 64 * 1024];

/// The number of bytes that the system reads at least when some are not in memory: what is read next is often behind them.
#[cfg(target_os = "linux")]
const AHEAD_BYTES: u64 = 512 * 1024;

/// The modes of what is made here: its owner alone may read it.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The file system of this machine. Its errors name the file ([`FileError`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// An error of the file system, with the file or directory that it is about.
#[derive(Debug)]
pub struct FileError {
    /// The file or directory.
    pub path: PathBuf,
    /// The error of the system.
    pub source: io::Error,
}

impl FileError {
    /// The file and the system's error in an error of [`RealDisk`].
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.source)
    }
}

impl error::Error for FileError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Adds the path to an error. The kind stays.
fn at(path: &Path) -> impl FnOnce(io::Error) -> io::Error + '_ {
    |source| io::Error::new(source.kind(), FileError { path: path.to_owned(), source })
}

/// An open file with the path by which it was opened.
#[derive(Debug)]
struct RealFile {
    file: File,
    path: PathBuf,
}

impl RealFile {
    fn open(options: &OpenOptions, path: &Path) -> io::Result<Self> {
        Ok(Self { file: options.open(path).map_err(at(path))?, path: path.to_owned() })
    }
}

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path).map_err(at(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(at(dir))? {
            names.extend(entry.map_err(at(dir))?.file_name().into_string()); // a name that is not text is none of ours
        }
        Ok(names)
    }

    fn create(&self, path: &Path, size_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        let options = OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).clone();
        let created = RealFile::open(&options, path)?;
        match allocate(&created.file, size_bytes) {
            Ok(()) => Ok(Arc::new(created)),
            Err(error) => {
                fs::remove_file(path).map_err(at(path))?;
                Err(at(path)(error))
            }
        }
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        // To note when a file was read takes a place in the file system's own journal, and who reads waits for it.
        #[cfg(target_os = "linux")]
        match RealFile::open(options.clone().custom_flags(OFlags::NOATIME.bits().cast_signed()), path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {} // only a file's owner may ask for it
            answer => return Ok(Arc::new(answer?)),
        }
        Ok(Arc::new(RealFile::open(&options, path)?))
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile::open(OpenOptions::new().read(true).write(true), path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to).map_err(at(from))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path);
        fs::remove_file(path).map_err(at(path))?;
        // Its blocks go now, which takes milliseconds, and not when the last of those who have it open closes it.
        if let Ok(file) = file {
            _ = ftruncate(&file, 0);
        }
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path).map_err(at(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // miri cannot open directories as files.
        if cfg!(miri) { Ok(()) } else { File::open(dir).and_then(|dir| dir.sync_all()).map_err(at(dir)) }
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let answer = statvfs(dir).map_err(|error| at(dir)(error.into()))?;
        Ok(answer.f_bavail.saturating_mul(answer.f_frsize))
    }
}

impl DiskFile for RealFile {
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata().map_err(at(&self.path))?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(at(&self.path)(error)),
            }
        }
        Ok(filled)
    }

    #[cfg(target_os = "linux")]
    fn read_now(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let (rest, from) = (&mut buffer[filled..], offset + filled as u64);
            let wanted = rest.len() as u64;
            match preadv2(&self.file, &mut [IoSliceMut::new(rest)], from, ReadWriteFlags::NOWAIT) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let wanted = NonZeroU64::new(wanted.max(AHEAD_BYTES));
                    // Where it is of no use, whoever asks again at last waits for the disk.
                    _ = fadvise(&self.file, from, wanted, Advice::WillNeed);
                    return Err(at(&self.path)(io::ErrorKind::WouldBlock.into()));
                }
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return self.read_at(offset, buffer),
                Err(error) => return Err(at(&self.path)(error.into())),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset).map_err(at(&self.path))
    }

    fn zero(&self, offset: u64, size_bytes: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        match fallocate(&self.file, FallocateFlags::ZERO_RANGE, offset, size_bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {} // tmpfs, among others
            answer => return answer.map_err(|error| at(&self.path)(error.into())),
        }
        write_zeroes(&self.file, offset, size_bytes).map_err(at(&self.path))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(at(&self.path))
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
        RealDisk.create_dir(dir)?;
        let path = dir.join("lock");
        let options = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).clone();
        let RealFile { file, path } = RealFile::open(&options, &path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(fs::TryLockError::Error(error)) => Err(at(&path)(error)),
            Err(fs::TryLockError::WouldBlock) => {
                let text = format!("{} is used by another process", dir.display());
                Err(io::Error::new(io::ErrorKind::WouldBlock, text))
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const SIZE: usize = 3 << 20;

    #[test]
    #[cfg_attr(miri, ignore = "miri has no fallocate")]
    fn reading_leaves_no_trace_in_the_file_system() {
        let path = std::env::temp_dir().join(format!("tamis-read-{}", std::process::id()));
        let written = RealDisk.create(&path, 4_096).expect("created");
        // The file system notes the first time that a file is read after it was written.
        let read_before = fs::metadata(&path).and_then(|about| about.accessed()).expect("a time");
        std::thread::sleep(std::time::Duration::from_millis(20));
        written.write_at(0, &[7; 4_096]).expect("written");
        let file = RealDisk.open(&path).expect("there");
        assert_eq!(file.read_now(0, &mut [0; 100]).expect("in memory"), 100);
        assert_eq!(fs::metadata(&path).and_then(|about| about.accessed()).expect("a time"), read_before);
        RealDisk.remove(&path).expect("removed");
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no fallocate")]
    fn what_is_not_in_memory_is_read_meanwhile() {
        let path = std::env::temp_dir().join(format!("tamis-cold-{}", std::process::id()));
        let written: Vec<u8> = (0..SIZE).map(|index| (index / 7) as u8).collect();
        let file = RealDisk.create(&path, SIZE as u64).expect("created");
        file.write_at(0, &written).and_then(|()| file.sync()).expect("written");
        fadvise(File::open(&path).expect("there"), 0, None, Advice::DontNeed).expect("let go of");
        let (mut read, mut tries) = (vec![0; SIZE], 0);
        while let Err(error) = file.read_now(0, &mut read) {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            assert_eq!(FileError::of(&error).map(|error| &error.path), Some(&path));
            tries += 1;
            assert!(tries < 10_000, "the system does not read it");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(read == written);
        assert_eq!(file.read_now(SIZE as u64 - 3, &mut read).expect("in memory"), 3, "the file ends");
        RealDisk.remove(&path).expect("removed");
        assert_eq!(file.size_bytes().expect("still open"), 0, "its blocks are free");
    }
}
