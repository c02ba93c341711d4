//! The mark: a small file beside the segments that says how far the log is synced.
//!
//! It is written after each sync, but not synced itself, so after a power cut it may say less than is true, never more.
//! Other processes read the log as far as it says; recovery takes it as proof that records were there.

use std::io;

use crate::journal::disk::DiskFile;
use crate::journal::format::record::Sequence;
use crate::journal::format::segment::{later_version, u32_at, u64_at, version_mark};

const MAGIC: [u8; 8] = *b"tamismrk";
pub(crate) const FILE_NAME: &str = "mark";
const MARK_BYTES: usize = 36;
/// A writer takes nanoseconds to write the 36 bytes.
const ATTEMPTS_MAX: usize = 100;

/// The content of the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogMark {
    pub log_id: u64,
    pub synced: Sequence,
}

impl LogMark {
    pub const FILE_BYTES: u64 = 4096;

    fn encode(self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..16].copy_from_slice(&version_mark(MAGIC));
        bytes[16..24].copy_from_slice(&self.log_id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.synced.0.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..32]);
        bytes[32..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the mark: None when it is damaged; an error with the version when that is later than ours.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, u32> {
        if let Some(version) = later_version(bytes, MAGIC) {
            return Err(version);
        }
        let Some(bytes) = bytes.first_chunk::<MARK_BYTES>() else { return Ok(None) };
        let mark = Self { log_id: u64_at(bytes, 16), synced: Sequence(u64_at(bytes, 24)) };
        let whole = u32_at(bytes, 32) == crc32c::crc32c(&bytes[..32]) && bytes[..16] == version_mark(MAGIC);
        Ok(whole.then_some(mark))
    }

    pub fn write(self, file: &dyn DiskFile) -> io::Result<()> {
        file.write_at(0, &self.encode())
    }

    /// Reads the mark, again while a writer is in the middle of it.
    pub fn read(file: &dyn DiskFile) -> io::Result<Result<Option<Self>, u32>> {
        let mut bytes = [0; MARK_BYTES];
        for _ in 0..ATTEMPTS_MAX {
            let count = file.read_at(0, &mut bytes)?;
            let mark = Self::decode(&bytes[..count]);
            if mark != Ok(None) {
                return Ok(mark);
            }
        }
        Ok(Ok(None))
    }
}
