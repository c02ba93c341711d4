//! The blocks of segments in memory: readers of a log that are near each other share what one of them read.
//!
//! A block lives as long as a reader is in it. So the memory is bounded by the number of readers, a block each, and it is less
//! when they read together. It is counted for all logs of a committer together. Every reader checks the checksums of what it
//! reads, whoever has read the block from the disk.
//!
//! A reader that must not wait reads the block of a large record in pieces, and asks again for each; so do all who want the
//! same block. The memory of blocks of which only a part is read has a bound of its own.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::journal::disk::{DiskFile, Wait};
use crate::journal::format::record::Sequence;
use crate::journal::format::segment::SegmentNumber;
use crate::mutex::lock;

/// The number of blocks before an offset that may contain it and are looked at: those of readers that jumped into the segment.
const CANDIDATES_MAX: usize = 4;
/// The number of blocks that are listed before those that are gone are removed, at least.
const LISTED_MIN: usize = 64;

/// The bytes that are read at once of a block that is read in pieces: they take about a tenth of a millisecond.
pub(crate) const PIECE_BYTES: usize = 256 * 1024;
/// The maximum memory of blocks of which a part is read; a single one may take more.
pub(crate) const PARTLY_READ_MAX: u64 = 16 << 20;

/// A part of a segment's file in memory.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its offset in the file.
    pub start: u64,
    /// Its bytes, which a large record shares with those that it is written to.
    pub bytes: Arc<Vec<u8>>,
    /// Records up to this number were synced when it was read; bytes of later ones may have changed since.
    pub synced: Sequence,
    counted: Option<Counted>,
}

/// Memory that is counted as long as it is there.
#[derive(Debug)]
struct Counted {
    size_bytes: u64,
    sum: Arc<AtomicU64>,
}

impl Counted {
    fn new(size_bytes: u64, sum: &Arc<AtomicU64>) -> Self {
        sum.fetch_add(size_bytes, Ordering::Relaxed);
        Self { size_bytes, sum: Arc::clone(sum) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.size_bytes, Ordering::Relaxed);
    }
}

impl Block {
    /// A block of one reader, which nobody counts.
    pub fn new(start: u64, bytes: Vec<u8>, synced: Sequence) -> Self {
        Self { start, bytes: Arc::new(bytes), synced, counted: None }
    }

    /// Whether it contains the bytes from `offset` to `end`.
    #[inline]
    pub fn has(&self, offset: u64, end: u64) -> bool {
        self.start <= offset && end <= self.start + self.bytes.len() as u64
    }
}

/// A block that is read in pieces. Whoever wants it reads the next one.
#[derive(Debug)]
pub(crate) struct PartlyRead {
    start: u64,
    size: usize,
    synced: Sequence,
    progress: Mutex<Progress>,
}

/// How far a block is read.
#[derive(Debug)]
struct Progress {
    bytes: Vec<u8>,
    filled: usize,
    counted: Option<[Counted; 2]>,
    whole: Option<Arc<Block>>,
}

impl PartlyRead {
    /// Whether it is the block of `size` bytes from `start` on, read when `needed` was synced.
    pub fn is_of(&self, start: u64, size: usize, needed: Sequence) -> bool {
        self.start == start && self.size == size && self.synced >= needed
    }

    /// Reads the next piece from its segment's `file`. Returns the block once nothing is missing.
    ///
    /// # Errors
    /// The file system reports an error, or the bytes are not in memory. What is read stays.
    pub fn read_piece(
        &self,
        file: &dyn DiskFile,
        wait: Wait,
        (blocks, segment): (&Blocks, SegmentNumber),
    ) -> io::Result<Option<Arc<Block>>> {
        let mut it = lock(&self.progress);
        if it.whole.is_none() {
            let (begin, end) = (it.filled, self.size.min(it.filled + PIECE_BYTES));
            let read = file.read(wait, self.start + begin as u64, &mut it.bytes[begin..end])?;
            it.filled += read;
            if it.filled < self.size && read == end - begin {
                return Ok(None);
            }
            let mut bytes = std::mem::take(&mut it.bytes);
            bytes.truncate(it.filled);
            it.counted = None;
            it.whole = Some(blocks.add(segment, Block::new(self.start, bytes, self.synced)));
        }
        Ok(it.whole.clone())
    }
}

/// The memory of the blocks of several logs.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockBytes {
    /// The memory of all blocks.
    pub all: Arc<AtomicU64>,
    /// The part of it that belongs to blocks of which a part is read.
    pub partly_read: Arc<AtomicU64>,
}

/// The blocks of a log that a reader has, by segment and offset.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    listed: Mutex<Listed>,
    sum: BlockBytes,
}

#[derive(Debug, Default)]
struct Listed {
    blocks: BTreeMap<(SegmentNumber, u64), Weak<Block>>,
    partly_read: Vec<(SegmentNumber, Weak<PartlyRead>)>,
    /// The number of blocks at which those that are gone are removed.
    prune_at: usize,
}

