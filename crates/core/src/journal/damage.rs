//! What is wrong in a log, where, and which records are lost.

use std::fmt;

use crate::journal::format::record::Sequence;

/// What is wrong in a log, and where. Nothing else is: the records around it are intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What it is.
    pub kind: DamageKind,
    /// The ordinal of the segment.
    pub segment: u32,
    /// Where it begins in the file.
    pub offset: u64,
    /// How far it reaches; 0 where that is not known.
    pub size_bytes: u64,
    /// The first number that is lost.
    pub first: Sequence,
    /// The last number that is lost; less than `first` when none is.
    pub last: Sequence,
}

impl Damage {
    /// How many records are lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        (self.last.0 + 1).saturating_sub(self.first.0)
    }

    /// Damage of what only helps to find records.
    pub(crate) fn of_index(kind: DamageKind, segment: u32, offset: u64, first: Sequence) -> Self {
        Self { kind, segment, offset, size_bytes: 0, first, last: first.previous() }
    }
}

/// Where, what, and what is lost: a line for people.
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

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// Bytes that were records and are none any more.
    Records,
    /// Records whose file is not there, or that were synced and are not there any more.
    Missing,
    /// The header of a segment: its records are found without it.
    Header,
    /// The index of a sealed segment: its records are found without it, by reading them all.
    Index,
}

impl DamageKind {
    /// A word for it.
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
            segment: 3,
            offset: 64,
            size_bytes: 900,
            first: Sequence(5),
            last: Sequence(6),
        };
        assert_eq!(damage.to_string(), "segment 3, byte 64, 900 bytes: no records any more: records 5 to 6 are lost");
        damage.last = Sequence(5);
        assert!(damage.to_string().ends_with(": record 5 is lost"));
        let index = Damage::of_index(DamageKind::Index, 3, 64, Sequence(5));
        assert_eq!(
            index.to_string(),
            "segment 3, byte 64: the index of a segment; its records are read without it: no record is lost"
        );
    }
}
