//! The public face of a log: appending records, reading one, and setting what is kept.
//!
//! The folder `writing` has the state behind it.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::{fmt, io};

use crate::journal::damage::Damage;
use crate::journal::disk::{Disk, DiskFile, Wait};
use crate::journal::errors::{AppendError, OpenError, ReadError};
use crate::journal::format::footer::RecordHead;
use crate::journal::format::record::{HEAD_BYTES_MAX, HEADER_BYTES, Record, Sequence, encode};
use crate::journal::format::segment::{
    DATA_START, Location, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SegmentNumber, summary_name,
};
use crate::journal::options::LogOptions;
use crate::journal::reader::{LogReader, Start};
use crate::journal::reader_files::FileCount;
use crate::journal::recovery::recover::{LogRecovery, recover};
use crate::journal::statistics::Statistics;
use crate::journal::writing::appending::{Appending, RecordBody};
use crate::journal::writing::committer::{CommitQueue, Committer};
use crate::journal::writing::shared::SharedLog;
use crate::mutex::lock;

/// The number and location of a record that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The sequence number of the record.
    pub sequence: Sequence,
    /// The location at which the record can be read once it is synced.
    pub location: Location,
}

/// An append-only log in a directory. Clones are the same log; any thread may use it.
#[derive(Clone)]
pub struct Log(Arc<SharedLog>);

