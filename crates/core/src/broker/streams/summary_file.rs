//! The summaries of a sealed segment: one for each run of messages, in a file beside the segment.
//!
//! The file is a hint. Where it is missing, damaged or of another segment, the segment is read, and summarized again.
//!
//! ```text
//! header 48 B: magic | version u32 | runs u32 | log u64 | segment u32 | 0 u32 | first number u64 | last number u64
//! for each run, 32 B: first number u64 | last number u64 | offset u32 | size u32 | checksum u32 | 0 u32
//! checksum of all that, u32 | summaries
//! ```
//! A run of size 0 has no summary, and is always read.

use std::sync::Arc;

use crate::journal::{DiskFile, FileCount, Log, LogItem, ReadError, SegmentNumber, Sequence, Start};

use crate::broker::streams::stream_record::StreamRecord;
use crate::broker::streams::summary::{RunCondition, Summary, SummaryBuilder};

const MAGIC: [u8; 8] = *b"tamissum";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 48;
const RUN_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 4;
/// The maximum number of runs: more than the largest segment has.
const RUNS_MAX: usize = 1 << 14;

/// The sealed segment that a file is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub log_id: u64,
    pub ordinal: SegmentNumber,
    pub first: Sequence,
    pub last: Sequence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: Sequence,
    last: Sequence,
    offset: u32,
    size_bytes: u32,
    checksum: u32,
}

/// The open file of a segment's summaries.
#[derive(Debug)]
pub(crate) struct SummaryFile {
    file: Arc<dyn DiskFile>,
    runs: Vec<Run>,
    _count: FileCount,
}

/// The content of the summary of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The messages up to this number must be read.
    Read(Sequence),
    /// None of the messages up to this number meets the condition.
    Skip(Sequence),
    /// The summary is damaged.
    Damaged,
}

impl Sealed {
    /// The sealed segment of a log that has this number.
    pub fn at(log: &Log, sequence: Sequence) -> Option<Self> {
        let (ordinal, first, last) = log.sealed_at(sequence)?;
        Some(Self { log_id: log.id(), ordinal, first, last })
    }
}

impl SummaryFile {
    /// Open the summaries of a segment; None when there are none, or they are damaged or of another segment.
    pub fn open(log: &Log, sealed: Sealed) -> Option<Self> {
        let file = log.open_summary(sealed.ordinal).ok()?;
        let mut header = [0; HEADER_BYTES];
        if file.read_at(0, &mut header).ok()? < HEADER_BYTES {
            return None;
        }
        let count = u32::from_le_bytes(*header[12..].first_chunk()?) as usize;
        if count > RUNS_MAX || header != encode_header(sealed, count) {
            return None;
        }
        let mut bytes = vec![0; count * RUN_BYTES + CHECKSUM_BYTES];
        if file.read_at(HEADER_BYTES as u64, &mut bytes).ok()? < bytes.len() {
            return None;
        }
        let (runs, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        let expected = crc32c::crc32c_append(crc32c::crc32c(&header), runs);
        let (runs, _) = runs.as_chunks::<RUN_BYTES>();
        let runs = runs.iter().map(Run::decode).collect();
        (u32::from_le_bytes(*checksum) == expected).then(|| Self { file, runs, _count: log.count_reader_file() })
    }

    /// The summary of the run that has this number.
    pub fn look(&self, sequence: Sequence, condition: &RunCondition, room: &mut Vec<u8>) -> Verdict {
        let index = self.runs.partition_point(|run| run.last < sequence);
        let Some(run) = self.runs.get(index).filter(|run| run.first <= sequence) else { return Verdict::Damaged };
        if run.size_bytes == 0 {
            return Verdict::Read(run.last);
        }
        room.resize(run.size_bytes as usize, 0);
        let is_read = self.file.read_at(u64::from(run.offset), room).is_ok_and(|size| size == room.len());
        match Summary::decode(room).filter(|_| is_read && crc32c::crc32c(room) == run.checksum) {
            Some(summary) if summary.may_meet(condition) => Verdict::Read(run.last),
            Some(_) => Verdict::Skip(run.last),
            None => Verdict::Damaged,
        }
    }
}

impl Run {
    fn encode(&self) -> [u8; RUN_BYTES] {
        let mut bytes = [0; RUN_BYTES];
        bytes[..8].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.last.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.offset.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.size_bytes.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; RUN_BYTES]) -> Self {
        let word = |offset: usize| u32::from_le_bytes(*bytes[offset..].first_chunk().expect("long enough"));
        let long = |offset: usize| u64::from_le_bytes(*bytes[offset..].first_chunk().expect("long enough"));
        Self {
            first: Sequence(long(0)),
            last: Sequence(long(8)),
            offset: word(16),
            size_bytes: word(20),
            checksum: word(24),
        }
    }
}

