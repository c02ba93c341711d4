//! The files that readers of logs have open: one for all readers of a segment, counted over all logs of a committer.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::journal::format::segment::SegmentNumber;
use crate::journal::recovery::directory::SegmentFile;
use crate::mutex::lock;

/// A file that is counted as long as it is open.
#[derive(Debug)]
pub struct FileCount(Arc<AtomicU64>);

impl FileCount {
    pub(crate) fn new(count: &Arc<AtomicU64>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for FileCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The open file of a segment.
pub(crate) struct ReaderFile {
    pub segment: SegmentFile,
    _count: Option<FileCount>,
}

impl ReaderFile {
    /// A file of one reader, which nobody counts.
    pub fn new(segment: SegmentFile) -> Self {
        Self { segment, _count: None }
    }
}

/// The open files of a log.
#[derive(Default)]
pub(crate) struct ReaderFiles {
    open: Mutex<Vec<(SegmentNumber, Weak<ReaderFile>)>>,
    /// The number of open files of several logs.
    count: Arc<AtomicU64>,
}

impl ReaderFiles {
    /// No files; those to come are counted here.
    pub fn counted_in(count: &Arc<AtomicU64>) -> Self {
        Self { open: Mutex::default(), count: Arc::clone(count) }
    }

    /// The file of a segment: the one that another reader has open, or else a new one from `open`.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn get(
        &self,
        ordinal: SegmentNumber,
        open: impl FnOnce() -> io::Result<SegmentFile>,
    ) -> io::Result<Arc<ReaderFile>> {
        let mut listed = lock(&self.open);
        listed.retain(|(_, file)| file.strong_count() > 0);
        let found = listed.iter().find(|(number, _)| *number == ordinal).and_then(|(_, file)| file.upgrade());
        if let Some(file) = found {
            return Ok(file);
        }
        let file = Arc::new(ReaderFile { segment: open()?, _count: Some(FileCount::new(&self.count)) });
        listed.push((ordinal, Arc::downgrade(&file)));
        Ok(file)
    }

    /// Count one more file.
    pub fn count(&self) -> FileCount {
        FileCount::new(&self.count)
    }
}
