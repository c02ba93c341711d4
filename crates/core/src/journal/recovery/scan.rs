//! Walks through the records of one segment, and past bytes that are no record.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::journal::blocks::{Block, Blocks, PartlyRead};
use crate::journal::damage::{Damage, DamageKind};
use crate::journal::disk::{DiskFile, Wait};
use crate::journal::errors::partly_read;
use crate::journal::format::record::{
    Decoded, HEADER_BYTES, NoRecord, Record, SYNCED_BEFORE, Seed, Sequence, decode, length_of, parse, sequence_of,
};
use crate::journal::format::segment::{DATA_START, SegmentNumber};

/// The number of bytes that are read at once.
const CHUNK_BYTES: u64 = 256 * 1024;

/// A position in a segment's file, and the part of the file around it.
pub(crate) struct Scanner {
    file: Arc<dyn DiskFile>,
    seed: Seed,
    /// The offset of the next record.
    pub offset: u64,
    /// The offset at which records end at the latest.
    limit: u64,
    block: Option<Arc<Block>>,
    /// The block of a large record, while it is read in pieces.
    partly_read: Option<Arc<PartlyRead>>,
    /// Whether reading a block waits for the disk.
    pub wait: Wait,
    /// Whether the file may have changed where the block is.
    is_stale: bool,
    /// The blocks of all readers of its log, and its segment's number.
    shared: Option<(Arc<Blocks>, SegmentNumber)>,
    /// Records up to this number are synced.
    pub synced: Sequence,
    /// A block of others must have been read when this was synced.
    needed: Sequence,
}

impl Scanner {
    pub fn new(file: Arc<dyn DiskFile>, seed: Seed, limit: u64) -> Self {
        let (offset, none) = (u64::from(DATA_START), Sequence(0));
        let (wait, block, partly_read, is_stale, shared) = (Wait::ForDisk, None, None, false, None);
        Self { file, seed, offset, limit, block, partly_read, wait, is_stale, shared, synced: none, needed: none }
    }

    /// Shares what is read of this segment with the other readers of its log.
    pub fn share(&mut self, blocks: &Arc<Blocks>, segment: SegmentNumber) {
        self.shared = Some((Arc::clone(blocks), segment));
    }

