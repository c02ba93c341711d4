//! Writes batches of records into the active segment, and seals it.

use std::collections::VecDeque;
use std::io;

use crate::journal::disk::DiskFile;
use crate::journal::format::heads::Heads;
use crate::journal::format::record::{SYNCED_BEFORE, Sequence, length_of, parse, seal};
use crate::journal::format::segment::TERMINATOR;
use crate::journal::recovery::recover::ActiveSegment;
use crate::journal::writing::appending::PendingRun;
use crate::journal::writing::mark_file::MarkFile;

/// The maximum number of buffers of 1 MiB that are kept for further batches.
const BUFFERS_MAX: usize = 8;
/// A buffer that a large record has grown beyond this is freed.
const BUFFER_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The committer's side of a log.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    pub active: Option<ActiveSegment>,
    pub mark: MarkFile,
    /// Runs that were taken and are not yet written: only while the disk is full.
    pub runs: VecDeque<PendingRun>,
    /// Empty buffers for the next batch.
    pub buffers: Vec<Vec<u8>>,
    /// Whether written bytes are not yet synced.
    pub is_unsynced: bool,
    /// The sequence number of the last record written.
    pub written: Sequence,
}

impl SegmentWriter {
    pub fn new(active: Option<ActiveSegment>, mark: MarkFile, written: Sequence) -> Self {
        Self { active, mark, runs: VecDeque::new(), buffers: Vec::new(), is_unsynced: false, written }
    }

    /// Writes a run of records, which lack only their checksums, and returns its buffer.
    pub fn put(&mut self, run: PendingRun) -> io::Result<Vec<u8>> {
        let run_offset = run.offset;
        let (mut bytes, last_body) = run.into_parts();
        let Some(active) = &mut self.active else { return Ok(bytes) };
        let mut offset = 0;
        let end = if last_body.is_some() { bytes.len() } else { bytes.len() - TERMINATOR.len() };
        while offset < end {
            let length = length_of(&bytes[offset..]).unwrap_or(0) as usize;
            let record = &mut bytes[offset..end.min(offset + length)];
            let rest = last_body.as_deref().filter(|_| record.len() < length).map_or(&[][..], Vec::as_slice);
            seal(record, rest, if self.is_unsynced { 0 } else { SYNCED_BEFORE }, active.segment.seed);
            self.is_unsynced = true;
            let decoded = parse(record).expect("a record that was just encoded");
            active.contents.push(run_offset + offset as u32, &decoded);
            offset += length;
        }
        let (file, offset) = (&active.segment.file, u64::from(run_offset));
        file.write_at(offset, &bytes)?;
        if let Some(body) = last_body {
            // A large body is written from where it is, since to copy it takes as long.
            let offset = offset + bytes.len() as u64;
            file.write_at(offset, &body)?;
            file.write_at(offset + body.len() as u64, &TERMINATOR)?;
        }
        self.written = active.contents.last;
        Ok(bytes)
    }

    pub fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS_MAX && buffer.capacity() <= BUFFER_BYTES_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Writes the footer of the active segment, and returns its file, which must be synced.
    pub fn seal(&mut self) -> io::Result<Option<&dyn DiskFile>> {
        let Some(active) = &mut self.active else { return Ok(None) };
        let mut end = active.contents.encode_end(active.segment.seed);
        let room = active.segment.file_bytes - u64::from(active.contents.end);
        if (active.contents.heads.as_ref().map_or(0, Heads::size_bytes) + end.len()) as u64 > room {
            // The segment was begun without an index of heads, so no room was reserved for one.
            active.contents.heads = None;
            end = active.contents.encode_end(active.segment.seed);
        }
        let file = active.segment.file.as_ref();
        let end_offset = active.segment.file_bytes - end.len() as u64;
        let mut offset = end_offset - active.contents.heads.as_ref().map_or(0, Heads::size_bytes) as u64;
        for piece in active.contents.heads.iter().flat_map(Heads::pieces) {
            file.write_at(offset, piece)?;
            offset += piece.len() as u64;
        }
        file.write_at(end_offset, &end)?;
        Ok(Some(file))
    }

    /// The memory of the heads of the active segment.
    pub fn heads_memory_bytes(&self) -> usize {
        let heads = self.active.as_ref().and_then(|active| active.contents.heads.as_ref());
        heads.map_or(0, Heads::memory_bytes)
    }
}
