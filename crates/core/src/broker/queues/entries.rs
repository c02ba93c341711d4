//! The ready entries of a queue, in chunks: the oldest and the newest are in memory, others may wait on disk.
//!
//! A queue that grows gets another chunk, and nothing is copied, so that a thousand queues can grow in one publish. A
//! chunk that is neither the first nor the last can leave memory ([`Entries::spill`]) and is read back when it is the
//! first. [`ChunkStore`] counts the memory of all chunks and has those that are on disk.

use std::collections::VecDeque;

use crate::broker::clock::Micros;
use crate::broker::ids::MessageId;
use crate::broker::queues::chunk_store::{CHUNK_ENTRIES, ChunkStore, SpillError, SpilledChunk};
use crate::journal::Wait;

/// The entries of an empty queue whose room is kept. More is freed, so that a burst leaves no memory behind.
const KEPT_ENTRIES: usize = 64;

/// A message in a queue: 24 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueEntry {
    /// The position in the queue: ascending, and never given to another entry. In a stream, the offset of the message.
    pub position: u64,
    pub expires: Micros,
    pub message: MessageId,
    /// Whether the entry was delivered before, or may have been before the broker stopped.
    pub redelivered: bool,
}

impl QueueEntry {
    pub fn new(position: u64, message: MessageId, expires: Micros) -> Self {
        Self { position, expires, message, redelivered: false }
    }
}

/// A chunk between the first and the last.
#[derive(Debug)]
enum Chunk {
    Resident(VecDeque<QueueEntry>),
    Spilled(SpilledChunk),
}

impl Chunk {
    /// The position of its first entry.
    fn first(&self) -> u64 {
        match self {
            Self::Resident(entries) => entries.front().map_or(u64::MAX, |entry| entry.position),
            Self::Spilled(chunk) => chunk.first,
        }
    }
}

/// Entries by ascending position.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// The oldest entries. Empty only when there are none at all.
    head: VecDeque<QueueEntry>,
    middle: VecDeque<Chunk>,
    /// The newest entries, when they are not in `head`.
    tail: VecDeque<QueueEntry>,
    count: usize,
    /// The number of chunks of `middle` that are in memory.
    resident_count: usize,
}

impl Entries {
    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The oldest entry.
    #[inline]
    pub fn front(&self) -> Option<&QueueEntry> {
        self.head.front()
    }

    /// Whether [`Entries::spill`] would find a chunk.
    pub fn can_spill(&self) -> bool {
        self.resident_count > 0
    }

    /// Add an entry behind all others. Returns whether a chunk is full with it and may be spilled.
    #[inline(always)]
    pub fn push(&mut self, entry: QueueEntry, store: &mut ChunkStore) -> bool {
        self.count += 1;
        let is_short = self.middle.is_empty() && self.tail.is_empty() && self.head.len() < CHUNK_ENTRIES;
        let last = if is_short { &mut self.head } else { &mut self.tail };
        if last.len() == last.capacity() {
            // A queue that has filled a chunk will fill another one.
            if is_short { store.grow(last) } else { store.reserve(last, CHUNK_ENTRIES) }
        }
        last.push_back(entry);
        !is_short && self.seal_full()
    }

    /// Close the last chunk when it is full.
    #[inline]
    fn seal_full(&mut self) -> bool {
        let is_full = self.tail.len() >= CHUNK_ENTRIES;
        if is_full {
            self.middle.push_back(Chunk::Resident(std::mem::take(&mut self.tail)));
            self.resident_count += 1;
        }
        is_full
    }

    /// Whether the entry behind the oldest is on disk.
    #[inline]
    pub fn is_next_on_disk(&self) -> bool {
        self.head.len() == 1 && matches!(self.middle.front(), Some(Chunk::Spilled(_)))
    }

    /// Bring the entry behind the oldest into memory. Returns false where that would have to wait for the disk.
    #[cold]
    pub fn fetch_next(&mut self, wait: Wait, store: &mut ChunkStore) -> bool {
        while self.head.len() == 1
            && let Some(Chunk::Spilled(chunk)) = self.middle.front()
        {
            let mut entries = VecDeque::new();
            let Some(lost) = store.load(chunk, wait, &mut entries) else { return false };
            self.count -= lost;
            if entries.is_empty() {
                store.free(entries);
                self.middle.pop_front();
            } else {
                self.middle[0] = Chunk::Resident(entries);
                self.resident_count += 1;
            }
        }
        true
    }

    /// Take out the oldest entry.
    #[inline(always)]
    pub fn pop(&mut self, store: &mut ChunkStore) -> Option<QueueEntry> {
        let entry = self.head.pop_front()?;
        self.count -= 1;
        if self.head.is_empty() {
            self.refill(store);
        }
        Some(entry)
    }

