//! The files of streams beside the journal: opened here at the start, and made and removed by the committer later.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::journal::{
    AppendError, Committer, Damage, Disk, Log, LogOpening, LogOptions, OpenError, Retention, SegmentGrowth,
};

use crate::broker::clock::Micros;
use crate::broker::durability::stream_openings::{StreamOpening, StreamOpenings};
use crate::broker::durable::DefinitionId;
use crate::broker::topology::DefinitionKey;

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
    /// Logs that the committer is opening.
    pub openings: StreamOpenings,
    /// The ids that were taken for the definitions of streams whose logs are there, until they are recorded.
    ids: HashMap<DefinitionKey, DefinitionId>,
    /// Damage in the logs since the last [`StreamFiles::take_damage`].
    damage: Vec<Damage>,
}

impl StreamFiles {
    /// The files of streams in the data directory `dir`.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, segment_bytes: u32) -> Self {
        let (openings, ids) = (StreamOpenings::default(), HashMap::new());
        Self { disk, dir: dir.join(STREAMS), segment_bytes, openings, ids, damage: Vec::new() }
    }

    /// Open the log of a recovered stream in the directory `name`. Returns the log and its directory.
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

    /// Take the log of a new stream that the committer has opened: with its directory and the id of its definition. None
    /// while it is being opened; the first call begins that, in a directory that `name_of` names by an id that `take_id` takes.
    pub fn take_opened(
        &mut self,
        key: &DefinitionKey,
        (retention, segment_bytes): (Retention, Option<u64>),
        committer: &Committer,
        take_id: impl FnOnce() -> Result<DefinitionId, AppendError>,
        name_of: impl FnOnce(DefinitionId) -> String,
    ) -> Result<Option<(Log, PathBuf, DefinitionId)>, String> {
        let options = self.log_options(retention, segment_bytes);
        match self.openings.get(key) {
            Some(opening) if !opening.log.is_done() => return Ok(None),
            Some(opening) if opening.options == options => {
                let Some(StreamOpening { id, dir, log, .. }) = self.openings.remove(key) else { return Ok(None) };
                return match log.take() {
                    Some(Ok((log, _))) => {
                        self.ids.insert(key.clone(), id);
                        Ok(Some((log, dir, id)))
                    }
                    failed => {
                        self.remove_later(&dir, committer);
                        Err(failed.and_then(Result::err).map_or_else(String::new, |reason| reason.to_string()))
                    }
                };
            }
            // Somebody else declared it otherwise, and has gone.
            Some(_) => self.drop_opening(key, committer),
            None => {}
        }
        let id = take_id().map_err(|_| "the journal has no room for its definition now".to_owned())?;
        let dir = self.dir.join(name_of(id));
        let log = LogOpening::begin(Arc::clone(&self.disk), &dir, options, committer);
        self.openings.insert(key.clone(), StreamOpening::new(id, dir, options, log));
        Ok(None)
    }

    fn drop_opening(&mut self, key: &DefinitionKey, committer: &Committer) {
        if let Some(opening) = self.openings.remove(key) {
            self.remove_later(&opening.dir, committer);
        }
    }

    /// Remove the logs that nobody has come for, because their clients have gone.
    pub fn remove_untaken(&mut self, now: Micros, committer: &Committer) {
        for opening in self.openings.take_untaken(now) {
            self.remove_later(&opening.dir, committer);
        }
    }

    /// The id that was taken for a definition.
    pub fn taken_id(&self, key: &DefinitionKey) -> Option<DefinitionId> {
        self.ids.get(key).copied()
    }

    /// Forget the id that was taken for a definition: it is recorded.
    pub fn forget_id(&mut self, key: &DefinitionKey) {
        self.ids.remove(key);
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

    /// Remove the files of a log later, one by one, and then its directory. What cannot be removed stays until the next start.
    pub fn remove_later(&self, dir: &Path, committer: &Committer) {
        committer.remove_folder_later(Arc::clone(&self.disk), dir);
    }

    /// Remove the logs that are not `used` by any stream: their queues were deleted, or never kept, before a crash.
    pub fn remove_orphans_later(
        &self,
        used: &HashSet<&Path>,
        is_dir_name: impl Fn(&str) -> bool,
        committer: &Committer,
    ) {
        // Where there has never been a stream there is no such directory.
        for name in self.disk.list(&self.dir).unwrap_or_default() {
            let dir = self.dir.join(&name);
            if is_dir_name(&name) && !used.contains(&*dir) {
                self.remove_later(&dir, committer);
            }
        }
    }
}
