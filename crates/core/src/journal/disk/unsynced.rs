//! A file system that never syncs its files, for data that a power cut may take and for tests that must notice.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Disk, DiskFile};

/// Another file system without its syncs. Written data survives the process, but a power cut only when the system
/// happened to have written it to the disk.
#[derive(Debug)]
pub struct UnsyncedDisk(pub Arc<dyn Disk>);

#[derive(Debug)]
struct UnsyncedFile(Arc<dyn DiskFile>);

impl UnsyncedDisk {
    fn wrap(file: io::Result<Arc<dyn DiskFile>>) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(UnsyncedFile(file?)))
    }
}

impl Disk for UnsyncedDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn create(&self, path: &Path, size_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        Self::wrap(self.0.create(path, size_bytes))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Self::wrap(self.0.open(path))
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Self::wrap(self.0.open_to_write(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.remove_dir(path)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.0.free_bytes(dir)
    }
}

impl DiskFile for UnsyncedFile {
    fn size_bytes(&self) -> io::Result<u64> {
        self.0.size_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }

    fn read_now(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_now(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn zero(&self, offset: u64, size_bytes: u64) -> io::Result<()> {
        self.0.zero(offset, size_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