    /// Make the next chunk the first.
    fn refill(&mut self, store: &mut ChunkStore) {
        while self.head.is_empty() {
            match self.middle.pop_front() {
                Some(Chunk::Resident(chunk)) => {
                    self.resident_count -= 1;
                    store.free(std::mem::replace(&mut self.head, chunk));
                }
                Some(Chunk::Spilled(chunk)) => self.count -= store.wait_for(&chunk, &mut self.head),
                None if self.tail.is_empty() => return self.trim(store),
                None => std::mem::swap(&mut self.head, &mut self.tail),
            }
        }
    }

    /// Free the room of an empty queue that had many entries.
    fn trim(&mut self, store: &mut ChunkStore) {
        store.free(std::mem::take(&mut self.tail));
        if self.head.capacity() > KEPT_ENTRIES {
            store.free(std::mem::take(&mut self.head));
        }
    }

    /// Put an entry back where it was. It is nearly always older than all others.
    pub fn insert(&mut self, entry: QueueEntry, store: &mut ChunkStore) {
        self.count += 1;
        if self.head.front().is_none_or(|front| entry.position < front.position) {
            return self.push_front(entry, store);
        }
        if self.tail.front().is_some_and(|front| front.position < entry.position) {
            insert_sorted(&mut self.tail, entry, store);
            self.seal_full();
            return;
        }
        match self.middle.partition_point(|chunk| chunk.first() < entry.position) {
            0 => self.insert_into_head(entry, store),
            behind => self.insert_into_middle(behind - 1, entry, store),
        }
    }

    fn push_front(&mut self, entry: QueueEntry, store: &mut ChunkStore) {
        if self.head.len() >= CHUNK_ENTRIES {
            self.middle.push_front(Chunk::Resident(std::mem::take(&mut self.head)));
            self.resident_count += 1;
        }
        if self.head.len() == self.head.capacity() {
            store.grow(&mut self.head);
        }
        self.head.push_front(entry);
    }

    fn insert_into_head(&mut self, entry: QueueEntry, store: &mut ChunkStore) {
        if let Some(behind) = insert_or_split(&mut self.head, entry, store) {
            self.middle.push_front(Chunk::Resident(behind));
            self.resident_count += 1;
        }
    }

    /// Insert into the chunk of `middle` at `index`, which is read back for it when it is on disk.
    fn insert_into_middle(&mut self, index: usize, entry: QueueEntry, store: &mut ChunkStore) {
        if let Chunk::Spilled(chunk) = &self.middle[index] {
            let mut entries = VecDeque::new();
            self.count -= store.wait_for(chunk, &mut entries);
            self.middle[index] = Chunk::Resident(entries);
            self.resident_count += 1;
        }
        if let Chunk::Resident(entries) = &mut self.middle[index]
            && let Some(behind) = insert_or_split(entries, entry, store)
        {
            self.middle.insert(index + 1, Chunk::Resident(behind));
            self.resident_count += 1;
        }
    }

    /// Free the memory of what is left, which nobody reads any more.
    pub fn free(self, store: &mut ChunkStore) {
        store.free(self.head);
        store.free(self.tail);
        for chunk in self.middle {
            match chunk {
                Chunk::Resident(entries) => store.free(entries),
                Chunk::Spilled(chunk) => store.forget(&chunk),
            }
        }
    }

    /// Move one chunk to disk. The one that is read last goes first.
    ///
    /// # Errors
    /// The disk takes nothing now; the chunk stays in memory.
    pub fn spill(&mut self, store: &mut ChunkStore) -> Result<(), SpillError> {
        let is_resident = |chunk: &Chunk| matches!(chunk, Chunk::Resident(_));
        let Some(index) = self.middle.iter().rposition(is_resident) else { return Ok(()) };
        if let Chunk::Resident(entries) = &mut self.middle[index] {
            let spilled = store.spill(entries)?;
            store.free(std::mem::take(entries));
            self.middle[index] = Chunk::Spilled(spilled);
            self.resident_count -= 1;
        }
        Ok(())
    }

    /// Visit the entries that were delivered before, oldest first. Chunks on disk are read only where they have some.
    pub fn for_each_redelivered(&self, store: &ChunkStore, mut visit: impl FnMut(&QueueEntry)) {
        let mut visit_in = |entries: &VecDeque<QueueEntry>| {
            entries.iter().filter(|entry| entry.redelivered).for_each(&mut visit);
        };
        visit_in(&self.head);
        for chunk in &self.middle {
            match chunk {
                Chunk::Resident(entries) => visit_in(entries),
                Chunk::Spilled(chunk) if chunk.has_redelivered => visit_in(&store.peek(chunk)),
                Chunk::Spilled(_) => {}
            }
        }
        visit_in(&self.tail);
    }

