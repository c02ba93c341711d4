//! Recovers a log after any crash: its sealed segments, the one that was being written, and the records lost.
//!
//! Records are read in the last segment only. There a bad record is a torn tail and ends the log, unless a later record
//! or the mark proves that it had been synced: then it is rot. Everything else that is bad is rot.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::journal::damage::{Damage, DamageKind};
use crate::journal::disk::Disk;
use crate::journal::errors::OpenError;
use crate::journal::format::footer::SegmentContents;
use crate::journal::format::record::{HEADER_BYTES, Sequence};
use crate::journal::format::segment::{SegmentHeader, SegmentName, SegmentNumber, summary_name};
use crate::journal::recovery::completeness;
use crate::journal::recovery::directory::{Directory, SegmentFile};
use crate::journal::recovery::scan::{Scanner, WalkExtent, Walked, proven_behind, walk};
use crate::journal::writing::mark_file::MarkFile;

/// The result of opening a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecovery {
    /// The first sequence number that is kept; equal to `next` when there are no records.
    pub first: Sequence,
    /// The sequence number that the next record gets.
    pub next: Sequence,
    /// The damage and the losses, in the order of the log. Damage stays, and is reported each time.
    pub damage: Vec<Damage>,
}

/// The facts about a segment that are known without reading its records.
#[derive(Clone, Debug)]
pub(crate) struct SegmentMeta {
    pub name: SegmentName,
    /// The sequence number of the last record; less than the first when there is none.
    pub last: Sequence,
    pub time_max_us: i64,
    /// The bytes that its records occupy, including their headers.
    pub data_bytes: u64,
    pub file_bytes: u64,
}

/// The segment that is being written.
#[derive(Debug)]
pub(crate) struct ActiveSegment {
    pub segment: SegmentFile,
    pub contents: SegmentContents,
}

/// A log after its recovery.
#[derive(Debug)]
pub(crate) struct RecoveredLog {
    pub directory: Directory,
    pub mark: MarkFile,
    pub segments: Vec<SegmentMeta>,
    pub active: Option<ActiveSegment>,
    pub spares: Vec<String>,
    pub next: Sequence,
    pub damage: Vec<Damage>,
}

/// Recovers the log in `path`, or begins one.
pub(crate) fn recover(disk: &Arc<dyn Disk>, path: &Path, index_heads: bool) -> Result<RecoveredLog, OpenError> {
    disk.create_dir(path)?;
    let (listing, existing) = Directory::find(disk, path)?;
    let (directory, mark) = match existing {
        Some(existing) => {
            completeness::check(path, &listing, &existing)?;
            (existing.directory, existing.mark)
        }
        None => {
            let log_id = RandomState::new().build_hasher().finish();
            (Directory { disk: Arc::clone(disk), path: path.to_owned(), log_id }, None)
        }
    };
    let synced = mark.map_or(Sequence(0), |mark| mark.synced);
    let first = SegmentName { ordinal: SegmentNumber(1), first: Sequence(1) };
    let first = listing.segments.first().copied().unwrap_or(first);
    let mark = MarkFile::open(&directory, &listing, mark, first)?;
    let (segments, spares) = (listing.segments, listing.spares);
    for ordinal in listing.summaries {
        if !segments.iter().any(|name| name.ordinal == ordinal) {
            _ = disk.remove(&path.join(summary_name(ordinal))); // a hint, which is of nothing any more
        }
    }
    let mut recovered = RecoveredLog {
        directory,
        mark,
        segments: Vec::new(),
        active: None,
        spares,
        next: Sequence(1),
        damage: Vec::new(),
    };
    for (index, &name) in segments.iter().enumerate() {
        recovered.add(name, segments.get(index + 1), synced, index_heads)?;
    }
    recovered.end(synced);
    let last = recovered.segments.last().map(|meta| meta.name);
    // The last segment may have been begun by a process that ended before its name was synced.
    if last.is_some() {
        disk.sync_dir(path)?;
    }
    recovered.mark.write_synced(recovered.next.previous(), last)?;
    Ok(recovered)
}

impl RecoveredLog {
    pub fn first(&self) -> Sequence {
        self.segments.first().map_or(self.next, |meta| meta.name.first)
    }

    pub fn summary(&self) -> LogRecovery {
        LogRecovery { first: self.first(), next: self.next, damage: self.damage.clone() }
    }

