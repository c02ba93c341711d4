//! A mapped file whose pages are checked against their checksums when they are first read.
//!
//! Opening touches the header alone, so it takes as long for a million queries as for one; and yet nothing damaged is
//! ever believed. A page is 4 KiB, as the machine's own: checking one costs less than reading it in from a disk.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::EngineError;

use crate::index::layout::map::Map;

/// Bytes that share a checksum.
pub const PAGE_BYTES: usize = 4_096;

/// The body of a mapped file, from `start` to where its checksums begin.
#[derive(Debug)]
pub struct Pages {
    map: Map,
    path: Box<Path>,
    start: usize,
    end: usize,
    checked: Vec<AtomicBool>,
}

/// How many pages `bytes` bytes take.
#[must_use]
pub fn page_count(bytes: usize) -> usize {
    bytes.div_ceil(PAGE_BYTES)
}

impl Pages {
    /// The body at `start..end` of `map`; a CRC32C of each of its pages follows it, four bytes each, little-endian.
    #[must_use]
    pub fn new(map: Map, path: &Path, start: usize, end: usize) -> Self {
        let checked = (0..page_count(end - start)).map(|_| AtomicBool::new(false)).collect();
        Self { map, path: path.into(), start, end, checked }
    }

    /// `length` bytes at `offset`, a place in the file.
    ///
    /// # Errors
    /// A place outside of the body, or a page that is not as it was written.
    pub fn read(&self, offset: usize, length: usize) -> Result<&[u8], EngineError> {
        let end = offset.checked_add(length).filter(|end| offset >= self.start && *end <= self.end);
        let end = end.ok_or_else(|| self.damaged(&format!("{length} bytes at {offset} are outside of its data")))?;
        for page in (offset - self.start) / PAGE_BYTES..page_count(end - self.start) {
            // Relaxed: the bytes never change, so whoever sees the mark sees the bytes that earned it.
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
    /// The first that is not as it was written.
    pub fn check_all(&self) -> Result<(), EngineError> {
        self.read(self.start, self.end - self.start).map(|_| ())
    }

    fn check(&self, page: usize) -> Result<(), EngineError> {
        let start = self.start + page * PAGE_BYTES;
        let found = crc32c::crc32c(&self.map[start..self.end.min(start + PAGE_BYTES)]);
        let place = self.end + page * 4;
        let expected =
            self.map.get(place..place + 4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        if expected == Some(found) {
            return Ok(());
        }
        Err(self.damaged(&format!("the checksum of the page at byte {start} does not fit")))
    }

    /// The error for a file that is not as it was written.
    #[must_use]
    pub fn damaged(&self, what: &str) -> EngineError {
        let path = self.path.display();
        EngineError::Snapshot(format!("snapshot '{path}' is damaged: {what}; restore it, or save the queries again"))
    }
}