fn encode_header(sealed: Sealed, runs: usize) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(runs as u32).to_le_bytes());
    bytes[16..24].copy_from_slice(&sealed.log_id.to_le_bytes());
    bytes[24..28].copy_from_slice(&sealed.ordinal.0.to_le_bytes());
    bytes[32..40].copy_from_slice(&sealed.first.0.to_le_bytes());
    bytes[40..48].copy_from_slice(&sealed.last.0.to_le_bytes());
    bytes
}

/// The summaries of a segment, as a file has them, in runs of about `run_bytes`. None when `is_wanted` says so on the way,
/// or the segment is gone.
///
/// # Errors
/// The file system reports an error.
pub(crate) fn summarize(
    log: &Log,
    sealed: Sealed,
    run_bytes: usize,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Option<Vec<u8>>, ReadError> {
    let mut reader = log.reader(Start::Sequence(sealed.first))?;
    let mut builder = SummaryBuilder::default();
    let (mut runs, mut summaries) = (Vec::new(), Vec::new());
    let (mut first, mut size_bytes, mut is_whole) = (sealed.first, 0, true);
    while reader.position() <= sealed.last {
        match reader.next()? {
            Some(LogItem::Record(record)) => {
                size_bytes += record.body.len();
                match StreamRecord::decode(record.body) {
                    Ok(record) => builder.add(&record),
                    Err(_) => is_whole = false,
                }
            }
            Some(LogItem::Damaged(_)) => is_whole = false, // who reads it reports it
            Some(LogItem::Missed(..)) | None => return Ok(None),
        }
        let last = reader.position().previous();
        if size_bytes >= run_bytes || last >= sealed.last {
            let summary = builder.take().filter(|_| is_whole).unwrap_or_default();
            let checksum = crc32c::crc32c(&summary);
            runs.push(Run { first, last, offset: summaries.len() as u32, size_bytes: summary.len() as u32, checksum });
            summaries.extend(summary);
            (first, size_bytes, is_whole) = (last.next(), 0, true);
            if !is_wanted() || runs.len() > RUNS_MAX {
                return Ok(None);
            }
        }
    }
    let mut bytes = encode_header(sealed, runs.len()).to_vec();
    let begin = (HEADER_BYTES + runs.len() * RUN_BYTES + CHECKSUM_BYTES) as u32;
    for mut run in runs {
        run.offset += begin;
        bytes.extend(run.encode());
    }
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes.extend(summaries);
    Ok(Some(bytes))
}

/// Write the summaries of a segment, unless there are some.
///
/// # Errors
/// The file system reports an error.
pub(crate) fn provide(
    log: &Log,
    sealed: Sealed,
    run_bytes: usize,
    is_wanted: &dyn Fn() -> bool,
) -> Result<(), ReadError> {
    if SummaryFile::open(log, sealed).is_none()
        && let Some(bytes) = summarize(log, sealed, run_bytes, is_wanted)?
    {
        log.write_summary(sealed.ordinal, &bytes).map_err(ReadError::Io)?;
    }
    Ok(())
}