    /// The record at this position, without moving past it.
    pub fn peek(&mut self) -> io::Result<Result<Decoded<'_>, NoRecord>> {
        let remaining = self.limit.saturating_sub(self.offset);
        let wanted = match length_of(self.window(HEADER_BYTES as u64)?) {
            Some(length) if u64::from(length) <= remaining => u64::from(length).max(HEADER_BYTES as u64),
            _ => HEADER_BYTES as u64,
        };
        let seed = self.seed;
        Ok(decode(self.window(wanted)?, remaining, seed))
    }

    /// Moves past a record of this length.
    pub fn advance(&mut self, length: u32) {
        self.offset += u64::from(length);
    }

    /// Takes the record at this position, which was peeked at and has this length, and moves past it.
    pub fn take(&mut self, length: u32) -> io::Result<Option<Record<'_>>> {
        let offset = self.offset;
        self.load(offset + u64::from(length))?;
        self.offset += u64::from(length);
        let window = part(self.block.as_deref(), offset, self.offset.min(self.limit));
        Ok(parse(window).map(|decoded| decoded.record))
    }

    /// The block with the last `count` bytes of the record that was taken last, and where in it they are.
    pub fn taken(&self, count: usize) -> Option<(Arc<Vec<u8>>, Range<usize>)> {
        let block = self.block.as_ref()?;
        let end = usize::try_from(self.offset.checked_sub(block.start)?).ok()?;
        let range = end.checked_sub(count)?..end;
        (end <= block.bytes.len()).then(|| (Arc::clone(&block.bytes), range))
    }

    /// Whether a part of a large record is read.
    pub fn has_part(&self) -> bool {
        self.partly_read.is_some()
    }

    /// Lets go of a large record of which a part is read: nobody asks for the next piece soon.
    pub fn drop_part(&mut self) {
        self.partly_read = None;
    }

    /// Forgets the bytes that were read: the file may have changed, and the record with this number is synced now.
    pub fn refresh(&mut self, needed: Sequence) {
        (self.is_stale, self.needed) = (true, needed);
    }

    /// Moves to the next later position that has a record numbered `from` to `to`. Returns false, without moving, when
    /// there is none. The time is linear in the remaining bytes of the segment.
    pub fn resync(&mut self, from: Sequence, to: Sequence) -> io::Result<bool> {
        let start = self.offset;
        self.offset += 1;
        while self.offset + HEADER_BYTES as u64 <= self.limit {
            let remaining = self.limit - self.offset;
            let window = self.window(remaining.min(CHUNK_BYTES))?;
            // Zeros are no record, since no record has number 0. They fill most of a segment that was just begun.
            if window.len() >= HEADER_BYTES && is_zero(window) {
                self.offset += (window.len() - HEADER_BYTES + 1) as u64;
                continue;
            }
            let in_range = |&index: &usize| {
                let sequence = sequence_of(&window[index..]);
                sequence.is_some_and(|sequence| from <= sequence && sequence <= to)
            };
            let count = window.len().saturating_sub(HEADER_BYTES - 1);
            if count == 0 {
                break; // the file is shorter than it should be
            }
            match (0..count).find(in_range) {
                None => self.offset += count as u64,
                Some(index) => {
                    self.offset += index as u64;
                    if self.peek()?.is_ok() {
                        return Ok(true);
                    }
                    self.offset += 1;
                }
            }
        }
        self.offset = start;
        Ok(false)
    }

    /// Up to `count` bytes at the offset; fewer where the file or the segment ends.
    #[inline]
    fn window(&mut self, count: u64) -> io::Result<&[u8]> {
        let end = (self.offset + count).min(self.limit).max(self.offset);
        self.load(end)?;
        Ok(part(self.block.as_deref(), self.offset, end))
    }

    /// Has a block with the bytes from the offset to `end`, as far as there are any.
    #[inline]
    fn load(&mut self, end: u64) -> io::Result<()> {
        let end = end.min(self.limit).max(self.offset);
        let is_there = !self.is_stale && self.block.as_ref().is_some_and(|block| block.has(self.offset, end));
        if is_there { Ok(()) } else { self.find_or_read(end) }
    }

    fn find_or_read(&mut self, end: u64) -> io::Result<()> {
        let spare = if std::mem::take(&mut self.is_stale) || end - self.offset <= CHUNK_BYTES {
            self.block.take()
        } else {
            None // it has the head of a record of which more is read now
        };
        if let Some((blocks, segment)) = &self.shared
            && let Some(found) = blocks.find(*segment, self.offset, end, self.needed)
        {
            (self.block, self.partly_read) = (Some(found), None);
            return Ok(());
        }
        let size = (end - self.offset).max(CHUNK_BYTES.min(self.limit.saturating_sub(self.offset))) as usize;
        if self.wait == Wait::Never && size as u64 > CHUNK_BYTES && self.shared.is_some() {
            return self.read_piece(size);
        }
        let spare = spare.and_then(Arc::into_inner).and_then(|block| Arc::into_inner(block.bytes));
        // The room of a large record does not stay.
        let mut bytes =
            spare.filter(|bytes| bytes.capacity() <= size.max(2 * CHUNK_BYTES as usize)).unwrap_or_default();
        make_room(&mut bytes, size);
        let read = self.file.read(self.wait, self.offset, &mut bytes)?;
        bytes.truncate(read);
        let block = Block::new(self.offset, bytes, self.synced);
        self.block = Some(match &self.shared {
            Some((blocks, segment)) => blocks.add(*segment, block),
            None => Arc::new(block),
        });
        Ok(())
    }
}

impl Scanner {
    /// Reads a piece of the block of `size` bytes at the offset, which is large.
    fn read_piece(&mut self, size: usize) -> io::Result<()> {
        let Some((blocks, segment)) = &self.shared else { return Ok(()) };
        let (mine, synced) = (self.partly_read.take(), (self.synced, self.needed));
        let partly = match mine.filter(|partly| partly.is_of(self.offset, size, self.needed)) {
            Some(partly) => partly,
            None => blocks.partly_read(*segment, (self.offset, size), synced).ok_or(io::ErrorKind::WouldBlock)?,
        };
        let read = partly.read_piece(&*self.file, self.wait, (blocks, *segment));
        if let Ok(Some(block)) = read {
            self.block = Some(block);
            return Ok(());
        }
        self.partly_read = Some(partly);
        Err(read.err().unwrap_or_else(partly_read))
    }
}

