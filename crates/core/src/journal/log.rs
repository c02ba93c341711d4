//! A log: appending, reading one record, what is retained. Its other side is in `writing.rs`.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::committer::{CommitQueue, Committer};
use super::directory::{Directory, OpenError, SegmentFile};
use super::disk::Disk;
use super::footer::{HEAD_ENTRY_BYTES, RecordHead, SparsePoint, heads_of};
use super::reader::{LogReader, ReadError, Start};
use super::record::{HEAD_BYTES_MAX, HEADER_BYTES, Record, Sequence, decode, encode, length_of};
use super::recovery::{ActiveSegment, LogRecovery, RecoveredLog, SegmentMeta, recover};
use super::scan::{Damage, DamageKind, Scanner, WalkExtent, Walked, make_room, walk};
use super::segment::{DATA_START, Location, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SegmentName, TERMINATOR, capacity};
use super::statistics::{Counters, Statistics};
use super::writing::Writing;

/// How many files of segments are kept open for [`Log::read_at`].
const FILES_MAX: usize = 64;
/// A run that has this much is written by itself, so that no buffer grows far beyond it.
const RUN_BYTES: usize = 1024 * 1024;
/// How much of a record is read before its length is known.
const GUESS_BYTES: usize = 4096;

/// How a log is kept. What a directory has from other options stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// How large a segment is, [`SEGMENT_BYTES_MIN`] to [`SEGMENT_BYTES_MAX`]. Its file is allocated whole. A record may
    /// take half of it.
    pub segment_bytes: u32,
    /// Whether sealed segments have an index of the heads of their records, so that [`Log::for_each_head`] need not read
    /// the records. It takes 27 bytes a record and the head, on disk, and in memory for the segment that is written.
    pub index_heads: bool,
    /// How much may wait in memory to be written. Beyond that, [`Log::append`] refuses.
    pub pending_bytes_max: usize,
    /// What is removed when.
    pub retention: Retention,
    /// How many files of removed segments are kept to be used again.
    pub spares_max: usize,
    /// Whether the file of one further segment is there before it is needed. When the disk has no room for it,
    /// [`Log::is_full`] says so, and there is a segment left for what has to be written all the same.
    pub has_reserve: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * 1024 * 1024,
            index_heads: false,
            pending_bytes_max: 64 * 1024 * 1024,
            retention: Retention::default(),
            spares_max: 2,
            has_reserve: false,
        }
    }
}

/// What a log keeps. Whole segments are removed, oldest first, and never the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Segments are removed while the log has more than this; None keeps all.
    pub bytes_max: Option<u64>,
    /// A segment is removed when its newest record is this much older than [`Log::expire`] says; None keeps all.
    pub age_us_max: Option<i64>,
}

/// Why a record was not appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// It is larger than a log with these segments takes.
    TooLarge {
        /// How large it is.
        size_bytes: usize,
        /// How large it may be.
        max_bytes: usize,
    },
    /// `LogOptions::pending_bytes_max` wait to be written: the disk is full, or slower than the publishers.
    Busy,
    /// Writing or syncing has failed, with this reason, and nothing is written any more.
    Failed(String),
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size_bytes, max_bytes } => {
                write!(f, "a record of {size_bytes} bytes, where at most {max_bytes} fit")
            }
            Self::Busy => f.write_str("too much waits to be written"),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for AppendError {}

/// What an appended record got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its number.
    pub sequence: Sequence,
    /// Where it can be read once it is synced.
    pub location: Location,
}

/// An append-only log in a directory. Clones are the same log; any thread may use it.
#[derive(Clone)]
pub struct Log(Arc<SharedLog>);

/// What appenders, readers and the committer share.
pub(crate) struct SharedLog {
    pub directory: Directory,
    pub options: LogOptions,
    queue: Arc<CommitQueue>,
    appending: Mutex<Appending>,
    writing: Mutex<Writing>,
    catalog: Mutex<Catalog>,
    files: Mutex<VecDeque<Arc<SegmentFile>>>,
    synced: AtomicU64,
    pending_bytes: AtomicUsize,
    pub is_full: AtomicBool,
    pub is_stuck: AtomicBool,
    pub counters: Counters,
}

/// The appender's side: what was not yet taken, and where the next record will lie.
struct Appending {
    batch: PendingBatch,
    next: Sequence,
    ordinal: u32,
    offset: u32,
    heads_bytes: u32,
    capacity: u64,
    /// Whether the committer knows that there is something to do.
    is_queued: bool,
    retention: Retention,
    remove_through: Sequence,
    now_us: i64,
}

