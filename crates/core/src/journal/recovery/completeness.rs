//! Checks that no file of a log is missing, before anything is written: what is missing can still be put back.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::journal::disk::Disk;
use crate::journal::errors::OpenError;
use crate::journal::format::mark;
use crate::journal::format::mark::LogMark;
use crate::journal::format::record::Sequence;
use crate::journal::format::segment::{SegmentName, SegmentNumber};
use crate::journal::recovery::directory::{Directory, ExistingLog, Listing};
use crate::journal::writing::mark_file::MarkFile;

/// The maximum number of missing files that are named.
const NAMED_MAX: usize = 6;

/// Segments that are missing between two that are there, or at an end of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MissingSegments {
    /// The first of them, with its first record.
    pub first: SegmentName,
    /// The last of them.
    pub last: SegmentNumber,
    /// The last record that was in them.
    pub last_record: Sequence,
}

impl MissingSegments {
    fn file_names(&self) -> impl Iterator<Item = String> {
        let others = (self.first.ordinal.0 + 1..=self.last.0).map(|ordinal| format!("{ordinal:08}-*.segment"));
        std::iter::once(self.first.file_name()).chain(others)
    }
}

impl ExistingLog {
    /// The segments that must be there and are not, in the order of the log.
    pub fn missing(&self, listing: &Listing) -> io::Result<Vec<MissingSegments>> {
        let mut missing = Vec::new();
        let Some(mark) = &self.mark else { return Ok(missing) };
        let from = mark.first_expected().or(listing.segments.first().copied());
        let mut next = from.unwrap_or(SegmentName { ordinal: SegmentNumber(1), first: Sequence(1) });
        let mut before = None;
        for &name in &listing.segments {
            if name.ordinal < next.ordinal {
                continue; // it need not be there any more
            }
            if name.ordinal > next.ordinal {
                let first = SegmentName { first: self.first_behind(before)?.unwrap_or(next.first), ..next };
                let last = SegmentNumber(name.ordinal.0 - 1);
                missing.push(MissingSegments { first, last, last_record: name.first.previous() });
            }
            next = SegmentName { ordinal: name.ordinal.next(), first: name.first.next() };
            before = Some(name);
        }
        missing.extend(self.missing_at_the_end(mark, next, listing.segments.last().copied())?);
        Ok(missing)
    }

    /// The first record behind a segment, if it is sealed.
    fn first_behind(&self, name: Option<SegmentName>) -> io::Result<Option<Sequence>> {
        let Some(name) = name else { return Ok(None) };
        Ok(self.directory.open(name)?.trailer()?.map(|trailer| trailer.last.next()))
    }

    /// The missing segments from `next` on: the mark has seen one of them, or records behind a sealed segment.
    fn missing_at_the_end(
        &self,
        mark: &LogMark,
        next: SegmentName,
        there: Option<SegmentName>,
    ) -> io::Result<Option<MissingSegments>> {
        if there.is_some_and(|there| there.ordinal <= mark.accepted()) {
            return Ok(None);
        }
        let first = self.first_behind(there)?;
        let has_more = match there {
            Some(_) => first.is_some_and(|first| first <= mark.synced),
            None => mark.synced >= next.first,
        };
        let last = mark.last.filter(|last| last.ordinal >= next.ordinal);
        if last.is_none() && !has_more {
            return Ok(None);
        }
        let first = SegmentName { first: first.unwrap_or(next.first), ..next };
        let first = last.filter(|last| last.ordinal == first.ordinal).unwrap_or(first);
        let last = last.map_or(first.ordinal, |last| last.ordinal);
        Ok(Some(MissingSegments { first, last, last_record: mark.synced }))
    }

    /// The last segment, when it was cut short after records in it were synced. Without records it would be one whose
    /// creation a power cut has interrupted.
    fn cut_short(&self, listing: &Listing) -> io::Result<Option<SegmentName>> {
        let (Some(mark), Some(&last)) = (&self.mark, listing.segments.last()) else { return Ok(None) };
        let has_records = mark.synced >= last.first && last.ordinal > mark.accepted();
        Ok((has_records && self.directory.open(last)?.is_unfinished()).then_some(last))
    }

    /// The missing files, in words.
    pub fn losses(&self, listing: &Listing) -> io::Result<Vec<String>> {
        let mut losses = Vec::new();
        if self.mark.is_none() {
            let what = if listing.has_mark { "damaged" } else { "missing" };
            losses.push(format!("{} is {what}", mark::FILE_NAME));
        }
        let missing = self.missing(listing)?;
        let names = missing.iter().flat_map(MissingSegments::file_names);
        losses.extend(names.take(NAMED_MAX + 1).map(|name| format!("{name} is missing")));
        losses.extend(self.cut_short(listing)?.map(|name| format!("{} is cut short", name.file_name())));
        if losses.len() > NAMED_MAX {
            losses.truncate(NAMED_MAX);
            losses.push("and so are others".to_owned());
        }
        Ok(losses)
    }
}

/// Checks that all files of the log in `path` are there.
///
/// # Errors
/// [`OpenError::Incomplete`] with the names of those that are not, or the file system's error.
pub(crate) fn check(path: &Path, listing: &Listing, existing: &ExistingLog) -> Result<(), OpenError> {
    let losses = existing.losses(listing)?;
    if losses.is_empty() {
        return Ok(());
    }
    Err(OpenError::Incomplete(format!(
        "{}: {}; put back what was there, or accept the loss with `tamis journal accept`",
        path.display(),
        losses.join(", ")
    )))
}

/// Accepts that what is missing from the log in `path` stays missing, so that it can be opened. Returns what that is, in
/// words. Nothing else may use the log meanwhile.
///
/// # Errors
/// [`OpenError`].
pub fn accept_losses(disk: &Arc<dyn Disk>, path: &Path) -> Result<Vec<String>, OpenError> {
    let (listing, existing) = Directory::find(disk, path)?;
    let Some(existing) = existing else { return Ok(Vec::new()) };
    let losses = existing.losses(&listing)?;
    if losses.is_empty() {
        return Ok(losses);
    }
    let last = listing.segments.last().copied().max(existing.mark.and_then(|mark| mark.last)).unwrap_or_default();
    let synced = existing.mark.map_or(Sequence(0), |mark| mark.synced);
    let behind = SegmentName { ordinal: last.ordinal.next(), first: synced.next() };
    let first = listing.segments.first().copied().unwrap_or(behind);
    MarkFile::open(&existing.directory, &listing, existing.mark, first)?.accept(first, last.ordinal)?;
    Ok(losses)
}
