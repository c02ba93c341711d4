//! A mapped file whose pages are checked against their checksums when they are first read.
//!
//! Opening a snapshot reads its header alone, so that it takes as long for a million queries as for one. Damaged pages are
//! refused when they are read. A page is 4 KiB, like the machine's own: checking one costs less than reading it from disk.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::EngineError;

use super::map::FileMap;

/// The number of bytes that share a checksum.
pub const PAGE_BYTES: usize = 4_096;

/// The body of a mapped file, from `start` to where its checksums start.
#[derive(Debug)]
pub struct Pages {
    map: FileMap,
    path: Box<Path>,
    start: usize,
    end: usize,
    checked: Vec<AtomicBool>,
}

/// The number of pages that `bytes` bytes take.
#[must_use]
pub fn page_count(bytes: usize) -> usize {
    bytes.div_ceil(PAGE_BYTES)
}

impl Pages {
    /// The body at `start..end` of `map`; a CRC32C of each of its pages follows it, four bytes each, little-endian.
    #[must_use]
    pub fn new(map: FileMap, path: &Path, start: usize, end: usize) -> Self {
        let checked = (0..page_count(end - start)).map(|_| AtomicBool::new(false)).collect();
        Self { map, path: path.into(), start, end, checked }
    }

    /// `length` bytes at `offset` of the file.
    ///
    /// # Errors
    /// An offset outside of the body, or a damaged page.
    pub fn read(&self, offset: usize, length: usize) -> Result<&[u8], EngineError> {
        let end = offset.checked_add(length).filter(|end| offset >= self.start && *end <= self.end);
        let end = end.ok_or_else(|| self.damaged(&format!("{length} bytes at {offset} are outside of its data")))?;
        for page in (offset - self.start) / PAGE_BYTES..page_count(end - self.start) {
            // Relaxed: the bytes never change, so a reader of the mark sees the bytes that were checked.
            if !self.checked[page].load(Ordering::Relaxed) {
                self.check(page)?;
                self.checked[page].store(true, Ordering::Relaxed);
            }
        }
        Ok(&self.map[offset..end])
    }

    /// `length` bytes at `offset`, which [`Self::read`] has given before.
    #[must_use]
    pub fn trusted(&self, offset: usize, length: usize) -> &[u8] {
        &self.map[offset..offset + length]
    }

    /// Check every page.
    ///
    /// # Errors
    /// The first damaged page.
    pub fn check_all(&self) -> Result<(), EngineError> {
        self.read(self.start, self.end - self.start).map(|_| ())
    }

    fn check(&self, page: usize) -> Result<(), EngineError> {
        let start = self.start + page * PAGE_BYTES;
        let actual = crc32c::crc32c(&self.map[start..self.end.min(start + PAGE_BYTES)]);
        let stored = self.end + page * 4;
        let expected =
            self.map.get(stored..stored + 4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        if expected == Some(actual) {
            return Ok(());
        }
        Err(self.damaged(&format!("the checksum of the page at byte {start} does not fit")))
    }

    /// The error for a damaged file.
    #[must_use]
    pub fn damaged(&self, what: &str) -> EngineError {
        let path = self.path.display();
        EngineError::Snapshot(format!("snapshot '{path}' is damaged: {what}; restore it, or save the queries again"))
    }
}
