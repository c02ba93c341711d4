//! The mark: a small file beside the segments that says which of them must be there, and how far the log is synced.
//!
//! ```text
//! 0: head, 60 B | 1024: one extent, 44 B | 2048: the other extent, 44 B | unused to 4096
//! ```
//! The **head** is written after each sync of the log, but not synced itself, so after a power cut it may say less than
//! is true, never more. Other processes read the log as far as it says; recovery takes it as proof that records and
//! segments were there. The **extent** says which segment is the first. It is synced before a segment is removed, so
//! that a segment that is missing without that is noticed. Of the two extents the later one counts: a power cut can
//! damage only the one that is being written. Version 1 of the mark had no extents, and a head of 36 bytes.

use std::io;

use crate::journal::disk::DiskFile;
use crate::journal::format::record::Sequence;
use crate::journal::format::segment::{SegmentName, SegmentNumber, later_version, u32_at, u64_at, version_mark};

const MAGIC: [u8; 8] = *b"tamismrk";
/// The version of the mark. Readers refuse a later one.
pub(crate) const VERSION: u32 = 2;
pub(crate) const FILE_NAME: &str = "mark";
const HEAD_BYTES: usize = 60;
const EXTENT_BYTES: usize = 44;
/// The extents are in sectors of their own.
const EXTENTS_AT: [usize; 2] = [1024, 2048];
const READ_BYTES: usize = EXTENTS_AT[1] + EXTENT_BYTES;
/// A writer takes nanoseconds to write the head.
const ATTEMPTS_MAX: usize = 100;

/// The content of the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogMark {
    pub log_id: u64,
    /// The last record that is known to be synced.
    pub synced: Sequence,
    /// The last segment that is known to have been begun; None when none is known.
    pub last: Option<SegmentName>,
    /// None in a mark of version 1.
    pub extent: Option<LogExtent>,
}

/// The segments that must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogExtent {
    /// Grows with each change.
    generation: u64,
    /// The first segment that is kept.
    pub first: SegmentName,
    /// The segments up to this one may be missing: their loss was accepted.
    pub accepted: SegmentNumber,
}

/// The part of the mark that is rewritten after each sync.
#[derive(Clone, Copy)]
struct MarkHead {
    version: u32,
    log_id: u64,
    synced: Sequence,
    last: Option<SegmentName>,
    /// The generation of the extent that counted: an earlier one no longer holds.
    generation: u64,
}