    /// Adds one more segment; `next` is the one after it.
    fn add(
        &mut self,
        name: SegmentName,
        next: Option<&SegmentName>,
        synced: Sequence,
        index_heads: bool,
    ) -> Result<(), OpenError> {
        let segment = self.directory.open_to_write(name)?;
        if next.is_none() && segment.is_unfinished() {
            // The power failed while its file was created, so nothing was ever written to it.
            let (disk, path) = (self.directory.disk.as_ref(), &self.directory.path);
            disk.remove(&self.directory.path_of(name))?;
            disk.sync_dir(path)?;
            return Ok(());
        }
        self.gap_before(name);
        let trailer = segment.trailer()?;
        let header_is_good = self.directory.has_good_header(name)?;
        // The last segment may have its name without its header: the power failed while it was begun.
        if !header_is_good && (next.is_some() || trailer.is_some()) {
            self.damage.push(Damage::of_index(DamageKind::Header, name.ordinal, 0, name.first));
        }
        let meta = match (trailer, next) {
            (Some(trailer), _) => SegmentMeta {
                name,
                last: trailer.last,
                time_max_us: trailer.time_max_us,
                data_bytes: u64::from(trailer.end),
                file_bytes: segment.file_bytes,
            },
            (None, Some(next)) => {
                self.damage.push(Damage::of_index(DamageKind::Index, name.ordinal, segment.file_bytes, name.first));
                let extent = WalkExtent::Before { next: next.first };
                let (contents, _) = read_contents(&segment, extent, false, &mut self.damage)?;
                SegmentMeta { last: next.first.previous(), ..meta_of(&segment, &contents) }
            }
            (None, None) => {
                let active = self.read_active(segment, synced, index_heads)?;
                if !header_is_good {
                    let header = SegmentHeader { log_id: self.directory.log_id, name };
                    active.segment.file.write_at(0, &header.encode())?;
                }
                // Bytes behind the end must never pass for records once the space before them is filled again; and the
                // records may be in the cache only.
                let end = u64::from(active.contents.end);
                active.segment.file.zero(end, active.segment.file_bytes.saturating_sub(end))?;
                active.segment.file.sync()?;
                let meta = meta_of(&active.segment, &active.contents);
                self.active = Some(active);
                meta
            }
        };
        self.next = self.next.max(meta.last.next());
        self.segments.push(meta);
        Ok(())
    }

    /// Notes records that are missing between the last segment and this one; before the first segment, retention
    /// removed them.
    fn gap_before(&mut self, name: SegmentName) {
        if !self.segments.is_empty() && name.first > self.next {
            self.missing(name.ordinal, self.next, name.first.previous());
        }
        self.next = self.next.max(name.first);
    }

    fn missing(&mut self, segment: SegmentNumber, first: Sequence, last: Sequence) {
        let kind = DamageKind::Missing;
        self.damage.push(Damage { kind, segment, offset: 0, size_bytes: 0, first, last });
    }

    fn read_active(&mut self, segment: SegmentFile, synced: Sequence, index_heads: bool) -> io::Result<ActiveSegment> {
        let mut proven = synced;
        loop {
            let mut damage = Vec::new();
            let (contents, mut scanner) =
                read_contents(&segment, WalkExtent::Open { proven }, index_heads, &mut damage)?;
            let from = if contents.count == 0 { segment.name.first } else { contents.last.next() };
            let most = segment.file_bytes / HEADER_BYTES as u64;
            match proven_behind(&mut scanner, from, Sequence(from.0 + most))? {
                Some(behind) if behind > proven => proven = behind,
                _ => {
                    self.damage.extend(damage);
                    return Ok(ActiveSegment { segment, contents });
                }
            }
        }
    }

    /// Notes records that the mark had counted and that are in no segment.
    fn end(&mut self, synced: Sequence) {
        if self.next <= synced {
            let reported = self.damage.iter().map(|damage| damage.last.next()).max().unwrap_or_default();
            if reported <= synced {
                let ordinal = self.segments.last().map_or_else(SegmentNumber::default, |meta| meta.name.ordinal);
                self.missing(ordinal, self.next.max(reported), synced);
            }
            self.next = synced.next();
        }
    }
}

fn meta_of(segment: &SegmentFile, contents: &SegmentContents) -> SegmentMeta {
    SegmentMeta {
        name: segment.name,
        last: if contents.count == 0 { segment.name.first.previous() } else { contents.last },
        time_max_us: contents.time_max_us,
        data_bytes: u64::from(contents.end),
        file_bytes: segment.file_bytes,
    }
}

/// Reads all records of a segment, and returns the scanner behind the last of them.
fn read_contents(
    segment: &SegmentFile,
    extent: WalkExtent,
    index_heads: bool,
    damage: &mut Vec<Damage>,
) -> io::Result<(SegmentContents, Scanner)> {
    let mut contents = SegmentContents::empty(index_heads);
    let mut scanner = Scanner::new(Arc::clone(&segment.file), segment.seed, segment.file_bytes);
    let end = walk(&mut scanner, segment.name.ordinal, segment.name.first, extent, &mut |walked| match walked {
        Walked::Record(offset, decoded) => contents.push(offset as u32, &decoded),
        Walked::Damage(piece) => damage.push(piece),
    })?;
    contents.end = end as u32;
    scanner.offset = end;
    Ok((contents, scanner))
}
