//! The files of streams beside the journal: their logs are opened here, and those of deleted streams removed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashSet;

use crate::journal::{Committer, Damage, Disk, Log, LogOptions, OpenError, Retention, SegmentGrowth};

/// The directory of the logs of streams in the data directory.
pub(super) const STREAMS: &str = "streams";
/// The smallest and largest segments that a stream may ask for.
const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 64 * 1024..=1 << 30;
/// The size of the first segment of a stream; each further one is twice as large, up to the size that it may have.
const FIRST_SEGMENT_BYTES: u32 = 1 << 20;

/// The directory of streams, and what is to be done in it.
pub(super) struct StreamFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The size of the segments of streams that do not ask for another one.
    segment_bytes: u32,
    /// Files of deleted streams, each behind the directory that is removed when they are.
    unwanted: Vec<Unwanted>,
    /// Damage in the logs since the last [`StreamFiles::take_damage`].
    damage: Vec<Damage>,
}

/// A file or directory of a deleted stream.
enum Unwanted {
    File(PathBuf),
    Directory(PathBuf),
}

impl StreamFiles {
    /// The files of streams in the data directory `dir`.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, segment_bytes: u32) -> Self {
        Self { disk, dir: dir.join(STREAMS), segment_bytes, unwanted: Vec::new(), damage: Vec::new() }
    }

    /// Open the log of a stream in the directory `name`; a new one is empty. Returns the log and its directory.
    pub fn open_log(
        &mut self,
        name: &str,
        retention: Retention,
        segment_bytes: Option<u64>,
        committer: &Committer,
    ) -> Result<(Log, PathBuf), OpenError> {
        let dir = self.dir.join(name);
        let options = self.log_options(retention, segment_bytes);
        let (log, recovery) = Log::open(Arc::clone(&self.disk), &dir, options, committer)?;
        self.damage.extend(recovery.damage);
        Ok((log, dir))
    }

    /// The options of a log: a small stream has small segments, so that it keeps little more than it should.
    fn log_options(&self, retention: Retention, segment_bytes: Option<u64>) -> LogOptions {
        let size = |bytes: u64| bytes.clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end()) as u32;
        let segment_bytes = size(segment_bytes.unwrap_or(self.segment_bytes.into()));
        let quarter = retention.bytes_max.map_or(u32::MAX, |bytes| size(bytes / 4));
        let usual_bytes = segment_bytes.min(quarter);
        let growth = Some(SegmentGrowth { first_bytes: usual_bytes.min(FIRST_SEGMENT_BYTES), usual_bytes });
        LogOptions { segment_bytes, growth, retention, ..LogOptions::default() }
    }

    /// Check that the directory of a recovered stream's log is there. It is made before the stream is recorded.
    pub fn check_log(&self, name: &str) -> Result<(), OpenError> {
        let dir = self.dir.join(name);
        match self.disk.list(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(OpenError::Incomplete(format!(
                "{} is missing; put it back, or make an empty directory there to begin the stream anew",
                dir.display()
            ))),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    /// Take the damage in the logs since the last call.
    pub fn take_damage(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.damage)
    }

    /// Remove the files of a log later, one by one, and then its directory.
    pub fn remove_later(&mut self, dir: &Path) {
        self.unwanted.push(Unwanted::Directory(dir.to_owned()));
        let names = self.disk.list(dir).unwrap_or_default();
        self.unwanted.extend(names.into_iter().map(|name| Unwanted::File(dir.join(name))));
    }

    /// Remove the logs that are not `used` by any stream: their queues were deleted, or never kept, before a crash.
    pub fn remove_orphans_later(&mut self, used: &HashSet<&Path>, is_dir_name: impl Fn(&str) -> bool) {
        // Where there has never been a stream there is no such directory.
        for name in self.disk.list(&self.dir).unwrap_or_default() {
            let dir = self.dir.join(&name);
            if is_dir_name(&name) && !used.contains(&*dir) {
                self.remove_later(&dir);
            }
        }
    }

    /// Remove one file of a deleted stream, which takes some milliseconds. One that cannot be removed stays until the
    /// next start.
    pub fn remove_next(&mut self) {
        _ = match self.unwanted.pop() {
            Some(Unwanted::File(path)) => self.disk.remove(&path),
            Some(Unwanted::Directory(path)) => self.disk.remove_dir(&path),
            None => Ok(()),
        };
    }
}
