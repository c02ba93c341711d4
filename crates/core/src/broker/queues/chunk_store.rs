//! Memory and disk of the chunks of queues: how much is in memory, and the files of those that are not.
//!
//! A chunk on disk takes one slot of a file, the size of a page. The files hold nothing that a restart needs, because
//! the entries of durable queues are in the journal: they are never synced, and removed at the next start. One that is empty
//! takes another name, and is removed by somebody who may wait for the disk.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::broker::ids::MessageId;
use crate::broker::queues::entries::QueueEntry;
use crate::broker::slab::SlotId;
use crate::journal::{Disk, DiskFile, Wait};

/// The size of a slot: a page.
const SLOT_BYTES: usize = 4096;
/// The count of its entries, and the checksum of everything behind it.
const SLOT_HEADER_BYTES: usize = 8;
const ENTRY_BYTES: usize = 24;
/// Maximum number of entries of a chunk: as many as a slot holds.
pub(crate) const CHUNK_ENTRIES: usize = (SLOT_BYTES - SLOT_HEADER_BYTES) / ENTRY_BYTES;
/// The number of entries for which a queue has room at first.
const FIRST_ENTRIES: usize = 4;
/// Maximum size of the first files, which are allocated whole. Each further [`FILES_OF_A_SIZE`] are twice as large, so that
/// many entries do not need many open files.
const FIRST_FILE_BYTES_MAX: usize = 8 << 20;
const FILES_OF_A_SIZE: usize = 16;
/// How often the size is doubled at most: to 256 MiB.
const DOUBLINGS_MAX: usize = 5;
/// Maximum number of files: 16 GiB, or 690 million entries. What needs more stays in memory, and publishers wait.
const FILES_MAX: usize = 128;

/// A chunk that is on disk.
#[derive(Debug)]
pub(crate) struct SpilledChunk {
    slot: u32,
    count: u32,
    /// The position of its first entry.
    pub first: u64,
    /// Whether one of its entries was delivered before.
    pub has_redelivered: bool,
}

/// Why a chunk cannot be moved to disk now: it stays in memory, and counts there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpillError(String);

impl fmt::Display for SpillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The memory of all chunks, and the files of those that are on disk.
#[derive(Debug, Default)]
pub(crate) struct ChunkStore {
    resident_bytes: u64,
    files: Option<SpillFiles>,
    /// Whether the disk has taken nothing since the last tick.
    is_stuck: bool,
    /// Entries that could not be read back, and why, until somebody asks.
    lost: Option<(u64, String)>,
}

impl ChunkStore {
    /// Let chunks leave memory from now on, for files of this directory. What an earlier process left there is removed.
    ///
    /// # Errors
    /// The file system reports an error.
    pub fn open(&mut self, disk: Arc<dyn Disk>, dir: PathBuf, file_bytes: usize) -> std::io::Result<()> {
        for name in disk.list(&dir).or_else(missing_is_empty)? {
            disk.remove(&dir.join(name))?;
        }
        let first_slots = (file_bytes.min(FIRST_FILE_BYTES_MAX) / SLOT_BYTES).max(1);
        self.files = Some(SpillFiles::new(disk, dir, first_slots));
        Ok(())
    }

    /// The files that nobody needs any more since the last call, and their disk.
    pub fn take_emptied(&mut self) -> Option<(Arc<dyn Disk>, Vec<PathBuf>)> {
        let files = self.files.as_mut().filter(|files| !files.emptied.is_empty())?;
        Some((Arc::clone(&files.disk), std::mem::take(&mut files.emptied)))
    }

    /// Whether chunks can leave memory now.
    pub fn can_spill(&self) -> bool {
        self.files.is_some() && !self.is_stuck
    }

    /// Try the disk again, which may have room by now.
    pub fn try_again(&mut self) {
        self.is_stuck = false;
    }

    /// The memory that chunks take.
    #[inline]
    pub fn resident_bytes(&self) -> u64 {
        self.resident_bytes
    }

    /// The bytes of chunks that are on disk.
    #[cfg(test)]
    pub fn spilled_bytes(&self) -> u64 {
        self.files.as_ref().map_or(0, |files| files.used * SLOT_BYTES as u64)
    }