/// The bytes of a block from `offset` to `end`, as far as it has them.
#[inline]
fn part(block: Option<&Block>, offset: u64, end: u64) -> &[u8] {
    let Some(block) = block else { return &[] };
    let index = |at: u64| usize::try_from(at.saturating_sub(block.start)).unwrap_or(usize::MAX).min(block.bytes.len());
    &block.bytes[index(offset)..index(end)]
}

/// Sets the length of `buffer`, into which bytes are about to be read. Unlike `resize` it keeps nothing, so that
/// nothing is copied, and new memory comes zeroed from the system.
pub(crate) fn make_room(buffer: &mut Vec<u8>, size_bytes: usize) {
    if buffer.len() < size_bytes {
        *buffer = vec![0; size_bytes];
    }
    buffer.truncate(size_bytes);
}

/// Whether all bytes are 0. Comparing each byte with the next one compiles to a comparison of many at once.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|&first| first == 0 && bytes[1..] == bytes[..bytes.len() - 1])
}

/// An item that a walk through a segment meets.
pub(crate) enum Walked<'a> {
    Record(u64, Decoded<'a>),
    Damage(Damage),
}

/// The condition at which a walk through a segment stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkExtent {
    /// The segment is sealed: its records reach to `end`, and the last of them is `last`.
    Sealed { end: u64, last: Sequence },
    /// The segment is sealed, or was before its trailer was damaged; the next segment begins with `next`.
    Before { next: Sequence },
    /// The segment is the last: records up to `proven` were synced; the first bad one after them is a torn tail.
    Open { proven: Sequence },
}

/// Walks through the records of segment `ordinal` from the scanner's position on; the first must be `expected`. Returns
/// the end of the last record.
pub(crate) fn walk(
    scanner: &mut Scanner,
    ordinal: SegmentNumber,
    mut expected: Sequence,
    extent: WalkExtent,
    visit: &mut dyn FnMut(Walked<'_>),
) -> io::Result<u64> {
    let missing = |first: Sequence, next: Sequence, offset: u64, size_bytes: u64| {
        let kind = if size_bytes == 0 { DamageKind::Missing } else { DamageKind::Records };
        Walked::Damage(Damage { kind, segment: ordinal, offset, size_bytes, first, last: next.previous() })
    };
    let last = match extent {
        WalkExtent::Sealed { last, .. } => last,
        WalkExtent::Before { next } => next.previous(),
        WalkExtent::Open { proven } => proven,
    };
    let is_open = matches!(extent, WalkExtent::Open { .. });
    // The offset of bad bytes that were not reported yet.
    let mut bad_from = None;
    loop {
        let offset = scanner.offset;
        let is_end = matches!(extent, WalkExtent::Sealed { end, .. } if offset >= end) || (!is_open && expected > last);
        let next = if is_end { None } else { scanner.peek()?.ok() };
        let fits = |decoded: &Decoded<'_>| match decoded.record.sequence {
            sequence if sequence < expected => false,
            sequence if is_open => sequence <= last || sequence == expected || decoded.flags & SYNCED_BEFORE != 0,
            sequence => sequence <= last,
        };
        if let Some(decoded) = next.filter(fits) {
            let (sequence, length) = (decoded.record.sequence, decoded.length);
            let start = bad_from.take().unwrap_or(offset);
            if sequence > expected || start < offset {
                visit(missing(expected, sequence, start, offset - start));
            }
            visit(Walked::Record(offset, decoded));
            expected = sequence.next();
            scanner.advance(length);
        } else if expected > last {
            return Ok(offset);
        } else {
            bad_from = Some(offset);
            if !scanner.resync(expected, last)? {
                let end = match extent {
                    WalkExtent::Sealed { end, .. } => end.max(offset),
                    _ => offset,
                };
                visit(missing(expected, last.next(), offset, end - offset));
                return Ok(end);
            }
        }
    }
}

/// The highest number behind the scanner's position, up to `to`, whose record proves that everything before it was
/// synced. Leaves the scanner where it was.
pub(crate) fn proven_behind(scanner: &mut Scanner, from: Sequence, to: Sequence) -> io::Result<Option<Sequence>> {
    let start = scanner.offset;
    let mut proven = None;
    while scanner.resync(from, to)? {
        while let Ok(decoded) = scanner.peek()? {
            let length = decoded.length;
            if decoded.flags & SYNCED_BEFORE != 0 {
                proven = proven.max(Some(decoded.record.sequence));
            }
            scanner.advance(length);
        }
    }
    scanner.offset = start;
    Ok(proven)
}