    /// A copy of all entries, read from disk where they are there.
    #[cfg(test)]
    pub fn to_vec(&self, store: &ChunkStore) -> Vec<QueueEntry> {
        let mut all: Vec<QueueEntry> = self.head.iter().copied().collect();
        for chunk in &self.middle {
            match chunk {
                Chunk::Resident(entries) => all.extend(entries),
                Chunk::Spilled(chunk) => all.extend(store.peek(chunk)),
            }
        }
        all.extend(&self.tail);
        all
    }

    /// The memory that its chunks take.
    #[cfg(test)]
    pub fn resident_bytes(&self) -> u64 {
        let resident = self.middle.iter().map(|chunk| match chunk {
            Chunk::Resident(entries) => entries.capacity(),
            Chunk::Spilled(_) => 0,
        });
        let capacity = self.head.capacity() + self.tail.capacity() + resident.sum::<usize>();
        (capacity * size_of::<QueueEntry>()) as u64
    }
}

/// Insert an entry where it belongs.
fn insert_sorted(entries: &mut VecDeque<QueueEntry>, entry: QueueEntry, store: &mut ChunkStore) {
    if entries.len() == entries.capacity() {
        store.grow(entries);
    }
    let index = entries.partition_point(|other| other.position < entry.position);
    entries.insert(index, entry);
}

