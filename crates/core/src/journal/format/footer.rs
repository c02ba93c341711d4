//! The footer of a sealed segment: a summary that spares readers its records.
//!
//! - The **heads**: sequence number, time, kind, offset and head of every record (only with `LogOptions::index_heads`).
//!   Recovery needs nothing else.
//! - The **sparse index**: the first record of every 64 KiB, to find a number or a time.
//! - The **trailer**, the last bytes of the file: first and last number and time, where the records end, and checksums
//!   of the other two parts. It carries the segment's identity, so that an old trailer is not taken for a new one.

use std::io;

use crate::journal::disk::DiskFile;
use crate::journal::format::heads::Heads;
use crate::journal::format::record::{Decoded, Seed, Sequence};
use crate::journal::format::segment::{DATA_START, Location, SegmentNumber, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"tamisend";
pub(crate) const TRAILER_BYTES: usize = 64;
/// The size of one point of the sparse index.
pub(crate) const SPARSE_BYTES: usize = 24;
/// The sparse index has one point for this many bytes of records.
pub(crate) const SPARSE_EVERY_BYTES: u64 = 64 * 1024;
/// The bytes that a record adds to the heads, besides its own head.
pub(crate) const HEAD_FIXED_BYTES: usize = 27;

/// The information about a record in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead<'a> {
    /// The sequence number of the record.
    pub sequence: Sequence,
    /// The time of the record, in microseconds since 1970.
    pub time_us: i64,
    /// The kind of the record.
    pub kind: u8,
    /// The head of the record.
    pub head: &'a [u8],
    /// The location of the record.
    pub location: Location,
    /// The bytes of the segment that the record occupies, including its body.
    pub size_bytes: u32,
}

/// A record at which a search can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SparsePoint {
    pub sequence: Sequence,
    /// The highest time of the records before it.
    pub time_before_us: i64,
    pub offset: u32,
}

/// The summary of a segment: gathered while it is written or scanned, and written when it is sealed.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentContents {
    pub first: Sequence,
    pub last: Sequence,
    pub count: u32,
    pub time_max_us: i64,
    /// The offset of the next record.
    pub end: u32,
    pub sparse: Vec<SparsePoint>,
    /// The heads; None where they are not kept.
    pub heads: Option<Heads>,
}

impl SegmentContents {
    /// The summary of a segment without records.
    pub fn empty(index_heads: bool) -> Self {
        Self { end: DATA_START, time_max_us: i64::MIN, heads: index_heads.then(Heads::default), ..Self::default() }
    }

    /// Adds the record at `offset`.
    pub fn push(&mut self, offset: u32, decoded: &Decoded<'_>) {
        let record = &decoded.record;
        let sparse_is_due = self.sparse.last().is_none_or(|last| u64::from(offset - last.offset) >= SPARSE_EVERY_BYTES);
        if sparse_is_due {
            self.sparse.push(SparsePoint { sequence: record.sequence, time_before_us: self.time_max_us, offset });
        }
        if let Some(heads) = &mut self.heads {
            heads.push(offset, decoded.length, record);
        }
        if self.count == 0 {
            self.first = record.sequence;
        }
        self.last = record.sequence;
        self.count += 1;
        self.time_max_us = self.time_max_us.max(record.time_us);
        self.end = offset + decoded.length;
    }

    /// Sparse index and trailer, as they stand at the end of the file, behind the heads.
    pub fn encode_end(&self, seed: Seed) -> Vec<u8> {
        let mut bytes = Vec::new();
        for point in &self.sparse {
            bytes.extend(point.sequence.0.to_le_bytes());
            bytes.extend(point.time_before_us.to_le_bytes());
            bytes.extend(u64::from(point.offset).to_le_bytes());
        }
        let trailer = Trailer {
            first: self.first,
            last: self.last,
            time_max_us: self.time_max_us,
            count: self.count,
            end: self.end,
            heads: self.heads.as_ref().map(|heads| FooterPart::of_pieces(heads.pieces())),
            sparse: FooterPart::of(&bytes),
        };
        bytes.extend(trailer.encode(seed));
        bytes
    }
}

/// The records of the encoded heads of segment `ordinal`.
pub(crate) fn heads_of(mut bytes: &[u8], ordinal: SegmentNumber) -> impl Iterator<Item = RecordHead<'_>> {
    std::iter::from_fn(move || {
        let (fixed, remaining) = bytes.split_first_chunk::<HEAD_FIXED_BYTES>()?;
        let (head, remaining) = remaining.split_at_checked(u16::from_le_bytes([fixed[25], fixed[26]]) as usize)?;
        bytes = remaining;
        Some(RecordHead {
            sequence: Sequence(u64_at(fixed, 0)),
            time_us: u64_at(fixed, 8) as i64,
            kind: fixed[24],
            head,
            location: Location { segment: ordinal, offset: u32_at(fixed, 16) },
            size_bytes: u32_at(fixed, 20),
        })
    })
}