    /// Entries that could not be read back since the last call, and why.
    pub fn take_lost(&mut self) -> Option<(u64, String)> {
        self.lost.take()
    }

    /// Make room for more entries: twice as many, up to a whole chunk.
    #[cold]
    pub fn grow(&mut self, entries: &mut VecDeque<QueueEntry>) {
        let wanted = (2 * entries.capacity()).clamp(FIRST_ENTRIES, CHUNK_ENTRIES).max(entries.len() + 1);
        self.reserve(entries, wanted);
    }

    /// Make room for `count` entries in all.
    pub fn reserve(&mut self, entries: &mut VecDeque<QueueEntry>, count: usize) {
        let before = entries.capacity();
        entries.reserve_exact(count.saturating_sub(entries.len()));
        self.resident_bytes += size_of_entries(entries.capacity() - before);
    }

    /// Free the memory of a chunk.
    pub fn free(&mut self, entries: VecDeque<QueueEntry>) {
        self.resident_bytes -= size_of_entries(entries.capacity());
    }

    /// Write a chunk to disk. The caller frees its memory.
    ///
    /// # Errors
    /// There is no room, or the disk does not work.
    pub fn spill(&mut self, entries: &VecDeque<QueueEntry>) -> Result<SpilledChunk, SpillError> {
        let files = self.files.as_mut().ok_or_else(|| SpillError("there is no data directory".to_owned()))?;
        let mut bytes = [0; SLOT_BYTES];
        encode(entries, &mut bytes);
        let slot = files.write(&bytes).map_err(|error| {
            self.is_stuck = true;
            SpillError(error.to_string())
        })?;
        Ok(SpilledChunk {
            slot,
            count: entries.len() as u32,
            first: entries.front().map_or(0, |entry| entry.position),
            has_redelivered: entries.iter().any(|entry| entry.redelivered),
        })
    }

    /// Read a chunk back behind `entries`, and free its slot. Returns how many of its entries are lost, all or none.
    pub fn wait_for(&mut self, chunk: &SpilledChunk, entries: &mut VecDeque<QueueEntry>) -> usize {
        let read = self.read(chunk, Wait::ForDisk);
        self.take(chunk, read, entries)
    }

    /// The same. None where that would have to wait for the disk: the chunk stays there.
    pub fn load(&mut self, chunk: &SpilledChunk, wait: Wait, entries: &mut VecDeque<QueueEntry>) -> Option<usize> {
        match self.read(chunk, wait) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
            read => Some(self.take(chunk, read, entries)),
        }
    }

    fn take(
        &mut self,
        chunk: &SpilledChunk,
        read: std::io::Result<[u8; SLOT_BYTES]>,
        entries: &mut VecDeque<QueueEntry>,
    ) -> usize {
        self.forget(chunk);
        self.reserve(entries, chunk.count as usize);
        let decoded = read.map_err(|error| error.to_string()).and_then(|bytes| decode(&bytes, chunk.count, entries));
        let Err(reason) = decoded else { return 0 };
        let (lost, _) = self.lost.take().unwrap_or_default();
        self.lost = Some((lost + u64::from(chunk.count), reason));
        chunk.count as usize
    }

    /// Free the slot of a chunk that nobody reads any more.
    pub fn forget(&mut self, chunk: &SpilledChunk) {
        if let Some(files) = &mut self.files {
            files.release(chunk.slot);
        }
    }

    /// The entries of a chunk that stays on disk; none when it cannot be read.
    pub fn peek(&self, chunk: &SpilledChunk) -> VecDeque<QueueEntry> {
        let mut entries = VecDeque::new();
        if let Ok(bytes) = self.read(chunk, Wait::ForDisk) {
            _ = decode(&bytes, chunk.count, &mut entries);
        }
        entries
    }

    fn read(&self, chunk: &SpilledChunk, wait: Wait) -> std::io::Result<[u8; SLOT_BYTES]> {
        let files = self.files.as_ref().ok_or_else(|| std::io::Error::other("there is no data directory"))?;
        files.read(chunk.slot, wait)
    }
}

/// The files of chunks. Slots are numbered file by file.
#[derive(Debug)]
struct SpillFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The number of slots of the first file.
    first_slots: usize,
    files: Vec<Option<SpillFile>>,
    /// Files with free slots.
    with_room: Vec<usize>,
    /// The number of slots in use.
    used: u64,
    /// Files that are to be removed, under their last names.
    emptied: Vec<PathBuf>,
    /// The number of files that were emptied so far.
    emptied_count: u64,
}

