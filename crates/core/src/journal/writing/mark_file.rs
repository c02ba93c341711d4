//! The file of the mark: what of it is written, and what is synced.

use std::io;
use std::sync::Arc;

use crate::journal::disk::DiskFile;
use crate::journal::errors::OpenError;
use crate::journal::format::mark;
use crate::journal::format::mark::{LogExtent, LogMark};
use crate::journal::format::record::Sequence;
use crate::journal::format::segment::{SegmentName, SegmentNumber};
use crate::journal::recovery::directory::{Directory, Listing, read_mark};

/// The open file of a mark, and what it says.
#[derive(Debug)]
pub(crate) struct MarkFile {
    file: Arc<dyn DiskFile>,
    mark: LogMark,
}

impl MarkFile {
    /// The mark of the log in `directory`, which begins with `first`; it is made, and synced, when there is none.
    pub fn open(
        directory: &Directory,
        listing: &Listing,
        mark: Option<LogMark>,
        first: SegmentName,
    ) -> Result<Self, OpenError> {
        let (disk, path) = (directory.disk.as_ref(), directory.path.join(mark::FILE_NAME));
        if let Some(mark) = mark {
            let (_, file) = read_mark(disk, &directory.path)?;
            return Ok(match mark.extent {
                Some(_) => Self::of(file, mark),
                None => Self::begin(file, mark.log_id, mark.synced, first)?,
            });
        }
        if listing.has_mark {
            disk.remove(&path)?;
        }
        let file = disk.create(&path, LogMark::FILE_BYTES)?;
        let begun = Self::begin(file, directory.log_id, Sequence(0), first)?;
        disk.sync_dir(&directory.path)?;
        if let Some(parent) = directory.path.parent() {
            disk.sync_dir(parent)?;
        }
        Ok(begun)
    }

    /// The mark of a new log, or of one whose mark is of version 1: `first` must be there from now on. It is synced.
    pub fn begin(file: Arc<dyn DiskFile>, log_id: u64, synced: Sequence, first: SegmentName) -> io::Result<Self> {
        let mut begun = Self { file, mark: LogMark { log_id, synced, last: None, extent: None } };
        // The extent is there before the head, so that a head of version 2 never lacks it.
        begun.set_extent(first, SegmentNumber::default())?;
        begun.write_synced(synced, None)?;
        begun.file.sync()?;
        Ok(begun)
    }

    /// The mark that was read from `file`; one of version 1 must [`MarkFile::begin`] again.
    pub fn of(file: Arc<dyn DiskFile>, mark: LogMark) -> Self {
        Self { file, mark }
    }

    pub fn mark(&self) -> &LogMark {
        &self.mark
    }

    /// Says how far the log is synced, and which segment is the last. This is not synced.
    pub fn write_synced(&mut self, synced: Sequence, last: Option<SegmentName>) -> io::Result<()> {
        self.mark.synced = synced;
        self.mark.last = self.mark.last.max(last);
        self.mark.write_head(self.file.as_ref())
    }

    /// Says that no segment before `first` need be there any more. It is synced, so that they may be removed.
    pub fn begin_from(&mut self, first: SegmentName) -> io::Result<()> {
        match self.mark.extent {
            Some(extent) if extent.first >= first => Ok(()),
            _ => self.set_extent(first, self.mark.accepted()),
        }
    }

    /// Says that the log begins with `first`, and that segments up to `accepted` may be missing. It is synced.
    pub fn accept(&mut self, first: SegmentName, accepted: SegmentNumber) -> io::Result<()> {
        self.set_extent(first, accepted)?;
        self.write_synced(self.mark.synced, None)?;
        self.file.sync()
    }

    fn set_extent(&mut self, first: SegmentName, accepted: SegmentNumber) -> io::Result<()> {
        self.mark.extent = Some(LogExtent::after(self.mark.extent, first, accepted));
        self.mark.write_extent(self.file.as_ref())?;
        self.file.sync()
    }
}