/// The length and checksum of a part of the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FooterPart {
    size_bytes: u32,
    checksum: u32,
}

impl FooterPart {
    fn of(bytes: &[u8]) -> Self {
        Self::of_pieces(std::iter::once(bytes))
    }

    fn of_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Self {
        pieces.fold(Self { size_bytes: 0, checksum: 0 }, |part, piece| Self {
            size_bytes: part.size_bytes + piece.len() as u32,
            checksum: crc32c::crc32c_append(part.checksum, piece),
        })
    }

    /// Reads its bytes, which end at `end`, into `buffer`, which grows if it must; None when their checksum is wrong.
    fn read<'a>(self, file: &dyn DiskFile, end: u64, buffer: &'a mut Vec<u8>) -> io::Result<Option<&'a [u8]>> {
        let (Some(start), size) = (end.checked_sub(u64::from(self.size_bytes)), self.size_bytes as usize) else {
            return Ok(None);
        };
        if buffer.len() < size {
            *buffer = vec![0; size];
        }
        let bytes = &mut buffer[..size];
        let count = file.read_at(start, bytes)?;
        Ok((count == size && Self::of(bytes) == self).then_some(bytes))
    }
}

/// The last bytes of a sealed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub first: Sequence,
    pub last: Sequence,
    pub time_max_us: i64,
    pub count: u32,
    /// The offset at which its records end.
    pub end: u32,
    heads: Option<FooterPart>,
    sparse: FooterPart,
}

impl Trailer {
    fn encode(&self, seed: Seed) -> [u8; TRAILER_BYTES] {
        let heads = self.heads.unwrap_or(FooterPart { size_bytes: u32::MAX, checksum: 0 });
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.last.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.time_max_us.to_le_bytes());
        let words = [
            self.count,
            self.end,
            heads.size_bytes,
            heads.checksum,
            self.sparse.size_bytes,
            self.sparse.checksum,
            0, // so that the trailer has 64 bytes
        ];
        for (field, word) in bytes[32..60].chunks_exact_mut(4).zip(words) {
            field.copy_from_slice(&word.to_le_bytes());
        }
        let checksum = crc32c::crc32c_append(seed.0, &bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The trailer of a file; None when it is not sealed, or the trailer is damaged.
    pub fn read(file: &dyn DiskFile, file_bytes: u64, seed: Seed) -> io::Result<Option<Self>> {
        let Some(start) = file_bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
        let mut bytes = [0; TRAILER_BYTES];
        if file.read_at(start, &mut bytes)? < TRAILER_BYTES {
            return Ok(None);
        }
        let section = |offset| FooterPart { size_bytes: u32_at(&bytes, offset), checksum: u32_at(&bytes, offset + 4) };
        let trailer = Self {
            first: Sequence(u64_at(&bytes, 8)),
            last: Sequence(u64_at(&bytes, 16)),
            time_max_us: u64_at(&bytes, 24) as i64,
            count: u32_at(&bytes, 32),
            end: u32_at(&bytes, 36),
            heads: Some(section(40)).filter(|section| section.size_bytes != u32::MAX),
            sparse: section(48),
        };
        Ok((trailer.encode(seed) == bytes).then_some(trailer))
    }

    /// Whether the heads are kept.
    pub fn has_heads(&self) -> bool {
        self.heads.is_some()
    }

    /// Reads the encoded heads into `buffer`; None when they are damaged or not kept.
    pub fn read_heads<'a>(
        &self,
        file: &dyn DiskFile,
        file_bytes: u64,
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<Option<&'a [u8]>> {
        match self.heads {
            None => Ok(None),
            Some(heads) => heads.read(file, self.sparse_end(file_bytes) - u64::from(self.sparse.size_bytes), buffer),
        }
    }

    /// The sparse index; None when it is damaged.
    pub fn read_sparse(&self, file: &dyn DiskFile, file_bytes: u64) -> io::Result<Option<Vec<SparsePoint>>> {
        let mut buffer = Vec::new();
        let Some(bytes) = self.sparse.read(file, self.sparse_end(file_bytes), &mut buffer)? else { return Ok(None) };
        let point = |bytes: &[u8]| SparsePoint {
            sequence: Sequence(u64_at(bytes, 0)),
            time_before_us: u64_at(bytes, 8) as i64,
            offset: u32_at(bytes, 16),
        };
        Ok(Some(bytes.chunks_exact(SPARSE_BYTES).map(point).collect()))
    }

    fn sparse_end(&self, file_bytes: u64) -> u64 {
        file_bytes.saturating_sub(TRAILER_BYTES as u64)
    }
}