/// Records that are written together.
#[derive(Debug, Default)]
pub(crate) struct PendingBatch {
    pub runs: Vec<PendingRun>,
    /// Empty buffers for further runs: memory that has been used once need not be asked for again.
    pub buffers: Vec<Vec<u8>>,
}

/// Records that lie one behind the other in a segment, with the terminator behind them: what one call writes.
#[derive(Debug)]
pub(crate) struct PendingRun {
    pub ordinal: u32,
    pub offset: u32,
    pub first: Sequence,
    pub bytes: Vec<u8>,
}

/// Which segments there are.
pub(crate) struct Catalog {
    pub segments: VecDeque<SegmentMeta>,
    pub spares: Vec<String>,
    /// The sparse index of the last segment, as far as it is synced.
    sparse: Vec<SparsePoint>,
    first: Sequence,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// Open the log in `dir`, or begin one there. One process may do so at a time (`DirectoryLock`); others read.
    /// Everything that is found is synced before this returns, and readers see it.
    ///
    /// # Errors
    /// [`OpenError`]. Damage of records is none: [`LogRecovery::damage`] tells.
    ///
    /// # Panics
    /// When `options.segment_bytes` is out of its range.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: LogOptions,
        committer: &Committer,
    ) -> Result<(Self, LogRecovery), OpenError> {
        assert!((SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&options.segment_bytes), "segment_bytes");
        let recovered = recover(&disk, dir, options.index_heads)?;
        let recovery = recovered.summary();
        let shared = SharedLog::new(recovered, options, Arc::clone(committer.queue()));
        Ok((Self(Arc::new(shared)), recovery))
    }

    /// Append a record, to be written by the committer. `body` comes in parts, so that nobody has to join them.
    /// Never waits for the disk.
    ///
    /// # Errors
    /// [`AppendError`]; then no number was given.
    ///
    /// # Panics
    /// When `head` is longer than [`HEAD_BYTES_MAX`].
    pub fn append(&self, kind: u8, time_us: i64, head: &[u8], body: &[&[u8]]) -> Result<Appended, AppendError> {
        assert!(head.len() <= HEAD_BYTES_MAX, "a head of {} bytes", head.len());
        let size_bytes = HEADER_BYTES + head.len() + body.iter().map(|part| part.len()).sum::<usize>();
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
        let location = appending.place(size_bytes as u32, head.len(), &self.0.options);
        let sequence = appending.next;
        appending.next = sequence.next();
        let bytes = &mut appending.batch.runs.last_mut().expect("place begins one").bytes;
        encode(bytes, size_bytes as u32, sequence, time_us, kind, head);
        for part in body {
            bytes.extend_from_slice(part);
        }
        self.0.pending_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        self.queue(appending);
        Ok(Appended { sequence, location })
    }

    /// How large a record may be, its 28 bytes of header and its head included.
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        self.0.options.segment_bytes as usize / 2 - DATA_START as usize
    }

    /// The record at `location`, read into `buffer`. It has to be synced, and not be removed.
    ///
    /// # Errors
    /// It is gone or damaged, or the system says no.
    pub fn read_at<'a>(&self, location: Location, buffer: &'a mut Vec<u8>) -> Result<Record<'a>, ReadError> {
        self.0.read_at(location, buffer)
    }

    /// Read the log from `start` on, as far as it is synced at any time.
    ///
    /// # Errors
    /// What the system says.
    pub fn reader(&self, start: Start) -> Result<LogReader, ReadError> {
        LogReader::live(Arc::clone(&self.0), start)
    }

    /// Everything but the bodies, from the first record that is kept to the last one written: what recovery is made of.
    /// Reads the records themselves only in the last segment and where an index is damaged or was not kept. Returns what
    /// it had to go without; damage of bodies is found when they are read.
    ///
    /// # Errors
    /// What the system says.
    pub fn for_each_head(&self, visit: &mut dyn FnMut(RecordHead<'_>)) -> io::Result<Vec<Damage>> {
        self.0.for_each_head(visit)
    }

    /// The highest number that a crash cannot take any more; 0 for none.
    #[must_use]
    pub fn synced(&self) -> Sequence {
        self.0.synced()
    }

    /// The number that the next record gets.
    #[must_use]
    pub fn next_sequence(&self) -> Sequence {
        lock(&self.0.appending).next
    }

    /// The first number that is kept; the next one when there is none.
    #[must_use]
    pub fn first_sequence(&self) -> Sequence {
        lock(&self.0.catalog).first
    }

    /// How much the records that are kept take, headers included.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        lock(&self.0.catalog).segments.iter().map(|meta| meta.data_bytes).sum()
    }

    /// How much the files of the log take.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        lock(&self.0.catalog).segments.iter().map(|meta| meta.file_bytes).sum()
    }

    /// How many segments there are.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        lock(&self.0.catalog).segments.len()
    }

    /// The first sealed segment behind the one with this ordinal: its ordinal, and the number of its last record.
    #[must_use]
    pub fn sealed_after(&self, ordinal: u32) -> Option<(u32, Sequence)> {
        let catalog = lock(&self.0.catalog);
        let sealed = catalog.segments.len().saturating_sub(1);
        let place = catalog.segments.partition_point(|meta| meta.name.ordinal <= ordinal);
        let meta = catalog.segments.get(place).filter(|_| place < sealed)?;
        Some((meta.name.ordinal, meta.last))
    }

    /// What it has written since it was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.counters.read()
    }

    /// How much waits to be written.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.0.pending_bytes.load(Ordering::Relaxed)
    }

    /// Whether the disk has no room for a further segment. What was appended waits, once there is no reserve either;
    /// nothing is lost.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.is_full.load(Ordering::Acquire)
    }

    /// Whether what was appended waits for room on the disk.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.0.is_stuck.load(Ordering::Acquire)
    }

    /// Why nothing is written any more.
    #[must_use]
    pub fn failed(&self) -> Option<&str> {
        self.0.queue.failed()
    }

    /// Keep this from now on.
    #[cfg(test)]
    pub fn set_retention(&self, retention: Retention) {
        let mut appending = lock(&self.0.appending);
        appending.retention = retention;
        self.queue(appending);
    }

    /// Remove the segments whose records all have numbers up to `sequence`. The committer does it.
    pub fn remove_through(&self, sequence: Sequence) {
        let mut appending = lock(&self.0.appending);
        appending.remove_through = appending.remove_through.max(sequence);
        self.queue(appending);
    }

    /// Remove the segments that are too old at `now_us`. The committer does it.
    pub fn expire(&self, now_us: i64) {
        let mut appending = lock(&self.0.appending);
        appending.now_us = appending.now_us.max(now_us);
        self.queue(appending);
    }

    /// Tell the committer, if it does not know, that there is something to do.
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

