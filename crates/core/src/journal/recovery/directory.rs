//! The directory of a log: its files, and the log that they belong to.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::journal::disk::{Disk, DiskFile};
use crate::journal::errors::OpenError;
use crate::journal::format::footer::Trailer;
use crate::journal::format::mark;
use crate::journal::format::mark::LogMark;
use crate::journal::format::record::Seed;
use crate::journal::format::segment::{
    DATA_START, SEGMENT_BYTES_MIN, SegmentHeader, SegmentName, SegmentNumber, VERSION, seed, summary_name, summary_of,
};

/// The directory of a log.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub disk: Arc<dyn Disk>,
    pub path: PathBuf,
    pub log_id: u64,
}

/// The files in a directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The names of the segments, ascending.
    pub segments: Vec<SegmentName>,
    /// The names of files that wait to be reused.
    pub spares: Vec<String>,
    /// The segments that summaries are of.
    pub summaries: Vec<SegmentNumber>,
    pub has_mark: bool,
}

/// A log that exists in a directory.
#[derive(Debug)]
pub(crate) struct ExistingLog {
    pub directory: Directory,
    /// The mark; None when it is missing or damaged.
    pub mark: Option<LogMark>,
}

/// The open file of a segment.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub name: SegmentName,
    pub file: Arc<dyn DiskFile>,
    pub file_bytes: u64,
    pub seed: Seed,
}

impl Listing {
    pub fn read(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let mut listing = Self::default();
        for text in disk.list(path)? {
            match SegmentName::parse(&text) {
                Some(name) => listing.segments.push(name),
                None if text == mark::FILE_NAME => listing.has_mark = true,
                None if text.starts_with("spare-") => listing.spares.push(text),
                None if let Some(ordinal) = summary_of(&text) => listing.summaries.push(ordinal),
                None => {} // not ours, not our business
            }
        }
        listing.segments.sort_unstable();
        listing.spares.sort_unstable();
        Ok(listing)
    }
}

impl Directory {
    /// The log in `path`; None when it has no files of a log.
    pub fn find(disk: &Arc<dyn Disk>, path: &Path) -> Result<(Listing, Option<ExistingLog>), OpenError> {
        let listing = Listing::read(disk.as_ref(), path)?;
        let mark = if listing.has_mark { read_mark(disk.as_ref(), path)?.0 } else { None };
        let mut log_id = mark.map(|mark| mark.log_id);
        for &name in &listing.segments {
            if let Some(header) = read_header(disk.as_ref(), path, name)?
                && *log_id.get_or_insert(header.log_id) != header.log_id
            {
                // Everything in it would look damaged, and be overwritten.
                let path = path.join(name.file_name());
                return Err(OpenError::Incomplete(format!("{} is of another log than its mark", path.display())));
            }
        }
        match log_id {
            Some(log_id) => {
                let directory = Self { disk: Arc::clone(disk), path: path.to_owned(), log_id };
                Ok((listing, Some(ExistingLog { directory, mark })))
            }
            None if listing.segments.is_empty() => Ok((listing, None)),
            None => Err(OpenError::NoLog(format!(
                "{}: neither the mark nor the header of any segment can be read",
                path.display()
            ))),
        }
    }

    pub fn names(&self) -> io::Result<Vec<SegmentName>> {
        Ok(Listing::read(self.disk.as_ref(), &self.path)?.segments)
    }

    pub fn path_of(&self, name: SegmentName) -> PathBuf {
        self.path.join(name.file_name())
    }

    pub fn open(&self, name: SegmentName) -> io::Result<SegmentFile> {
        self.with_file(name, self.disk.open(&self.path_of(name))?)
    }

    pub fn open_to_write(&self, name: SegmentName) -> io::Result<SegmentFile> {
        self.with_file(name, self.disk.open_to_write(&self.path_of(name))?)
    }

    pub fn with_file(&self, name: SegmentName, file: Arc<dyn DiskFile>) -> io::Result<SegmentFile> {
        let file_bytes = file.size_bytes()?;
        Ok(SegmentFile { name, file, file_bytes, seed: seed(self.log_id, name.ordinal) })
    }

    /// Remove the summary of a segment, if there is one.
    pub fn remove_summary(&self, ordinal: SegmentNumber) {
        _ = self.disk.remove(&self.path.join(summary_name(ordinal))); // most have none, and one that stays harms nobody
    }

    /// Whether the header of a segment is intact and its own.
    pub fn has_good_header(&self, name: SegmentName) -> Result<bool, OpenError> {
        let expected = SegmentHeader { log_id: self.log_id, name };
        Ok(read_header(self.disk.as_ref(), &self.path, name)? == Some(expected))
    }
}

impl SegmentFile {
    /// Whether its file has not even the size of the smallest segment.
    pub fn is_unfinished(&self) -> bool {
        self.file_bytes < u64::from(SEGMENT_BYTES_MIN)
    }

    pub fn trailer(&self) -> io::Result<Option<Trailer>> {
        Trailer::read(self.file.as_ref(), self.file_bytes, self.seed)
    }
}

/// The mark of a log, None when it is damaged, together with its file.
pub(crate) fn read_mark(disk: &dyn Disk, path: &Path) -> Result<(Option<LogMark>, Arc<dyn DiskFile>), OpenError> {
    let file = disk.open_to_write(&path.join(mark::FILE_NAME)).or_else(|_| disk.open(&path.join(mark::FILE_NAME)))?;
    let known = mark::VERSION;
    let mark = LogMark::read(file.as_ref())?.map_err(|version| later(&path.join(mark::FILE_NAME), version, known))?;
    Ok((mark, file))
}

fn read_header(disk: &dyn Disk, path: &Path, name: SegmentName) -> Result<Option<SegmentHeader>, OpenError> {
    let path = path.join(name.file_name());
    let mut bytes = [0; DATA_START as usize];
    let count = disk.open(&path)?.read_at(0, &mut bytes)?;
    SegmentHeader::decode(&bytes[..count]).map_err(|version| later(&path, version, VERSION))
}

fn later(path: &Path, version: u32, known: u32) -> OpenError {
    OpenError::Version(format!(
        "{}: journal format {version}, and this tamis reads up to {known}: open it with the version that wrote it, or a later one",
        path.display()
    ))
}