#[derive(Debug)]
struct SpillFile {
    file: Arc<dyn DiskFile>,
    free: Vec<u32>,
}

impl SpillFiles {
    fn new(disk: Arc<dyn Disk>, dir: PathBuf, first_slots: usize) -> Self {
        let (files, with_room, emptied) = (Vec::new(), Vec::new(), Vec::new());
        Self { disk, dir, first_slots, files, with_room, used: 0, emptied, emptied_count: 0 }
    }

    fn write(&mut self, bytes: &[u8; SLOT_BYTES]) -> std::io::Result<u32> {
        let index = match self.with_room.last() {
            Some(index) => *index,
            None => self.add_file()?,
        };
        let Some(SpillFile { file, free }) = &mut self.files[index] else { unreachable!("a file with room is open") };
        let within = *free.last().expect("a file with room has a free slot");
        file.write_at(u64::from(within) * SLOT_BYTES as u64, bytes)?;
        free.pop();
        if free.is_empty() {
            self.with_room.pop();
        }
        self.used += 1;
        Ok(self.first_slot_of(index) as u32 + within)
    }

    /// The number of slots of a file.
    fn slots_of(&self, index: usize) -> usize {
        self.first_slots << (index / FILES_OF_A_SIZE).min(DOUBLINGS_MAX)
    }

    /// The number of the first slot of a file.
    fn first_slot_of(&self, index: usize) -> usize {
        let doublings = (index / FILES_OF_A_SIZE).min(DOUBLINGS_MAX);
        let before = FILES_OF_A_SIZE * self.first_slots * ((1 << doublings) - 1);
        before + (index - doublings * FILES_OF_A_SIZE) * self.slots_of(index)
    }

    /// The file of a slot, and the slot's index in it.
    fn place_of(&self, slot: u32) -> (usize, usize) {
        let slot = slot as usize;
        let sizes = slot / (FILES_OF_A_SIZE * self.first_slots) + 1;
        let first = (sizes.ilog2() as usize).min(DOUBLINGS_MAX) * FILES_OF_A_SIZE;
        let beyond = slot - self.first_slot_of(first);
        (first + beyond / self.slots_of(first), beyond % self.slots_of(first))
    }

    fn add_file(&mut self) -> std::io::Result<usize> {
        self.disk.create_dir(&self.dir)?;
        let index = self.files.iter().position(Option::is_none).unwrap_or(self.files.len());
        if index >= FILES_MAX {
            return Err(std::io::Error::other(format!("there are {FILES_MAX} files of entries already")));
        }
        let slots = self.slots_of(index);
        let file = self.disk.create(&self.path(index), (slots * SLOT_BYTES) as u64)?;
        let opened = Some(SpillFile { file, free: (0..slots as u32).rev().collect() });
        if index == self.files.len() {
            self.files.push(opened);
        } else {
            self.files[index] = opened;
        }
        self.with_room.push(index);
        Ok(index)
    }

    fn read(&self, slot: u32, wait: Wait) -> std::io::Result<[u8; SLOT_BYTES]> {
        let (index, within) = self.place_of(slot);
        let Some(file) = &self.files[index] else { return Err(std::io::ErrorKind::NotFound.into()) };
        let mut bytes = [0; SLOT_BYTES];
        let count = file.file.read(wait, (within * SLOT_BYTES) as u64, &mut bytes)?;
        if count == SLOT_BYTES { Ok(bytes) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Free a slot. A file without used slots goes, unless it is the only one with room.
    fn release(&mut self, slot: u32) {
        let (index, within) = self.place_of(slot);
        let slots = self.slots_of(index);
        let Some(file) = &mut self.files[index] else { return };
        file.free.push(within as u32);
        self.used -= 1;
        if file.free.len() == 1 {
            self.with_room.push(index);
        }
        if file.free.len() == slots && (self.with_room.len() > 1 || self.used == 0) {
            let emptied = self.dir.join(format!("{:08}.empty", self.emptied_count));
            // One that keeps its name is used again.
            if self.disk.rename(&self.path(index), &emptied).is_ok() {
                self.emptied.push(emptied);
                self.emptied_count += 1;
                self.with_room.retain(|other| *other != index);
                self.files[index] = None;
            }
        }
    }

    fn path(&self, index: usize) -> PathBuf {
        self.dir.join(format!("{index:08}.spill"))
    }
}

fn size_of_entries(count: usize) -> u64 {
    (count * size_of::<QueueEntry>()) as u64
}

fn missing_is_empty(error: std::io::Error) -> std::io::Result<Vec<String>> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(Vec::new()) } else { Err(error) }
}