impl Appending {
    /// Where a record of this size goes, in a segment of its own when the last one has no room.
    fn place(&mut self, length: u32, head_bytes: usize, options: &LogOptions) -> Location {
        let heads = if options.index_heads { (HEAD_ENTRY_BYTES + head_bytes) as u32 } else { 0 };
        let needed = u64::from(self.offset) + u64::from(length) + u64::from(self.heads_bytes) + u64::from(heads);
        // What was recovered may be smaller than the segments of now; one of them holds any record that is taken.
        let is_small = self.capacity < capacity(u64::from(options.segment_bytes));
        let is_new = needed > self.capacity && (self.offset > DATA_START || is_small);
        if is_new {
            self.ordinal += 1;
            self.offset = DATA_START;
            self.heads_bytes = 0;
            self.capacity = capacity(u64::from(options.segment_bytes));
        }
        if is_new || self.batch.runs.last().is_none_or(|run| run.bytes.len() >= RUN_BYTES) {
            self.end_run();
            let bytes = self.batch.buffers.pop().unwrap_or_default();
            let run = PendingRun { ordinal: self.ordinal, offset: self.offset, first: self.next, bytes };
            self.batch.runs.push(run);
        }
        let location = Location { segment: self.ordinal, offset: self.offset };
        self.offset += length;
        self.heads_bytes += heads;
        location
    }

    fn end_run(&mut self) {
        if let Some(run) = self.batch.runs.last_mut() {
            run.bytes.extend_from_slice(&TERMINATOR);
        }
    }
}

