//! The state of a log that appenders, readers and the committer share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::journal::blocks::Blocks;
use crate::journal::format::footer::SparsePoint;
use crate::journal::format::heads::Heads;
use crate::journal::format::record::Sequence;
use crate::journal::format::segment::{DATA_START, SegmentName, SegmentNumber};
use crate::journal::options::LogOptions;
use crate::journal::reader_files::ReaderFiles;
use crate::journal::recovery::directory::{Directory, SegmentFile};
use crate::journal::recovery::recover::{ActiveSegment, RecoveredLog, SegmentMeta};
use crate::journal::statistics::Counters;
use crate::journal::writing::appending::{Appending, PendingBatch};
use crate::journal::writing::catalog::Catalog;
use crate::journal::writing::committer::CommitQueue;
use crate::journal::writing::segment_writer::SegmentWriter;
use crate::mutex::lock;

/// The state that appenders, readers and the committer share.
pub(crate) struct SharedLog {
    pub directory: Directory,
    pub options: LogOptions,
    pub queue: Arc<CommitQueue>,
    pub appending: Mutex<Appending>,
    pub writing: Mutex<SegmentWriter>,
    pub catalog: Mutex<Catalog>,
    pub files: Mutex<VecDeque<Arc<SegmentFile>>>,
    /// The blocks that readers have in memory.
    pub blocks: Arc<Blocks>,
    /// The files that readers have open.
    pub reader_files: ReaderFiles,
    synced: AtomicU64,
    pub pending_bytes: AtomicUsize,
    /// The part of them that others count.
    pub elsewhere_bytes: AtomicUsize,
    /// The memory of the heads of the active segment.
    pub heads_bytes: AtomicUsize,
    pub is_full: AtomicBool,
    pub is_stuck: AtomicBool,
    /// Whether nothing is to be written any more, since the files are about to be removed.
    pub is_abandoned: AtomicBool,
    pub counters: Counters,
}

impl SharedLog {
    pub fn new(recovered: RecoveredLog, options: LogOptions, queue: Arc<CommitQueue>) -> Self {
        let next = recovered.next;
        let ordinal = recovered.segments.last().map_or_else(SegmentNumber::default, |meta| meta.name.ordinal);
        // A segment that is missing for good had a number, too.
        let begun = recovered.mark.mark().last.map_or(ordinal, |last| last.ordinal.max(ordinal));
        let (ordinal, offset, heads_bytes, segment_bytes) = match &recovered.active {
            Some(ActiveSegment { segment, contents }) => {
                let heads = contents.heads.as_ref().map_or(0, Heads::size_bytes);
                (ordinal, contents.end, heads as u32, segment.file_bytes)
            }
            None => (begun, DATA_START, 0, 0),
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
            segment_bytes,
            is_queued: false,
            retention: options.retention,
            remove_through: Sequence(0),
            now_us: i64::MIN,
        };
        Self {
            directory: recovered.directory,
            options,
            blocks: Arc::new(Blocks::counted_in(&queue.block_bytes)),
            reader_files: ReaderFiles::counted_in(&queue.reader_files),
            queue,
            appending: Mutex::new(appending),
            writing: Mutex::new(SegmentWriter::new(recovered.active, recovered.mark, next.previous())),
            catalog: Mutex::new(catalog),
            files: Mutex::default(),
            synced: AtomicU64::new(next.previous().0),
            pending_bytes: AtomicUsize::new(0),
            elsewhere_bytes: AtomicUsize::new(0),
            heads_bytes: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    pub fn synced(&self) -> Sequence {
        Sequence(self.synced.load(Ordering::Acquire))
    }

    pub fn writing(&self) -> MutexGuard<'_, SegmentWriter> {
        lock(&self.writing)
    }

    pub fn catalog(&self) -> MutexGuard<'_, Catalog> {
        lock(&self.catalog)
    }

    /// Takes the appended records, in exchange for an empty batch.
    pub fn take_batch(&self, empty: PendingBatch) -> PendingBatch {
        let mut appending = lock(&self.appending);
        appending.end_run();
        appending.is_queued = false;
        std::mem::replace(&mut appending.batch, empty)
    }

    /// Subtracts written bytes from those that wait.
    pub fn no_longer_pending(&self, size_bytes: usize, elsewhere_bytes: usize) {
        self.pending_bytes.fetch_sub(size_bytes, Ordering::Relaxed);
        self.elsewhere_bytes.fetch_sub(elsewhere_bytes, Ordering::Relaxed);
    }

    pub fn publish_synced(&self, sequence: Sequence) {
        self.synced.store(sequence.0, Ordering::Release);
    }

    /// Updates the catalog's last segment to what is written.
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

    /// Adds a new segment to the catalog.
    pub fn add_segment(&self, meta: SegmentMeta) {
        let mut catalog = self.catalog();
        catalog.sparse.clear();
        if catalog.segments.is_empty() {
            catalog.first = meta.name.first;
        }
        catalog.segments.push_back(meta);
    }

    /// The oldest segment, when it is no longer wanted, and the one after it.
    pub fn first_unwanted(&self) -> Option<(SegmentName, SegmentName)> {
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
        is_unwanted.then_some((oldest.name, catalog.segments[1].name))
    }

    /// Removes the oldest segment from the catalog; its file may wait under another name.
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

    /// The sparse index of the segment `name` if it is the last one, as far as it is synced.
    pub fn sparse_of(&self, name: SegmentName) -> Option<Vec<SparsePoint>> {
        let catalog = self.catalog();
        (catalog.segments.back()?.name == name).then(|| catalog.sparse.clone())
    }
}