/// A slot: count u32 | crc32c u32 | (position u64, expires u64, message u32, redelivered u32) ...
fn encode(entries: &VecDeque<QueueEntry>, bytes: &mut [u8; SLOT_BYTES]) {
    let (header, body) = bytes.split_at_mut(SLOT_HEADER_BYTES);
    for (entry, bytes) in entries.iter().zip(body.chunks_exact_mut(ENTRY_BYTES)) {
        bytes[..8].copy_from_slice(&entry.position.to_le_bytes());
        bytes[8..16].copy_from_slice(&entry.expires.to_le_bytes());
        bytes[16..20].copy_from_slice(&(entry.message.index() as u32).to_le_bytes());
        bytes[20..].copy_from_slice(&u32::from(entry.redelivered).to_le_bytes());
    }
    header[..4].copy_from_slice(&(entries.len() as u32).to_le_bytes());
    header[4..].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
}

fn decode(bytes: &[u8; SLOT_BYTES], count: u32, entries: &mut VecDeque<QueueEntry>) -> Result<(), String> {
    let (header, body) = bytes.split_at(SLOT_HEADER_BYTES);
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    if number(&header[..4]) != u64::from(count) || number(&header[4..]) != u64::from(crc32c::crc32c(body)) {
        return Err("a chunk of entries on disk is damaged".to_owned());
    }
    for bytes in body.chunks_exact(ENTRY_BYTES).take(count as usize) {
        let message = MessageId::from_index(number(&bytes[16..20]) as u32);
        let mut entry = QueueEntry::new(number(&bytes[..8]), message, number(&bytes[8..16]));
        entry.redelivered = number(&bytes[20..]) != 0;
        entries.push_back(entry);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::SimulatedDisk;

    fn files(first_slots: usize) -> SpillFiles {
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
        SpillFiles::new(disk, PathBuf::from("spilled"), first_slots)
    }

    #[test]
    fn slots_are_numbered_file_by_file() {
        for first_slots in [1, 3, FIRST_FILE_BYTES_MAX / SLOT_BYTES] {
            let files = files(first_slots);
            let mut next = 0;
            for index in 0..FILES_MAX {
                let slots = files.slots_of(index);
                assert_eq!(files.first_slot_of(index), next);
                assert_eq!(files.place_of(next as u32), (index, 0));
                assert_eq!(files.place_of((next + slots - 1) as u32), (index, slots - 1));
                next += slots;
            }
            assert!(u32::try_from(next).is_ok(), "all slots have a number");
        }
    }

    #[test]
    fn many_chunks_come_back_and_there_is_a_bound() {
        let mut files = files(1);
        let content = |number: usize| {
            let mut bytes = [0; SLOT_BYTES];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            bytes
        };
        let mut slots = Vec::new();
        while let Ok(slot) = files.write(&content(slots.len())) {
            slots.push(slot);
        }
        assert_eq!((files.files.len(), slots.len()), (FILES_MAX, files.first_slot_of(FILES_MAX)));
        for (number, slot) in slots.iter().enumerate() {
            assert!(files.read(*slot, Wait::ForDisk).expect("read") == content(number));
        }
        slots.iter().for_each(|slot| files.release(*slot));
        assert!(files.used == 0 && files.files.iter().flatten().count() <= 1, "one may stay for the next");
        let mut emptied = files.emptied.clone();
        emptied.sort();
        emptied.dedup();
        assert!(emptied.len() >= FILES_MAX - 1, "each has a name of its own");
        for path in emptied {
            files.disk.remove(&path).expect("it is there");
        }
        assert!(files.disk.list(&files.dir).expect("the folder").len() <= 1, "nothing else is left");
    }
}