impl Blocks {
    /// No blocks; the memory of those to come is added to this sum.
    pub fn counted_in(sum: &BlockBytes) -> Self {
        Self { listed: Mutex::default(), sum: sum.clone() }
    }

    /// The block of `size` bytes of a segment from `start` on, which was or is read when `synced` or `needed` was synced,
    /// to be read in pieces. None as long as other such blocks take the memory for it.
    pub fn partly_read(
        &self,
        segment: SegmentNumber,
        (start, size): (u64, usize),
        (synced, needed): (Sequence, Sequence),
    ) -> Option<Arc<PartlyRead>> {
        let mut listed = self.listed();
        listed.partly_read.retain(|(_, partly)| partly.strong_count() > 0);
        let others = listed.partly_read.iter().filter(|(number, _)| *number == segment);
        let found = others.filter_map(|(_, partly)| partly.upgrade()).find(|partly| partly.is_of(start, size, needed));
        if found.is_some() {
            return found;
        }
        let taken = self.sum.partly_read.load(Ordering::Relaxed);
        if taken > 0 && taken + size as u64 > PARTLY_READ_MAX {
            return None;
        }
        let counted = [&self.sum.all, &self.sum.partly_read].map(|sum| Counted::new(size as u64, sum));
        let progress = Progress { bytes: vec![0; size], filled: 0, counted: Some(counted), whole: None };
        let partly = Arc::new(PartlyRead { start, size, synced, progress: Mutex::new(progress) });
        listed.partly_read.push((segment, Arc::downgrade(&partly)));
        Some(partly)
    }

    /// A block with the bytes of a segment from `offset` to `end`, which was read when `needed` was synced.
    pub fn find(&self, segment: SegmentNumber, offset: u64, end: u64, needed: Sequence) -> Option<Arc<Block>> {
        let listed = self.listed();
        let before = listed.blocks.range((segment, 0)..=(segment, offset)).rev().take(CANDIDATES_MAX);
        before.filter_map(|(_, block)| block.upgrade()).find(|block| block.has(offset, end) && block.synced >= needed)
    }

    /// Count and list a block, so that others find it as long as one reader has it.
    pub fn add(&self, segment: SegmentNumber, mut block: Block) -> Arc<Block> {
        block.counted = Some(Counted::new(block.bytes.capacity() as u64, &self.sum.all));
        let block = Arc::new(block);
        let mut listed = self.listed();
        listed.blocks.insert((segment, block.start), Arc::downgrade(&block));
        if listed.blocks.len() > listed.prune_at.max(LISTED_MIN) {
            listed.blocks.retain(|_, block| block.strong_count() > 0);
            listed.prune_at = 2 * listed.blocks.len();
        }
        drop(listed);
        block
    }

    /// The number of blocks that are listed.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.listed().blocks.len()
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        lock(&self.listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u64, size: usize, synced: u64) -> Block {
        Block::new(start, vec![0; size], Sequence(synced))
    }

    #[test]
    fn a_block_is_found_where_it_is_while_somebody_has_it() {
        let (sum, segment) = (BlockBytes::default(), SegmentNumber(3));
        let blocks = Blocks::counted_in(&sum);
        let first = blocks.add(segment, block(100, 50, 7));
        let second = blocks.add(segment, block(140, 50, 9));
        assert_eq!(sum.all.load(Ordering::Relaxed), 100);
        let found = |offset, end, needed| blocks.find(segment, offset, end, Sequence(needed)).map(|block| block.start);
        assert_eq!(found(100, 150, 7), Some(100));
        assert_eq!(found(145, 150, 0), Some(140));
        assert_eq!(found(145, 150, 8), Some(140));
        assert_eq!(found(120, 150, 8), None, "it is older than what is needed");
        assert_eq!((found(99, 110, 0), found(180, 191, 0)), (None, None));
        assert!(blocks.find(SegmentNumber(4), 100, 150, Sequence(0)).is_none());
        drop(second);
        assert_eq!(found(145, 150, 7), Some(100));
        drop(first);
        assert_eq!((found(145, 150, 7), sum.all.load(Ordering::Relaxed)), (None, 0));
    }

    #[test]
    fn those_that_are_gone_do_not_pile_up() {
        let blocks = Blocks::default();
        let kept = blocks.add(SegmentNumber(1), block(0, 1, 0));
        for start in 1..10_000 {
            drop(blocks.add(SegmentNumber(1), block(start, 1, 0)));
        }
        assert!(blocks.len() <= LISTED_MIN + 1, "{}", blocks.len());
        assert!(blocks.find(SegmentNumber(1), 0, 1, Sequence(0)).is_some_and(|found| Arc::ptr_eq(&found, &kept)));
    }
}
