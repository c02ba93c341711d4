//! Writes, syncs and reports the records of one log, and removes segments that are no longer wanted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::journal::disk::{DiskFile, is_full};
use crate::journal::format::footer::SegmentContents;
use crate::journal::format::segment::{SegmentHeader, SegmentName, spare_name};
use crate::journal::recovery::recover::{ActiveSegment, SegmentMeta};
use crate::journal::writing::appending::{PendingBatch, PendingRun};
use crate::journal::writing::mark_file::MarkFile;
use crate::journal::writing::segment_writer::SegmentWriter;
use crate::journal::writing::shared::SharedLog;

/// The spare file that is created before it is needed: at most one, since it is created only when there is none.
const RESERVE: &str = "spare-reserve.segment";

/// The result of a write that did not fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// There is no room for a further segment; the write must be tried again.
    pub is_full: bool,
}

impl SharedLog {
    /// Writes the appended records. The errors are texts for
    /// [`Committer::failed`](super::committer::Committer::failed).
    pub(crate) fn write(&self) -> Result<Written, String> {
        let mut writing = self.writing();
        let writing = &mut *writing;
        // First the records that waited for room, if any, and then those appended since.
        let has_waited = !writing.runs.is_empty();
        for _ in 0..1 + usize::from(has_waited) {
            if writing.runs.is_empty() {
                let batch =
                    self.take_batch(PendingBatch { runs: Vec::new(), buffers: std::mem::take(&mut writing.buffers) });
                writing.runs = batch.runs.into();
                writing.buffers = batch.buffers;
            }
            if !self.write_runs(writing)? {
                self.is_stuck.store(true, Ordering::Release);
                self.is_full.store(true, Ordering::Release);
                return Ok(Written { is_full: true });
            }
        }
        self.heads_bytes.store(writing.heads_memory_bytes(), Ordering::Relaxed);
        self.is_stuck.store(false, Ordering::Release);
        let has_room = !self.options.has_reserve || self.see_to_reserve()?;
        self.is_full.store(!has_room, Ordering::Release);
        Ok(Written { is_full: !has_room })
    }

    /// Writes the taken runs; false when there is no room for the remaining ones.
    fn write_runs(&self, writing: &mut SegmentWriter) -> Result<bool, String> {
        while let Some(run) = writing.runs.pop_front() {
            if !self.make_active(writing, &run).map_err(|error| self.failure("write to", &error))? {
                writing.runs.push_front(run);
                return Ok(false);
            }
            let (size_bytes, elsewhere_bytes, before) =
                (run.records_bytes(), run.elsewhere_bytes(), run.first.previous());
            let buffer = writing.put(run).map_err(|error| self.failure("write to", &error))?;
            self.counters.wrote(writing.written.0 - before.0, size_bytes as u64);
            self.no_longer_pending(size_bytes, elsewhere_bytes);
            writing.keep(buffer);
        }
        Ok(true)
    }

    /// Creates the file of a further segment before it is needed; false when there is no room for one.
    fn see_to_reserve(&self) -> Result<bool, String> {
        if self.has_spare() {
            return Ok(true);
        }
        let path = self.directory.path.join(RESERVE);
        match self.directory.disk.create(&path, u64::from(self.options.segment_bytes)) {
            Ok(_) => {
                self.add_spare(RESERVE.to_owned());
                Ok(true)
            }
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(self.failure("make a file for", &error)),
        }
    }

    /// Syncs what was written.
    pub(crate) fn sync(&self) -> Result<(), String> {
        let mut writing = self.writing();
        if writing.is_unsynced {
            if let Some(active) = &writing.active {
                self.sync_file(active.segment.file.as_ref()).map_err(|error| self.failure("sync", &error))?;
            }
            writing.is_unsynced = false;
        }
        Ok(())
    }

