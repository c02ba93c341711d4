//! Reads and checks everything in a log, to report what is wrong with it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::journal::damage::{Damage, DamageKind};
use crate::journal::disk::Disk;
use crate::journal::errors::OpenError;
use crate::journal::format::record::Sequence;
use crate::journal::format::segment::{SegmentName, SegmentNumber};
use crate::journal::recovery::directory::{Directory, ExistingLog};
use crate::journal::recovery::scan;
use crate::journal::recovery::scan::{Scanner, WalkExtent};

/// The contents of a log, after every record was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// The last synced sequence number according to the mark.
    pub synced: Sequence,
    /// The segments, oldest first.
    pub segments: Vec<SegmentReport>,
    /// Everything that is damaged or lost, in order.
    pub damage: Vec<Damage>,
    /// The files that are missing, in words. A log that lacks one is not opened.
    pub missing: Vec<String>,
}

/// The contents of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// The number of the segment's file.
    pub ordinal: SegmentNumber,
    /// The name of the segment's file.
    pub file_name: String,
    /// The sequence number of its first record, as the file name says.
    pub first: Sequence,
    /// The number of intact records.
    pub record_count: u64,
    /// The number of intact records of each kind, ordered by kind.
    pub kinds: Vec<(u8, u64)>,
    /// The bytes that its records occupy.
    pub data_bytes: u64,
    /// The size of its file.
    pub file_bytes: u64,
    /// Whether its trailer says that it is sealed.
    pub is_sealed: bool,
    /// The earliest and the latest time of its records; both 0 when it has none.
    pub times_us: (i64, i64),
}

/// Reads and checks the whole log in `dir`, without changing anything. While another process writes the log, its last
/// segments may appear torn.
///
/// # Errors
/// [`OpenError`].
pub fn inspect(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Inspection, OpenError> {
    let (listing, existing) = Directory::find(disk, dir)?;
    let no_log = || OpenError::NoLog(format!("{}: no log of tamis is here", dir.display()));
    let existing = existing.ok_or_else(no_log)?;
    let missing = existing.losses(&listing)?;
    let ExistingLog { directory, mark } = existing;
    let synced = mark.map_or(Sequence(0), |mark| mark.synced);
    let mut inspection = Inspection { synced, missing, ..Inspection::default() };
    let first = mark.and_then(|mark| mark.first_expected()).or(listing.segments.first().copied());
    let mut expected = first.map_or(Sequence(1), |name| name.first);
    for (index, &name) in listing.segments.iter().enumerate() {
        expected = inspection.add(&directory, name, listing.segments.get(index + 1), expected)?;
    }
    inspection.end(expected);
    Ok(inspection)
}

/// The damage of one sealed segment.
#[cfg(test)]
pub(crate) fn inspect_segment(
    directory: &Directory,
    name: SegmentName,
    next: SegmentName,
) -> Result<Vec<Damage>, OpenError> {
    let mut inspection = Inspection::default();
    inspection.add(directory, name, Some(&next), name.first)?;
    Ok(inspection.damage)
}

impl Inspection {
    /// Checks one more segment, and returns the sequence number that must follow it.
    fn add(
        &mut self,
        directory: &Directory,
        name: SegmentName,
        next: Option<&SegmentName>,
        expected: Sequence,
    ) -> Result<Sequence, OpenError> {
        if name.first > expected {
            let (kind, last) = (DamageKind::Missing, name.first.previous());
            self.damage.push(Damage { kind, segment: name.ordinal, offset: 0, size_bytes: 0, first: expected, last });
        }
        let segment = directory.open(name)?;
        let trailer = segment.trailer()?;
        if !directory.has_good_header(name)? {
            self.damage.push(Damage::of_index(DamageKind::Header, name.ordinal, 0, name.first));
        }
        let index = Damage::of_index(DamageKind::Index, name.ordinal, segment.file_bytes, name.first);
        let (extent, limit) = match (&trailer, next) {
            (Some(trailer), _) => {
                let is_whole = trailer.read_sparse(segment.file.as_ref(), segment.file_bytes)?.is_some()
                    && (!trailer.has_heads()
                        || trailer.read_heads(segment.file.as_ref(), segment.file_bytes, &mut Vec::new())?.is_some());
                if !is_whole {
                    self.damage.push(index);
                }
                let end = u64::from(trailer.end);
                (WalkExtent::Sealed { end, last: trailer.last }, end)
            }
            (None, Some(next)) => {
                self.damage.push(index);
                (WalkExtent::Before { next: next.first }, segment.file_bytes)
            }
            (None, None) => (WalkExtent::Open { proven: self.synced }, segment.file_bytes),
        };
        let mut report = SegmentReport {
            ordinal: name.ordinal,
            file_name: name.file_name(),
            first: name.first,
            record_count: 0,
            kinds: Vec::new(),
            data_bytes: 0,
            file_bytes: segment.file_bytes,
            is_sealed: trailer.is_some(),
            times_us: (0, 0),
        };
        let mut scanner = Scanner::new(Arc::clone(&segment.file), segment.seed, limit);
        let mut kinds = [0_u64; 256];
        let mut last = name.first.previous();
        report.data_bytes = self.walk(&mut scanner, name, extent, |time_us, kind, sequence| {
            report.times_us = match report.record_count {
                0 => (time_us, time_us),
                _ => (report.times_us.0.min(time_us), report.times_us.1.max(time_us)),
            };
            report.record_count += 1;
            kinds[usize::from(kind)] += 1;
            last = sequence;
        })?;
        report.kinds = (0..=u8::MAX).zip(kinds).filter(|(_, count)| *count > 0).collect();
        self.segments.push(report);
        Ok(trailer.map_or(next.map_or(last, |next| next.first.previous()), |trailer| trailer.last).next())
    }

    /// Notes records that the mark has seen and that are in no segment; `next` follows the last one.
    fn end(&mut self, next: Sequence) {
        let reported = self.damage.iter().map(|damage| damage.last.next()).max().unwrap_or_default();
        let (first, last) = (next.max(reported), self.synced);
        if first <= last {
            let segment = self.segments.last().map_or_else(SegmentNumber::default, |report| report.ordinal);
            self.damage.push(Damage { kind: DamageKind::Missing, segment, offset: 0, size_bytes: 0, first, last });
        }
    }

    fn walk(
        &mut self,
        scanner: &mut Scanner,
        name: SegmentName,
        extent: WalkExtent,
        mut record: impl FnMut(i64, u8, Sequence),
    ) -> io::Result<u64> {
        scan::walk(scanner, name.ordinal, name.first, extent, &mut |walked| match walked {
            scan::Walked::Record(_, decoded) => {
                record(decoded.record.time_us, decoded.record.kind, decoded.record.sequence)
            }
            scan::Walked::Damage(damage) => self.damage.push(damage),
        })
    }
}
