//! A file system in memory that forgets unsynced data, fails when told to, and has a limited size.
//!
//! It is harsher than real file systems: of unsynced data any sectors may be kept and others lost, one of them torn at
//! any byte, and any of the renames.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::simulated_names::{DiskNames, NameChange};
use super::{Disk, DiskFile};
use crate::mutex::lock;
use crate::testing::Random;

/// The size of a sector, which survives a power cut whole or not at all, except for the one that is torn.
const SECTOR_BYTES: usize = 512;

/// The source of chance in a simulation: pseudo-random numbers, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Dice(Random);

impl Dice {
    /// The numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Random(seed))
    }

    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.roll() % bound }
    }

    /// True once in `times` on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// A disk in memory. Clones share the same disk.
#[derive(Clone, Default)]
pub struct SimulatedDisk(Arc<Mutex<DiskState>>);

#[derive(Default)]
struct DiskState {
    files: Vec<SimulatedContents>,
    names: DiskNames,
    synced_names: DiskNames,
    changes: Vec<NameChange>,
    capacity_bytes: Option<u64>,
    syncs: u64,
    reads: u64,
    asked_now: u64,
    slow_reads: Option<u64>,
    failing_sync: Option<u64>,
    writes: u64,
    failing_write: Option<u64>,
    ignored_syncs: IgnoredSyncs,
}

/// The files whose syncs do nothing.
#[derive(Default)]
enum IgnoredSyncs {
    #[default]
    None,
    All,
    Of(PathBuf),
}

#[derive(Clone, Default)]
struct SimulatedContents {
    now: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl SimulatedDisk {
    /// An empty disk without a limit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the total size of all files; None for no limit. Existing files stay.
    pub fn limit(&self, capacity_bytes: Option<u64>) {
        self.lock().capacity_bytes = capacity_bytes;
    }

    /// Makes the sync of a file after `count` further ones fail, once. What it was to make durable never becomes so,
    /// though it can still be read: that is what Linux does.
    pub fn fail_sync_after(&self, count: u64) {
        let mut state = self.lock();
        state.failing_sync = Some(state.syncs + count);
    }

    /// Makes the write after `count` further ones fail, once, when half of it is written.
    pub fn fail_write_after(&self, count: u64) {
        let mut state = self.lock();
        state.failing_write = Some(state.writes + count);
    }

    /// Lets only every n-th read that does not wait for the disk find its bytes in memory.
    pub fn slow_down_reads(&self, every: u64) {
        self.lock().slow_reads = Some(every);
    }

    /// Sets whether syncs of files do nothing, as the control of a test needs.
    pub fn ignore_syncs(&self, ignored: bool) {
        self.lock().ignored_syncs = if ignored { IgnoredSyncs::All } else { IgnoredSyncs::None };
    }

    /// Makes the syncs of one file do nothing.
    pub fn ignore_syncs_of(&self, path: &Path) {
        self.lock().ignored_syncs = IgnoredSyncs::Of(path.to_owned());
    }

    /// The number of times that a file was synced.
    #[must_use]
    pub fn sync_count(&self) -> u64 {
        self.lock().syncs
    }

    /// The number of times that a file was read.
    #[must_use]
    pub fn read_count(&self) -> u64 {
        self.lock().reads
    }

    /// Cuts the power. Files keep their synced data, and of the unsynced data the part that `dice` leaves.
    pub fn power_cut(&self, dice: &mut Dice) {
        let mut state = self.lock();
        for file in &mut state.files {
            file.lose(dice);
        }
        let keep_all = dice.once_in(4);
        let changes = std::mem::take(&mut state.changes);
        for change in changes {
            if keep_all || dice.once_in(2) {
                state.synced_names.apply(change);
            }
        }
        let known = std::mem::take(&mut state.names.directories);
        state.synced_names.drop_unreachable(&known);
        state.names = state.synced_names.clone();
    }

    /// The bytes of a file as a reader sees them now, to damage or to keep.
    #[must_use]
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.lock();
        state.names.files.get(path).map(|&id| state.files[id].now.clone())
    }

    /// Creates a file that is durable at once.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.lock();
        let id = state.files.len();
        state.files.push(SimulatedContents { synced: bytes.clone(), now: bytes, unsynced: Vec::new() });
        state.names.files.insert(path.to_owned(), id);
        state.synced_names.files.insert(path.to_owned(), id);
    }

    /// Flips bits of a byte, both on the disk and in the cache.
    pub fn flip(&self, path: &Path, offset: usize, mask: u8) {
        let mut state = self.lock();
        if let Some(&id) = state.names.files.get(path) {
            state.files[id].now[offset] ^= mask;
            state.files[id].synced[offset] ^= mask;
        }
    }

    /// The paths of all files.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.lock().names.files.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, DiskState> {
        lock(&self.0)
    }

    fn file(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let id = self.lock().names.files.get(path).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimulatedFile { disk: self.clone(), id }))
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimulatedDisk of {} files", self.lock().names.files.len())
    }
}

impl DiskState {
    fn used_bytes(&self) -> u64 {
        self.names.files.values().map(|&id| self.files[id].now.len() as u64).sum()
    }

    fn room_bytes(&self) -> u64 {
        self.capacity_bytes.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used_bytes()))
    }
}