impl MarkHead {
    fn encode(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..16].copy_from_slice(&version_mark(MAGIC, VERSION));
        bytes[16..24].copy_from_slice(&self.log_id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.synced.0.to_le_bytes());
        put_name(&mut bytes[32..48], self.last.unwrap_or_default());
        bytes[48..56].copy_from_slice(&self.generation.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Decodes the head: None when it is damaged; an error with the version when that is later than ours.
    fn decode(bytes: &[u8]) -> Result<Option<Self>, u32> {
        if let Some(version) = later_version(bytes, MAGIC, VERSION) {
            return Err(version);
        }
        let Some(bytes) = bytes.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let (log_id, synced) = (u64_at(bytes, 16), Sequence(u64_at(bytes, 24)));
        if bytes[..16] == version_mark(MAGIC, 1) && is_sealed(&bytes[..36]) {
            return Ok(Some(Self { version: 1, log_id, synced, last: None, generation: 0 }));
        }
        let is_whole = bytes[..16] == version_mark(MAGIC, VERSION) && is_sealed(bytes);
        let last = Some(name_at(bytes, 32)).filter(|name| *name != SegmentName::default());
        Ok(is_whole.then(|| Self { version: VERSION, log_id, synced, last, generation: u64_at(bytes, 48) }))
    }
}

impl LogExtent {
    fn encode(self, log_id: u64, synced: Sequence) -> [u8; EXTENT_BYTES] {
        let mut bytes = [0; EXTENT_BYTES];
        bytes[..8].copy_from_slice(&self.generation.to_le_bytes());
        bytes[8..16].copy_from_slice(&log_id.to_le_bytes());
        bytes[16..24].copy_from_slice(&synced.0.to_le_bytes());
        put_name(&mut bytes[24..40], self.first);
        bytes[28..32].copy_from_slice(&self.accepted.0.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// The extent that follows `before`.
    pub fn after(before: Option<Self>, first: SegmentName, accepted: SegmentNumber) -> Self {
        Self { generation: before.map_or(0, |before| before.generation) + 1, first, accepted }
    }

    /// Decodes an extent with the log's id and how far it was synced then; None when it is damaged or was never written.
    fn decode(bytes: &[u8]) -> Option<(Self, u64, Sequence)> {
        let bytes = bytes.first_chunk::<EXTENT_BYTES>().filter(|bytes| is_sealed(*bytes))?;
        let extent = Self {
            generation: u64_at(bytes, 0),
            first: name_at(bytes, 24),
            accepted: SegmentNumber(u32_at(bytes, 28)),
        };
        (extent.generation > 0).then(|| (extent, u64_at(bytes, 8), Sequence(u64_at(bytes, 16))))
    }
}

/// Puts a name into 16 bytes; the second four of them are free.
fn put_name(bytes: &mut [u8], name: SegmentName) {
    bytes[..4].copy_from_slice(&name.ordinal.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&name.first.0.to_le_bytes());
}

fn name_at(bytes: &[u8], offset: usize) -> SegmentName {
    SegmentName { ordinal: SegmentNumber(u32_at(bytes, offset)), first: Sequence(u64_at(bytes, offset + 8)) }
}

/// Puts the checksum of `bytes` into the last four of them.
fn seal(bytes: &mut [u8]) {
    let end = bytes.len() - 4;
    let checksum = crc32c::crc32c(&bytes[..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
}

fn is_sealed(bytes: &[u8]) -> bool {
    let end = bytes.len() - 4;
    u32_at(bytes, end) == crc32c::crc32c(&bytes[..end])
}

impl LogMark {
    pub const FILE_BYTES: u64 = 4096;

    /// Decodes the mark: None when it is damaged; an error with the version when that is later than ours.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, u32> {
        let head = MarkHead::decode(bytes)?;
        let extents = EXTENTS_AT.map(|at| LogExtent::decode(bytes.get(at..).unwrap_or_default()));
        let newest = extents.into_iter().flatten().max_by_key(|(extent, ..)| extent.generation);
        Ok(match (head, newest) {
            (Some(head), newest) => {
                let extent = newest
                    .filter(|(extent, log_id, _)| *log_id == head.log_id && extent.generation >= head.generation)
                    .map(|(extent, ..)| extent);
                let mark = Self { log_id: head.log_id, synced: head.synced, last: head.last, extent };
                Some(mark).filter(|_| head.version == 1 || extent.is_some())
            }
            // A power cut has torn the head. What was synced with the extent is still true.
            (None, Some((extent, log_id, synced))) => Some(Self { log_id, synced, last: None, extent: Some(extent) }),
            (None, None) => None,
        })
    }

    /// Reads the mark, again while a writer is in the middle of its head.
    pub fn read(file: &dyn DiskFile) -> io::Result<Result<Option<Self>, u32>> {
        let mut bytes = vec![0; READ_BYTES];
        let mut mark = Ok(None);
        for _ in 0..ATTEMPTS_MAX {
            let count = file.read_at(0, &mut bytes)?;
            mark = Self::decode(&bytes[..count]);
            if !matches!(MarkHead::decode(&bytes[..count]), Ok(None)) {
                break;
            }
        }
        Ok(mark)
    }

    /// Reads how far the log is synced; None when the head is damaged.
    pub fn read_synced(file: &dyn DiskFile) -> io::Result<Option<Sequence>> {
        let mut bytes = [0; HEAD_BYTES];
        for _ in 0..ATTEMPTS_MAX {
            let count = file.read_at(0, &mut bytes)?;
            match MarkHead::decode(&bytes[..count]) {
                Ok(None) => {}
                head => return Ok(head.ok().flatten().map(|head| head.synced)),
            }
        }
        Ok(None)
    }

    /// Writes the head.
    pub fn write_head(&self, file: &dyn DiskFile) -> io::Result<()> {
        let Self { log_id, synced, last, extent } = *self;
        let generation = extent.map_or(0, |extent| extent.generation);
        file.write_at(0, &MarkHead { version: VERSION, log_id, synced, last, generation }.encode())
    }

    /// Writes the extent, if there is one, where the one before it is not.
    pub fn write_extent(&self, file: &dyn DiskFile) -> io::Result<()> {
        let Some(extent) = self.extent else { return Ok(()) };
        let at = EXTENTS_AT[(extent.generation % 2) as usize] as u64;
        file.write_at(at, &extent.encode(self.log_id, self.synced))
    }

    /// The first segment that must be there, as far as the mark knows.
    pub fn first_expected(&self) -> Option<SegmentName> {
        let LogExtent { first, accepted, .. } = self.extent?;
        Some(if accepted < first.ordinal {
            first
        } else {
            SegmentName { ordinal: accepted.next(), first: first.first }
        })
    }

    /// The segments up to this one may be missing.
    pub fn accepted(&self) -> SegmentNumber {
        self.extent.map_or(SegmentNumber::default(), |extent| extent.accepted)
    }
}
