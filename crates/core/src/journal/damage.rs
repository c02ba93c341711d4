//! Damage in a log: its kind, its location, and the records that it loses.

use std::fmt;

use crate::journal::format::record::Sequence;
use crate::journal::format::segment::SegmentNumber;

/// One piece of damage in a log and where it is; the records around it are intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The kind of damage.
    pub kind: DamageKind,
    /// The number of the segment's file.
    pub segment: SegmentNumber,
    /// The byte of the file at which it begins.
    pub offset: u64,
    /// The size of the damaged bytes; 0 if it is not known.
    pub size_bytes: u64,
    /// The sequence number of the first lost record.
    pub first: Sequence,
    /// The sequence number of the last lost record; less than `first` when none is lost.
    pub last: Sequence,
}

impl Damage {
    /// The number of records lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        (self.last.0 + 1).saturating_sub(self.first.0)
    }

    /// Damage of an index, which only helps to find records.
    pub(crate) fn of_index(kind: DamageKind, segment: SegmentNumber, offset: u64, first: Sequence) -> Self {
        Self { kind, segment, offset, size_bytes: 0, first, last: first.previous() }
    }
}

/// One line for people: where it is, what it is, and what is lost.
impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}, byte {}", self.segment, self.offset)?;
        if self.size_bytes > 0 {
            write!(f, ", {} bytes", self.size_bytes)?;
        }
        let what = match self.kind {
            DamageKind::Records => "no records any more",
            DamageKind::Missing => "records that are not there any more",
            DamageKind::Header => "the header of a segment; its records are read without it",
            DamageKind::Index => "the index of a segment; its records are read without it",
        };
        match self.lost() {
            0 => write!(f, ": {what}: no record is lost"),
            1 => write!(f, ": {what}: record {} is lost", self.first),
            _ => write!(f, ": {what}: records {} to {} are lost", self.first, self.last),
        }
    }
}

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// Bytes that once were records and no longer decode.
    Records,
    /// Records whose file is missing, or that were synced and are no longer there.
    Missing,
    /// The header of a segment, without which its records can still be read.
    Header,
    /// The index of a sealed segment, without which all its records must be read.
    Index,
}

impl DamageKind {
    /// The name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Missing => "missing",
            Self::Header => "header",
            Self::Index => "index",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_told_in_words() {
        let mut damage = Damage {
            kind: DamageKind::Records,
            segment: SegmentNumber(3),
            offset: 64,
            size_bytes: 900,
            first: Sequence(5),
            last: Sequence(6),
        };
        assert_eq!(damage.to_string(), "segment 3, byte 64, 900 bytes: no records any more: records 5 to 6 are lost");
        damage.last = Sequence(5);
        assert!(damage.to_string().ends_with(": record 5 is lost"));
        let index = Damage::of_index(DamageKind::Index, SegmentNumber(3), 64, Sequence(5));
        assert_eq!(
            index.to_string(),
            "segment 3, byte 64: the index of a segment; its records are read without it: no record is lost"
        );
    }
}