impl SimulatedContents {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.now.len() < end {
            resize(&mut self.now, end);
        }
        self.now[offset..end].copy_from_slice(bytes);
        self.unsynced.push((offset, bytes.to_vec()));
    }

    fn sync(&mut self) {
        for (offset, bytes) in std::mem::take(&mut self.unsynced) {
            put(&mut self.synced, offset, &bytes);
        }
        resize(&mut self.synced, self.now.len());
    }

    /// Keeps all unsynced data, none, or some sectors and part of one.
    fn lose(&mut self, dice: &mut Dice) {
        let mut kept = self.synced.clone();
        let (keep_all, keep_none) = (dice.once_in(6), dice.once_in(6));
        for (offset, bytes) in std::mem::take(&mut self.unsynced) {
            if keep_none {
                continue;
            }
            let torn = dice.below(bytes.len() as u64) as usize;
            let mut start = 0;
            while start < bytes.len() {
                // Sectors have fixed positions in a file, wherever a write begins.
                let end = bytes.len().min((offset + start) / SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES - offset);
                if keep_all || dice.once_in(2) {
                    let end = if !keep_all && (start..end).contains(&torn) { torn } else { end };
                    put(&mut kept, offset + start, &bytes[start..end]);
                }
                start = end;
            }
        }
        // Allocated space stays allocated once the file was synced; before that, some or none of it may remain.
        let is_new = self.synced.is_empty();
        let size = if is_new && dice.once_in(2) { dice.below(self.now.len() as u64) as usize } else { self.now.len() };
        resize(&mut kept, size);
        self.now.clone_from(&kept);
        self.synced = kept;
    }
}

/// Like `Vec::resize` with zeros, which miri would write one by one.
fn resize(bytes: &mut Vec<u8>, size: usize) {
    bytes.truncate(size);
    bytes.extend_from_slice(&vec![0; size - bytes.len()]);
}

fn put(contents: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if contents.len() < end {
        resize(contents, end);
    }
    contents[offset..end].copy_from_slice(bytes);
}

impl Disk for SimulatedDisk {
    /// Directories at the root are always there, as the place of a data directory is.
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let missing: Vec<&Path> = path
            .ancestors()
            .take_while(|path| path.components().count() > 2 && !state.names.is_directory(path))
            .collect();
        for path in missing.into_iter().rev() {
            state.names.directories.insert(path.to_owned());
            state.changes.push(NameChange::CreateDirectory(path.to_owned()));
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.lock();
        if dir.components().count() > 2 && !state.names.is_directory(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let paths = state.names.files.keys().chain(&state.names.directories);
        let inside = paths.filter_map(|path| path.strip_prefix(dir).ok()?.iter().next()?.to_str());
        let names: BTreeSet<String> = inside.map(str::to_owned).collect();
        Ok(names.into_iter().collect())
    }

    fn create(&self, path: &Path, size_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        if state.names.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.room_bytes() < size_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let id = state.files.len();
        let size = usize::try_from(size_bytes).map_err(|_| io::ErrorKind::StorageFull)?;
        state.files.push(SimulatedContents { now: vec![0; size], ..SimulatedContents::default() });
        state.names.files.insert(path.to_owned(), id);
        state.changes.push(NameChange::Create(path.to_owned(), id));
        Ok(Arc::new(SimulatedFile { disk: self.clone(), id }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.file(path)
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let id = state.names.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.files.insert(to.to_owned(), id);
        state.changes.push(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.names.files.remove(path).ok_or(io::ErrorKind::NotFound)?;
        state.changes.push(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.names.directories.remove(path);
        state.changes.push(NameChange::RemoveDirectory(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let changes = std::mem::take(&mut state.changes);
        let (inside, outside): (Vec<_>, Vec<_>) = changes.into_iter().partition(|change| change.is_in(dir));
        state.changes = outside;
        for change in inside {
            state.synced_names.apply(change);
        }
        Ok(())
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(self.lock().room_bytes())
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    id: usize,
}

impl DiskFile for SimulatedFile {
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.id].now.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.lock();
        state.reads += 1;
        let bytes = &state.files[self.id].now;
        let start = bytes.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let count = buffer.len().min(bytes.len() - start);
        buffer[..count].copy_from_slice(&bytes[start..start + count]);
        Ok(count)
    }

    fn read_now(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.lock();
        state.asked_now += 1;
        if state.slow_reads.is_some_and(|every| !state.asked_now.is_multiple_of(every)) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        drop(state);
        self.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.lock();
        let (number, offset) = (state.writes, usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?);
        state.writes += 1;
        if state.failing_write == Some(number) {
            state.files[self.id].write(offset, &bytes[..bytes.len() / 2]);
            return Err(io::Error::other("a write that was to fail"));
        }
        state.files[self.id].write(offset, bytes);
        Ok(())
    }

    fn zero(&self, offset: u64, size_bytes: u64) -> io::Result<()> {
        let size = usize::try_from(size_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.write_at(offset, &vec![0; size])
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        let number = state.syncs;
        state.syncs += 1;
        if state.failing_sync == Some(number) {
            state.files[self.id].unsynced.clear();
            return Err(io::Error::other("a sync that was to fail"));
        }
        let is_ignored = match &state.ignored_syncs {
            IgnoredSyncs::None => false,
            IgnoredSyncs::All => true,
            IgnoredSyncs::Of(path) => state.names.files.get(path) == Some(&self.id),
        };
        if !is_ignored {
            state.files[self.id].sync();
        }
        Ok(())
    }
}
