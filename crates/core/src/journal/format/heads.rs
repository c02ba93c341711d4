//! The encoded heads of the records of a segment, in pieces: a segment of small records has tens of megabytes of them.

use crate::journal::format::footer::{HEAD_FIXED_BYTES, RecordHead, heads_of};
use crate::journal::format::record::{HEAD_BYTES_MAX, Record};
use crate::journal::format::segment::SegmentNumber;

/// The size of a piece, which holds whole heads only. The first one grows to it.
const PIECE_BYTES: usize = 1024 * 1024;

/// Encoded heads. More of them are put into a further piece, so that nothing is copied and no room is left over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads {
    pieces: Vec<Vec<u8>>,
    size_bytes: usize,
}

impl Heads {
    /// Add the head of the record at `offset`, which takes `length` bytes.
    pub fn push(&mut self, offset: u32, length: u32, record: &Record<'_>) {
        let mut fixed = [0; HEAD_FIXED_BYTES];
        fixed[..8].copy_from_slice(&record.sequence.0.to_le_bytes());
        fixed[8..16].copy_from_slice(&record.time_us.to_le_bytes());
        fixed[16..20].copy_from_slice(&offset.to_le_bytes());
        fixed[20..24].copy_from_slice(&length.to_le_bytes());
        fixed[24] = record.kind;
        fixed[25..].copy_from_slice(&(record.head.len() as u16).to_le_bytes());
        let piece = self.piece();
        piece.extend_from_slice(&fixed);
        piece.extend_from_slice(record.head);
        self.size_bytes += HEAD_FIXED_BYTES + record.head.len();
    }

    /// A piece with room for one more head.
    fn piece(&mut self) -> &mut Vec<u8> {
        let is_full = |piece: &Vec<u8>| piece.len() + HEAD_FIXED_BYTES + HEAD_BYTES_MAX > PIECE_BYTES;
        if self.pieces.last().is_none_or(is_full) {
            let capacity = if self.pieces.is_empty() { 0 } else { PIECE_BYTES };
            self.pieces.push(Vec::with_capacity(capacity));
        }
        let last = self.pieces.len() - 1;
        &mut self.pieces[last]
    }

    /// The number of bytes that they take in a file.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The memory that they take.
    pub fn memory_bytes(&self) -> usize {
        self.pieces.iter().map(Vec::capacity).sum()
    }

    /// All bytes, in pieces, in their order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(Vec::as_slice)
    }

    /// The heads, as those of segment `ordinal`.
    pub fn iter(&self, ordinal: SegmentNumber) -> impl Iterator<Item = RecordHead<'_>> {
        self.pieces.iter().flat_map(move |piece| heads_of(piece, ordinal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::format::record::Sequence;
    use crate::testing::fewer;

    #[test]
    fn heads_come_out_as_they_went_in_and_take_little_more_memory_than_they_must() {
        let mut heads = Heads::default();
        let count = fewer(100_000) as u64;
        for number in 0..count {
            let head = vec![number as u8; (number % 100) as usize];
            let record = Record { sequence: Sequence(number), time_us: 7, kind: 3, head: &head, body: &[] };
            heads.push(number as u32, 50, &record);
            assert!(heads.memory_bytes() <= 2 * heads.size_bytes().min(PIECE_BYTES) + heads.size_bytes() + PIECE_BYTES);
        }
        let all: Vec<u8> = heads.pieces().flatten().copied().collect();
        assert_eq!(all.len(), heads.size_bytes());
        let ordinal = SegmentNumber(5);
        assert!(heads_of(&all, ordinal).eq(heads.iter(ordinal)), "the pieces are one text");
        let numbers = heads.iter(ordinal).map(|head| (head.sequence.0, head.head.len() as u64));
        assert!(numbers.eq((0..count).map(|number| (number, number % 100))));
    }
}