impl SharedLog {
    fn new(recovered: RecoveredLog, options: LogOptions, queue: Arc<CommitQueue>) -> Self {
        let next = recovered.next;
        let ordinal = recovered.segments.last().map_or(0, |meta| meta.name.ordinal);
        let (ordinal, offset, heads_bytes, capacity) = match &recovered.active {
            Some(ActiveSegment { segment, contents }) => {
                let heads = contents.heads.as_ref().map_or(0, Vec::len);
                (ordinal, contents.end, heads as u32, capacity(segment.file_bytes))
            }
            None => (ordinal + 1, DATA_START, 0, capacity(u64::from(options.segment_bytes))),
        };
        let sparse = recovered.active.as_ref().map_or_else(Vec::new, |active| active.contents.sparse.clone());
        let catalog =
            Catalog { first: recovered.first(), segments: recovered.segments.into(), spares: recovered.spares, sparse };
        let appending = Appending {
            batch: PendingBatch::default(),
            next,
            ordinal,
            offset,
            heads_bytes,
            capacity,
            is_queued: false,
            retention: options.retention,
            remove_through: Sequence(0),
            now_us: i64::MIN,
        };
        Self {
            directory: recovered.directory,
            options,
            queue,
            appending: Mutex::new(appending),
            writing: Mutex::new(Writing::new(recovered.active, recovered.mark_file, next.previous())),
            catalog: Mutex::new(catalog),
            files: Mutex::default(),
            synced: AtomicU64::new(next.previous().0),
            pending_bytes: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    pub fn synced(&self) -> Sequence {
        Sequence(self.synced.load(Ordering::Acquire))
    }

    pub fn writing(&self) -> MutexGuard<'_, Writing> {
        lock(&self.writing)
    }

    pub fn catalog(&self) -> MutexGuard<'_, Catalog> {
        lock(&self.catalog)
    }

    /// What was appended, in exchange for an empty batch.
    pub fn take_batch(&self, empty: PendingBatch) -> PendingBatch {
        let mut appending = lock(&self.appending);
        appending.end_run();
        appending.is_queued = false;
        std::mem::replace(&mut appending.batch, empty)
    }

    /// So much less waits.
    pub fn no_longer_pending(&self, size_bytes: usize) {
        self.pending_bytes.fetch_sub(size_bytes, Ordering::Relaxed);
    }

    pub fn publish_synced(&self, sequence: Sequence) {
        self.synced.store(sequence.0, Ordering::Release);
    }

    /// Bring what the catalog says of the last segment up to what is written.
    pub fn update_catalog(&self, active: &ActiveSegment) {
        let mut catalog = self.catalog();
        let catalog = &mut *catalog;
        let Some(meta) = catalog.segments.back_mut() else { return };
        let contents = &active.contents;
        if contents.count > 0 {
            meta.last = contents.last;
            meta.time_max_us = contents.time_max_us;
            meta.data_bytes = u64::from(contents.end);
        }
        let known = catalog.sparse.len();
        catalog.sparse.extend_from_slice(contents.sparse.get(known..).unwrap_or_default());
    }

    /// Begin the entry of a new segment.
    pub fn add_segment(&self, meta: SegmentMeta) {
        let mut catalog = self.catalog();
        catalog.sparse.clear();
        if catalog.segments.is_empty() {
            catalog.first = meta.name.first;
        }
        catalog.segments.push_back(meta);
    }

    /// The oldest segment when nobody wants it any more.
    pub fn first_unwanted(&self) -> Option<SegmentName> {
        let (retention, remove_through, now_us) = {
            let appending = lock(&self.appending);
            (appending.retention, appending.remove_through, appending.now_us)
        };
        let catalog = self.catalog();
        if catalog.segments.len() < 2 {
            return None;
        }
        let oldest = &catalog.segments[0];
        let bytes: u64 = catalog.segments.iter().map(|meta| meta.data_bytes).sum();
        let is_unwanted = oldest.last <= remove_through
            || retention.bytes_max.is_some_and(|max| bytes > max)
            || retention.age_us_max.is_some_and(|max| oldest.time_max_us < now_us.saturating_sub(max));
        is_unwanted.then_some(oldest.name)
    }

    /// The oldest segment is gone; its file may wait under another name.
    pub fn forget_first(&self, name: SegmentName, spare: Option<String>) {
        lock(&self.files).retain(|segment| segment.name != name);
        let mut catalog = self.catalog();
        catalog.segments.pop_front();
        catalog.first = catalog.segments.front().map_or(catalog.first, |meta| meta.name.first);
        catalog.spares.extend(spare);
    }

    pub fn has_spare(&self) -> bool {
        !self.catalog().spares.is_empty()
    }

    pub fn add_spare(&self, name: String) {
        self.catalog().spares.push(name);
    }