    /// Reports what was synced, and removes what is no longer wanted.
    pub(crate) fn publish(&self) -> Result<(), String> {
        let mut writing = self.writing();
        let written = writing.written;
        if written > self.synced() {
            if let Some(active) = &writing.active {
                self.update_catalog(active);
            }
            let last = writing.active.as_ref().map(|active| active.segment.name);
            writing.mark.write_synced(written, last).map_err(|error| self.failure("write the mark of", &error))?;
            self.publish_synced(written);
        }
        self.remove_unwanted(&mut writing.mark).map_err(|error| self.failure("remove a segment of", &error))
    }

    fn sync_file(&self, file: &dyn DiskFile) -> io::Result<()> {
        let began = Instant::now();
        file.sync()?;
        self.counters.synced(began.elapsed());
        Ok(())
    }

    fn failure(&self, what: &str, error: &io::Error) -> String {
        format!("cannot {what} the log in {}: {error}", self.directory.path.display())
    }

    /// Makes the segment of `run` the active one; false when there is no room for it.
    fn make_active(&self, writing: &mut SegmentWriter, run: &PendingRun) -> io::Result<bool> {
        if writing.active.as_ref().is_some_and(|active| active.segment.name.ordinal == run.ordinal) {
            return Ok(true);
        }
        if let Some(footed) = writing.seal()? {
            self.sync_file(footed)?;
        }
        writing.is_unsynced = false;
        if let Some(sealed) = writing.active.take() {
            self.update_catalog(&sealed);
        }
        let name = SegmentName { ordinal: run.ordinal, first: run.first };
        let Some(file) = self.allocate(name, run.segment_bytes.into())? else { return Ok(false) };
        file.write_at(0, &SegmentHeader { log_id: self.directory.log_id, name }.encode())?;
        // This comes before the first record: the number of a segment with records is never lost and given again.
        self.directory.disk.sync_dir(&self.directory.path)?;
        let segment = self.directory.with_file(name, file)?;
        self.add_segment(SegmentMeta {
            name,
            last: name.first.previous(),
            time_max_us: i64::MIN,
            data_bytes: 0,
            file_bytes: segment.file_bytes,
        });
        writing.active = Some(ActiveSegment { segment, contents: SegmentContents::empty(self.options.index_heads) });
        Ok(true)
    }

    /// The file of a new segment: a reused one, or a new one; None when there is no room.
    fn allocate(&self, name: SegmentName, segment_bytes: u64) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let (disk, path) = (self.directory.disk.as_ref(), self.directory.path_of(name));
        while let Some(spare) = self.take_spare() {
            let spare = self.directory.path.join(spare);
            let file = disk.open_to_write(&spare)?;
            if file.size_bytes()? == segment_bytes {
                disk.rename(&spare, &path)?;
                return Ok(Some(disk.open_to_write(&path)?));
            }
            disk.remove(&spare)?; // segments have another size now
        }
        match disk.create(&path, segment_bytes) {
            Ok(file) => Ok(Some(file)),
            Err(error) if is_full(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes unwanted segments, oldest first and one after the other, so that none is ever missing between two
    /// others. The mark says so before, durably: a power cut in between leaves a segment that need not be there, and
    /// never lacks one that must.
    fn remove_unwanted(&self, mark: &mut MarkFile) -> io::Result<()> {
        while let Some((name, following)) = self.first_unwanted() {
            mark.begin_from(following)?;
            let (disk, path) = (self.directory.disk.as_ref(), self.directory.path_of(name));
            let is_kept = self.catalog().spares.len() < self.options.spares_max;
            let spare = spare_name(name.ordinal);
            if is_kept {
                disk.rename(&path, &self.directory.path.join(&spare))?;
            } else {
                disk.remove(&path)?;
            }
            disk.sync_dir(&self.directory.path)?;
            self.forget_first(name, is_kept.then_some(spare));
            self.directory.remove_summary(name.ordinal);
        }
        Ok(())
    }
}