impl Log {
    /// Opens the log in `dir`, or begins one there. Only one process may do so at a time (`DirectoryLock`); others may
    /// read. All recovered records are synced before this returns, and readers see them.
    ///
    /// # Errors
    /// [`OpenError`]. Damaged records are no error: [`LogRecovery::damage`] lists them.
    ///
    /// # Panics
    /// When `options.segment_bytes` is out of its range.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: LogOptions,
        committer: &Committer,
    ) -> Result<(Self, LogRecovery), OpenError> {
        Self::open_in(disk, dir, options, committer.queue())
    }

    /// Opens the log in `dir`, or begins one there, for the committer with this queue.
    pub(crate) fn open_in(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: LogOptions,
        queue: &Arc<CommitQueue>,
    ) -> Result<(Self, LogRecovery), OpenError> {
        assert!((SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&options.segment_bytes), "segment_bytes");
        let options = options.in_whole_pages();
        let recovered = recover(&disk, dir, options.index_heads)?;
        let recovery = recovered.summary();
        let shared = SharedLog::new(recovered, options, Arc::clone(queue));
        Ok((Self(Arc::new(shared)), recovery))
    }

    /// Appends a record, which the committer will write. `body` comes in parts, so that the caller need not join them.
    /// Never waits for the disk.
    ///
    /// # Errors
    /// [`AppendError`]; no sequence number was used then.
    ///
    /// # Panics
    /// When `head` is longer than [`HEAD_BYTES_MAX`].
    pub fn append(&self, kind: u8, time_us: i64, head: &[u8], body: &[&[u8]]) -> Result<Appended, AppendError> {
        self.append_record((kind, time_us, head), RecordBody::Parts(body))
    }

    /// Appends a record whose body others may have, too: then it is not copied.
    ///
    /// # Errors
    /// As [`Log::append`].
    ///
    /// # Panics
    /// As [`Log::append`].
    #[inline(always)]
    pub(crate) fn append_record(
        &self,
        (kind, time_us, head): (u8, i64, &[u8]),
        body: RecordBody<'_>,
    ) -> Result<Appended, AppendError> {
        assert!(head.len() <= HEAD_BYTES_MAX, "a head of {} bytes", head.len());
        let size_bytes = HEADER_BYTES + head.len() + body.size_bytes();
        let max_bytes = self.record_bytes_max();
        if size_bytes > max_bytes {
            return Err(AppendError::TooLarge { size_bytes, max_bytes });
        }
        if let Some(reason) = self.failed() {
            return Err(AppendError::Failed(reason.to_owned()));
        }
        let pending = self.pending_bytes();
        if pending > 0 && pending + size_bytes > self.0.options.pending_bytes_max {
            return Err(AppendError::Busy);
        }
        let mut appending = lock(&self.0.appending);
        let location = appending.locate(size_bytes as u32, head.len(), &self.0.options);
        let sequence = appending.next;
        appending.next = sequence.next();
        let run = appending.batch.runs.last_mut().expect("locate begins one");
        encode(&mut run.bytes, size_bytes as u32, sequence, time_us, kind, head);
        run.put_body(body);
        self.0.pending_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        if let elsewhere_bytes @ 1.. = body.elsewhere_bytes() {
            self.0.elsewhere_bytes.fetch_add(elsewhere_bytes, Ordering::Relaxed);
        }
        self.queue(appending);
        Ok(Appended { sequence, location })
    }

    /// The maximum size of a record, including its header of 28 bytes and its head.
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        self.0.options.segment_bytes as usize / 2 - DATA_START as usize
    }

    /// Reads the record at `location` into `buffer`, which it fills: its body is the end of it. The record must be synced and
    /// not yet removed.
    ///
    /// # Errors
    /// The record is gone or damaged, or the file system reports an error.
    pub fn read_at<'a>(&self, location: Location, buffer: &'a mut Vec<u8>) -> Result<Record<'a>, ReadError> {
        self.read(location, Wait::ForDisk, buffer)
    }

    /// The same, and it may be that it does not wait for the disk.
    ///
    /// # Errors
    /// As [`Log::read_at`], and [`ReadError::would_wait`].
    pub fn read<'a>(&self, location: Location, wait: Wait, buffer: &'a mut Vec<u8>) -> Result<Record<'a>, ReadError> {
        self.0.read_at(location, wait, buffer)
    }

    /// Reads the log from `start` on, always as far as it is synced.
    ///
    /// # Errors
    /// The file system reports an error.
    pub fn reader(&self, start: Start) -> Result<LogReader, ReadError> {
        LogReader::live(Arc::clone(&self.0), start)
    }

    /// Visits the heads of all records, from the first that is kept to the last one written; the broker recovers from
    /// them. Records themselves are read only in the last segment, and where an index is damaged or was not kept.
    /// Returns the damage that was met; a damaged body is noticed only when it is read.
    ///
    /// # Errors
    /// The file system reports an error.
    pub fn for_each_head(&self, visit: &mut dyn FnMut(RecordHead<'_>)) -> io::Result<Vec<Damage>> {
        self.0.for_each_head(visit)
    }

    /// The highest sequence number that no crash can take back; 0 for none.
    #[must_use]
    pub fn synced(&self) -> Sequence {
        self.0.synced()
    }

    /// The sequence number that the next record gets.
    #[must_use]
    pub fn next_sequence(&self) -> Sequence {
        lock(&self.0.appending).next
    }

    /// The first sequence number that is kept; the next one when no record is kept.
    #[must_use]
    pub fn first_sequence(&self) -> Sequence {
        lock(&self.0.catalog).first
    }

    /// The bytes that the records occupy, including their headers.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        lock(&self.0.catalog).segments.iter().map(|meta| meta.data_bytes).sum()
    }

    /// The total size of the log's files.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        lock(&self.0.catalog).segments.iter().map(|meta| meta.file_bytes).sum()
    }

    /// The number of segments.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        lock(&self.0.catalog).segments.len()
    }

    /// The first sealed segment after the one with this number: its own number, and the sequence number of its last
    /// record.
    #[must_use]
    pub fn sealed_after(&self, ordinal: SegmentNumber) -> Option<(SegmentNumber, Sequence)> {
        let catalog = lock(&self.0.catalog);
        let sealed = catalog.segments.len().saturating_sub(1);
        let index = catalog.segments.partition_point(|meta| meta.name.ordinal <= ordinal);
        let meta = catalog.segments.get(index).filter(|_| index < sealed)?;
        Some((meta.name.ordinal, meta.last))
    }

    /// The sealed and synced segment that has this sequence number: its own number, and those of its first and last
    /// record.
    #[must_use]
    pub fn sealed_at(&self, sequence: Sequence) -> Option<(SegmentNumber, Sequence, Sequence)> {
        let synced = self.synced();
        let catalog = lock(&self.0.catalog);
        let sealed = catalog.segments.len().saturating_sub(1);
        let index = catalog.segments.partition_point(|meta| meta.name.first <= sequence).checked_sub(1)?;
        let meta = catalog.segments.get(index).filter(|meta| index < sealed && meta.last <= synced)?;
        (sequence <= meta.last).then_some((meta.name.ordinal, meta.name.first, meta.last))
    }

    /// The number of the last segment that is sealed; 0 for none.
    #[must_use]
    pub fn last_sealed(&self) -> SegmentNumber {
        let catalog = lock(&self.0.catalog);
        let index = catalog.segments.len().checked_sub(2);
        index.and_then(|index| catalog.segments.get(index)).map_or(SegmentNumber(0), |meta| meta.name.ordinal)
    }

    /// The identity of the log: another log that is created in the same directory has another.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.directory.log_id
    }

    /// Opens the summary of a segment: bytes that the log's user has derived from its records. It is a hint: it may be
    /// missing or damaged at any time.
    ///
    /// # Errors
    /// There is none, or the file system reports an error.
    pub fn open_summary(&self, ordinal: SegmentNumber) -> io::Result<Arc<dyn DiskFile>> {
        self.0.directory.disk.open(&self.0.directory.path.join(summary_name(ordinal)))
    }

    /// Counts a file that a reader has open beside those of segments, as long as it has the result.
    #[must_use]
    pub fn count_reader_file(&self) -> FileCount {
        self.0.reader_files.count()
    }

    /// Writes the summary of a segment, which goes with it. Nothing is synced.
    ///
    /// # Errors
    /// The file system reports an error.
    pub fn write_summary(&self, ordinal: SegmentNumber, bytes: &[u8]) -> io::Result<()> {
        let directory = &self.0.directory;
        let path = directory.path.join(summary_name(ordinal));
        directory.remove_summary(ordinal);
        let written = directory.disk.create(&path, bytes.len() as u64).and_then(|file| file.write_at(0, bytes));
        // The segment, or the whole log, may have been removed meanwhile.
        let is_wanted =
            !self.is_abandoned() && lock(&self.0.catalog).segments.iter().any(|meta| meta.name.ordinal == ordinal);
        if written.is_err() || !is_wanted {
            directory.remove_summary(ordinal);
        }
        written
    }

    /// Removes the summary of a segment.
    pub fn remove_summary(&self, ordinal: SegmentNumber) {
        self.0.directory.remove_summary(ordinal);
    }

    /// Counts of what the log has written since it was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.counters.read()
    }

    /// The memory of the records that wait to be written. What others have too counts once among all of them.
    #[must_use]
    pub fn pending_memory_bytes(&self) -> usize {
        self.pending_bytes().saturating_sub(self.0.elsewhere_bytes.load(Ordering::Relaxed))
    }

    /// The bytes that wait to be written.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.0.pending_bytes.load(Ordering::Relaxed)
    }

    /// The memory of the heads of the segment that is written, until it is full: less than half of its size.
    #[must_use]
    pub fn heads_memory_bytes(&self) -> usize {
        self.0.heads_bytes.load(Ordering::Relaxed)
    }

    /// Whether the disk has no room for a further segment. Once the reserve is used as well, appended records wait;
    /// nothing is lost.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.is_full.load(Ordering::Acquire)
    }

    /// Whether appended records wait for room on the disk.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.0.is_stuck.load(Ordering::Acquire)
    }

    /// The reason why nothing is written any more.
    #[must_use]
    pub fn failed(&self) -> Option<&str> {
        self.0.queue.failed()
    }

    /// Replaces the retention from now on.
    #[cfg(test)]
    pub fn set_retention(&self, retention: crate::journal::Retention) {
        let mut appending = lock(&self.0.appending);
        appending.retention = retention;
        self.queue(appending);
    }

    /// Asks the committer to remove the segments whose records all have numbers up to `sequence`.
    pub fn remove_through(&self, sequence: Sequence) {
        let mut appending = lock(&self.0.appending);
        appending.remove_through = appending.remove_through.max(sequence);
        self.queue(appending);
    }

    /// Asks the committer to remove the segments that are too old at `now_us`.
    pub fn expire(&self, now_us: i64) {
        let mut appending = lock(&self.0.appending);
        // Not the latest of all times: a clock that was ahead would make everything new too old.
        appending.now_us = now_us;
        self.queue(appending);
    }

    /// Stops all writing, since the files are about to be removed: what waits to be written is dropped.
    pub fn abandon(&self) {
        self.0.is_abandoned.store(true, Ordering::Release);
    }

    /// Whether all writing was stopped for good, since the files are about to be removed.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.0.is_abandoned.load(Ordering::Acquire)
    }

    /// Tells the committer that there is something to do, unless it knows.
    fn queue(&self, mut appending: MutexGuard<'_, Appending>) {
        if !std::mem::replace(&mut appending.is_queued, true) {
            drop(appending);
            self.0.queue.add(Arc::clone(&self.0));
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Log in {}, synced through {}", self.0.directory.path.display(), self.synced())
    }
}