/// Insert an entry where it belongs, and return what has no room in the chunk any more: all that is behind the entry.
fn insert_or_split(
    entries: &mut VecDeque<QueueEntry>,
    entry: QueueEntry,
    store: &mut ChunkStore,
) -> Option<VecDeque<QueueEntry>> {
    if entries.len() < CHUNK_ENTRIES {
        insert_sorted(entries, entry, store);
        return None;
    }
    let index = entries.partition_point(|other| other.position < entry.position);
    let mut behind = VecDeque::new();
    store.grow(&mut behind);
    if index < entries.len() {
        // What is inserted comes in runs: the rest of the run finds room behind this entry.
        store.reserve(&mut behind, entries.len() - index);
        behind.extend(entries.drain(index..));
        entries.push_back(entry);
    } else {
        behind.push_back(entry);
    }
    Some(behind)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::broker::clock::NEVER;
    use crate::broker::slab::SlotId;
    use crate::journal::{Disk, SimulatedDisk};
    use crate::testing::{Random, fewer};

    fn entry(position: u64, redelivered: bool) -> QueueEntry {
        let message = MessageId::from_index(position as u32 * 7);
        QueueEntry { redelivered, ..QueueEntry::new(position, message, NEVER - position) }
    }

    fn store(disk: &SimulatedDisk) -> ChunkStore {
        let mut store = ChunkStore::default();
        store.open(Arc::new(disk.clone()), "/data/spill".into(), 16 * 4096).expect("opened");
        store
    }

    fn key(entry: &QueueEntry) -> (u64, u64, usize, bool) {
        (entry.position, entry.expires, entry.message.index(), entry.redelivered)
    }

    /// The entries are those of the map, in its order, and their memory is counted.
    fn check(entries: &Entries, expected: &BTreeMap<u64, QueueEntry>, store: &ChunkStore) {
        let all = entries.to_vec(store);
        assert!(all.iter().map(key).eq(expected.values().map(key)));
        assert_eq!((entries.len(), entries.is_empty()), (expected.len(), expected.is_empty()));
        assert_eq!(entries.front().map(key), expected.values().next().map(key));
        assert_eq!(entries.resident_bytes(), store.resident_bytes());
        let mut redelivered = Vec::new();
        entries.for_each_redelivered(store, |entry| redelivered.push(entry.position));
        assert!(
            redelivered.into_iter().eq(expected.values().filter(|entry| entry.redelivered).map(|entry| entry.position))
        );
    }

    #[test]
    fn entries_agree_with_a_map_in_memory_and_on_disk() {
        let mut random = Random(11);
        let disk = SimulatedDisk::new();
        let mut store = store(&disk);
        let mut entries = Entries::default();
        let (mut expected, mut out) = (BTreeMap::new(), Vec::new());
        let mut last = 0;
        for round in 0..fewer(3_000) {
            let count = random.below(60) as u64;
            match random.below(9) {
                0..3 => {
                    for position in last + 1..=last + count {
                        entries.push(entry(position, false), &mut store);
                        expected.insert(position, entry(position, false));
                    }
                    last += count;
                }
                3..6 => {
                    for _ in 0..count {
                        let popped = entries.pop(&mut store);
                        assert_eq!(popped.as_ref().map(key), expected.pop_first().map(|(_, entry)| key(&entry)));
                        out.extend(popped.map(|entry| entry.position));
                    }
                }
                6 if entries.can_spill() => entries.spill(&mut store).expect("room"),
                7 => {
                    for _ in 0..count.min(out.len() as u64) {
                        let position = out.swap_remove(random.below(out.len()));
                        entries.insert(entry(position, true), &mut store);
                        expected.insert(position, entry(position, true));
                    }
                }
                8 if random.one_in(40) => {
                    std::mem::take(&mut entries).free(&mut store);
                    expected.clear();
                }
                _ => {}
            }
            if round % 10 == 0 {
                check(&entries, &expected, &store);
            }
        }
        while let Some(popped) = entries.pop(&mut store) {
            assert_eq!(Some(key(&popped)), expected.pop_first().map(|(_, entry)| key(&entry)));
        }
        entries.free(&mut store);
        assert_eq!((expected.len(), store.resident_bytes(), store.spilled_bytes()), (0, 0, 0));
        let (_, emptied) = store.take_emptied().expect("files without entries");
        assert!(
            emptied.iter().all(|path| disk.remove(path).is_ok()) && disk.paths().is_empty(),
            "nothing else is left"
        );
    }

    #[test]
    fn a_long_queue_takes_little_memory_and_copies_nothing_when_it_grows() {
        let disk = SimulatedDisk::new();
        let mut store = store(&disk);
        let mut entries = Entries::default();
        let count = fewer(100_000) as u64;
        let mut grown_most = 0;
        for position in 1..=count {
            let before = store.resident_bytes();
            if entries.push(entry(position, false), &mut store) {
                entries.spill(&mut store).expect("room");
            }
            grown_most = grown_most.max(store.resident_bytes().saturating_sub(before));
        }
        assert!(store.resident_bytes() <= 2 * 4096 && grown_most <= 4096, "{} bytes", store.resident_bytes());
        for position in 1..=count {
            assert_eq!(entries.pop(&mut store).map(|entry| entry.position), Some(position));
        }
    }

    #[test]
    fn entries_whose_disk_fails_stay_in_memory_or_are_counted_as_lost() {
        let disk = SimulatedDisk::new();
        let mut store = store(&disk);
        let mut entries = Entries::default();
        (1..=1000).for_each(|position| _ = entries.push(entry(position, false), &mut store));
        disk.limit(Some(0));
        assert!(entries.spill(&mut store).is_err() && !store.can_spill());
        disk.limit(None);
        store.try_again();
        entries.spill(&mut store).expect("room");
        entries.spill(&mut store).expect("room");
        let path = disk.paths().pop().expect("a file");
        disk.open_to_write(&path).and_then(|file| file.write_at(100, &[1])).expect("written");
        let popped = std::iter::from_fn(|| entries.pop(&mut store)).count();
        let (lost, reason) = store.take_lost().expect("noticed");
        assert_eq!((popped as u64 + lost, lost), (1000, 170), "{reason}");
        assert_eq!(entries.len(), 0);
    }

    #[test]
    fn what_an_earlier_process_left_is_removed() {
        let disk = SimulatedDisk::new();
        let mut entries = Entries::default();
        let mut first = store(&disk);
        (1..=1000).for_each(|position| _ = entries.push(entry(position, false), &mut first));
        entries.spill(&mut first).expect("room");
        assert_eq!(disk.paths().len(), 1);
        store(&disk);
        assert!(disk.paths().is_empty());
    }

    #[test]
    fn the_next_chunk_is_fetched_when_the_disk_has_it() {
        let disk = SimulatedDisk::new();
        let (mut store, mut entries) = (store(&disk), Entries::default());
        let count = 4 * CHUNK_ENTRIES as u64;
        (0..count).for_each(|position| _ = entries.push(entry(position, false), &mut store));
        while entries.can_spill() {
            entries.spill(&mut store).expect("there is room");
        }
        disk.slow_down_reads(u64::MAX);
        for position in 0..count {
            let is_next_on_disk = entries.is_next_on_disk();
            assert_eq!(entries.fetch_next(Wait::Never, &mut store), !is_next_on_disk);
            assert!(entries.fetch_next(Wait::ForDisk, &mut store) && !entries.is_next_on_disk());
            assert_eq!(entries.resident_bytes(), store.resident_bytes());
            assert_eq!(entries.pop(&mut store).map(|entry| entry.position), Some(position));
        }
        assert_eq!((entries.len(), store.spilled_bytes(), store.take_lost()), (0, 0, None));
    }
}
