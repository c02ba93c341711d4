//! One record: its layout in a segment, and how bytes are recognised as one.
//!
//! ```text
//! length u32 | crc32c u32 | sequence u64 | time_us i64 | kind u8 | flags u8 | head length u16 | head | body
//! ```
//! Numbers are little-endian; `length` counts all of these bytes. The checksum covers the segment's identity, the
//! length, and everything after the checksum, so that bytes of an earlier use of the file never pass for a record.

use std::fmt;

/// The number of bytes before the head of a record.
pub(crate) const HEADER_BYTES: usize = 28;

/// The maximum length of a record's head.
pub const HEAD_BYTES_MAX: usize = u16::MAX as usize;

/// Flag: everything before this record was synced before it was written. So what is unreadable before it is rot.
pub(crate) const SYNCED_BEFORE: u8 = 1;

/// A record's number in its log: from 1, one higher for each record, never given twice. 0 stands for "none yet". 64
/// bits suffice for a billion records per second for five hundred years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The number before this one; 0 for 0.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A record as it was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The sequence number.
    pub sequence: Sequence,
    /// The time in microseconds since 1970, as the caller gave it; not checked to ascend.
    pub time_us: i64,
    /// The kind, which only the caller interprets.
    pub kind: u8,
    /// The part that recovery needs: the index of a sealed segment holds it too (`LogOptions::index_heads`).
    pub head: &'a [u8],
    /// The remaining bytes of the record.
    pub body: &'a [u8],
}

/// The initial value of the checksums in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(pub u32);

/// Bytes that were recognised as a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded<'a> {
    pub record: Record<'a>,
    pub flags: u8,
    pub length: u32,
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRecord {
    /// The length is 0, or there are no bytes: nothing was written here.
    End,
    /// The length is impossible or the checksum is wrong.
    Damaged,
}

/// Appends a record whose checksum [`seal`] still has to fill in.
pub(crate) fn encode(out: &mut Vec<u8>, length: u32, sequence: Sequence, time_us: i64, kind: u8, head: &[u8]) {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&length.to_le_bytes());
    header[8..16].copy_from_slice(&sequence.0.to_le_bytes());
    header[16..24].copy_from_slice(&time_us.to_le_bytes());
    header[24] = kind;
    header[26..28].copy_from_slice(&(head.len() as u16).to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(head);
}

/// Sets the flags and the checksum of the record that `bytes` consists of, together with `rest` behind it.
pub(crate) fn seal(bytes: &mut [u8], rest: &[u8], flags: u8, seed: Seed) {
    bytes[25] = flags;
    let checksum = crc32c::crc32c_append(checksum(bytes, seed), rest);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
}

fn checksum(record: &[u8], seed: Seed) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(seed.0, &record[..4]), &record[8..])
}

/// The length in the header of a record at the start of `bytes`.
pub(crate) fn length_of(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.first_chunk()?))
}

/// The sequence number in the header of a record at the start of `bytes`.
pub(crate) fn sequence_of(bytes: &[u8]) -> Option<Sequence> {
    Some(Sequence(u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?)))
}

/// Decodes the record at the start of `bytes`, which has at most `limit` bytes.
pub(crate) fn decode(bytes: &[u8], limit: u64, seed: Seed) -> Result<Decoded<'_>, NoRecord> {
    let length = length_of(bytes).ok_or(NoRecord::End)?;
    if length == 0 {
        return Err(NoRecord::End);
    }
    if (length as usize) < HEADER_BYTES || u64::from(length) > limit {
        return Err(NoRecord::Damaged);
    }
    let bytes = bytes.get(..length as usize).ok_or(NoRecord::Damaged)?;
    let stored = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    if stored == checksum(bytes, seed) { parse(bytes).ok_or(NoRecord::Damaged) } else { Err(NoRecord::Damaged) }
}

/// Decodes the record that fills `bytes`, without checking its checksum. The body may be left out.
pub(crate) fn parse(bytes: &[u8]) -> Option<Decoded<'_>> {
    let (header, remaining) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let (head, body) = remaining.split_at_checked(u16::from_le_bytes([header[26], header[27]]) as usize)?;
    let time_us = i64::from_le_bytes(*header[16..].first_chunk()?);
    let record = Record { sequence: sequence_of(header)?, time_us, kind: header[24], head, body };
    Some(Decoded { record, flags: header[25], length: length_of(header)? })
}