    pub fn take_spare(&self) -> Option<String> {
        self.catalog().spares.pop()
    }

    pub fn names(&self) -> Vec<SegmentName> {
        self.catalog().segments.iter().map(|meta| meta.name).collect()
    }

    /// The sparse index of the segment `name` when it is the last, as far as it is synced.
    pub fn sparse_of(&self, name: SegmentName) -> Option<Vec<SparsePoint>> {
        let catalog = self.catalog();
        (catalog.segments.back()?.name == name).then(|| catalog.sparse.clone())
    }

    fn read_at<'a>(&self, location: Location, buffer: &'a mut Vec<u8>) -> Result<Record<'a>, ReadError> {
        let segment = self.file_of(location.segment)?;
        let offset = u64::from(location.offset);
        make_room(buffer, GUESS_BYTES);
        let mut count = segment.file.read_at(offset, buffer)?;
        let limit = segment.file_bytes.saturating_sub(offset);
        let length = length_of(&buffer[..count]).unwrap_or(0) as usize;
        if length > count && length as u64 <= limit {
            buffer.resize(length, 0);
            count += segment.file.read_at(offset + count as u64, &mut buffer[count..])?;
        }
        match decode(&buffer[..count], limit, segment.seed) {
            Ok(decoded) => Ok(decoded.record),
            // The file may have been taken for another segment while it was read.
            Err(_) if !self.names().contains(&segment.name) => Err(ReadError::Gone(location)),
            Err(_) => Err(ReadError::Damaged(location)),
        }
    }

    fn file_of(&self, ordinal: u32) -> Result<Arc<SegmentFile>, ReadError> {
        if let Some(segment) = lock(&self.files).iter().find(|segment| segment.name.ordinal == ordinal) {
            return Ok(Arc::clone(segment));
        }
        let gone = ReadError::Gone(Location { segment: ordinal, offset: 0 });
        let name = self.names().into_iter().find(|name| name.ordinal == ordinal).ok_or(gone)?;
        let segment = Arc::new(self.directory.open(name)?);
        let mut files = lock(&self.files);
        files.truncate(FILES_MAX - 1);
        files.push_front(Arc::clone(&segment));
        Ok(segment)
    }

    fn for_each_head(&self, visit: &mut dyn FnMut(RecordHead<'_>)) -> io::Result<Vec<Damage>> {
        let writing = self.writing();
        let mut damage = Vec::new();
        let metas: Vec<SegmentMeta> = self.catalog().segments.iter().cloned().collect();
        for meta in &metas {
            let active = writing.active.as_ref().filter(|active| active.segment.name == meta.name);
            match active.and_then(|active| active.contents.heads.as_ref()) {
                Some(heads) => heads_of(heads, meta.name.ordinal).for_each(&mut *visit),
                None => self.heads_of_segment(meta, visit, &mut damage)?,
            }
        }
        Ok(damage)
    }

    /// The heads of a segment from its index, or from its records.
    fn heads_of_segment(
        &self,
        meta: &SegmentMeta,
        visit: &mut dyn FnMut(RecordHead<'_>),
        damage: &mut Vec<Damage>,
    ) -> io::Result<()> {
        let (segment, ordinal) = (self.directory.open(meta.name)?, meta.name.ordinal);
        let trailer = segment.trailer()?;
        if let Some(trailer) = &trailer {
            if let Some(heads) = trailer.read_heads(segment.file.as_ref(), segment.file_bytes)? {
                heads_of(&heads, ordinal).for_each(visit);
                return Ok(());
            }
            if trailer.has_heads() {
                damage.push(Damage::of_index(DamageKind::Index, ordinal, segment.file_bytes, meta.name.first));
            }
        }
        let mut scanner = Scanner::new(Arc::clone(&segment.file), segment.seed, segment.file_bytes);
        let extent = WalkExtent::Sealed { end: meta.data_bytes, last: meta.last };
        walk(&mut scanner, ordinal, meta.name.first, extent, &mut |found| match found {
            Walked::Record(offset, decoded) => visit(RecordHead {
                sequence: decoded.record.sequence,
                time_us: decoded.record.time_us,
                kind: decoded.record.kind,
                head: decoded.record.head,
                location: Location { segment: ordinal, offset: offset as u32 },
                size_bytes: decoded.length,
            }),
            Walked::Damage(found) => damage.push(found),
        })?;
        Ok(())
    }
}
