//! The start of a segment: its file name, its header, its identity, and its capacity.
//!
//! ```text
//! header 64 B | records ... 0 0 0 0 | (unused) | heads | sparse index | trailer      <- the end of the file
//! ```
//! The last three parts are written when the segment is sealed (`footer.rs`). A file is allocated whole when its
//! segment begins, and reused for another segment when its own is no longer wanted.

use std::fmt;

use crate::journal::format::footer::{SPARSE_BYTES, SPARSE_EVERY_BYTES, TRAILER_BYTES};
use crate::journal::format::record::{Seed, Sequence};

const MAGIC: [u8; 8] = *b"tamisjnl";

/// The version of the format of segments. Readers refuse a later one.
pub(crate) const VERSION: u32 = 1;

/// The offset of the first record.
pub(crate) const DATA_START: u32 = 64;

/// Written after the last record, and overwritten by the next one: a length of 0 marks the end.
pub(crate) const TERMINATOR: [u8; 4] = [0; 4];

/// The minimum size of a segment, for tests.
pub const SEGMENT_BYTES_MIN: u32 = 4096;

/// The maximum size of a segment: offsets have 32 bits.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;

/// The number of a segment's file, counted from 1 over the life of the log and never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentNumber(pub u32);

impl SegmentNumber {
    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for SegmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The location of a record: the number of its segment's file, which is never used again, and the offset in that file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The number of the segment's file, counted from 1 over the life of the log.
    pub segment: SegmentNumber,
    /// The offset in the file.
    pub offset: u32,
}

/// The parts of a segment's file name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentName {
    pub ordinal: SegmentNumber,
    /// The sequence number of its first record.
    pub first: Sequence,
}

impl SegmentName {
    pub fn file_name(self) -> String {
        format!("{:08}-{:020}.segment", self.ordinal, self.first.0)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let (ordinal, first) = text.strip_suffix(".segment")?.split_once('-')?;
        let name = Self { ordinal: SegmentNumber(ordinal.parse().ok()?), first: Sequence(first.parse().ok()?) };
        (name.file_name() == text).then_some(name)
    }
}

/// The name of a file that waits to be reused.
pub(crate) fn spare_name(ordinal: SegmentNumber) -> String {
    format!("spare-{ordinal:08}.segment")
}

/// The name of the file of a segment's summary.
pub(crate) fn summary_name(ordinal: SegmentNumber) -> String {
    format!("{ordinal:08}.summary")
}

/// The segment whose summary a file of this name is.
pub(crate) fn summary_of(name: &str) -> Option<SegmentNumber> {
    let ordinal = SegmentNumber(name.strip_suffix(".summary")?.parse().ok()?);
    (summary_name(ordinal) == name).then_some(ordinal)
}

/// The initial value of the checksums in a segment. Checksums of two 32-bit numbers after the same prefix always
/// differ, so no two segments of one log have the same seed, and none accepts a record of another.
pub(crate) fn seed(log_id: u64, ordinal: SegmentNumber) -> Seed {
    Seed(crc32c::crc32c_append(crc32c::crc32c(&log_id.to_le_bytes()), &ordinal.0.to_le_bytes()))
}

/// The bytes of a segment that records and their heads in the index may fill together; the remaining bytes are for the
/// sparse index and the trailer.
pub(crate) fn capacity(segment_bytes: u64) -> u64 {
    let sparse = (segment_bytes / SPARSE_EVERY_BYTES + 1) * SPARSE_BYTES as u64;
    segment_bytes.saturating_sub(sparse + TRAILER_BYTES as u64 + TERMINATOR.len() as u64)
}

/// The first 64 bytes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub log_id: u64,
    pub name: SegmentName,
}

impl SegmentHeader {
    pub fn encode(self) -> [u8; DATA_START as usize] {
        let mut bytes = [0; DATA_START as usize];
        bytes[..16].copy_from_slice(&version_mark(MAGIC, VERSION));
        bytes[16..24].copy_from_slice(&self.log_id.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.name.ordinal.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.name.first.0.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the header: None when there is none or it is damaged; an error with the version when that is later than
    /// ours.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, u32> {
        if let Some(version) = later_version(bytes, MAGIC, VERSION) {
            return Err(version);
        }
        let Some(bytes) = bytes.first_chunk::<{ DATA_START as usize }>() else { return Ok(None) };
        let header = Self {
            log_id: u64_at(bytes, 16),
            name: SegmentName { ordinal: SegmentNumber(u32_at(bytes, 24)), first: Sequence(u64_at(bytes, 32)) },
        };
        Ok((header.encode() == *bytes).then_some(header))
    }
}

/// Magic, version, and a checksum of the two: the first 16 bytes of every version of a file.
pub(crate) fn version_mark(magic: [u8; 8], version: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The version of a file, when it is one of ours, intact, and later than `known`.
pub(crate) fn later_version(bytes: &[u8], magic: [u8; 8], known: u32) -> Option<u32> {
    let bytes = bytes.first_chunk::<16>()?;
    let whole = bytes[..8] == magic && u32_at(bytes, 12) == crc32c::crc32c(&bytes[..12]);
    (whole && u32_at(bytes, 8) > known).then(|| u32_at(bytes, 8))
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(*bytes[offset..].first_chunk().expect("long enough"))
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(*bytes[offset..].first_chunk().expect("long enough"))
}
