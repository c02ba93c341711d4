//! The broker's journal, if it has one: recording into it, and the files of streams beside it.
//!
//! Recording is appending to memory; a thread writes and syncs ([`crate::journal`]). A broker without a journal keeps
//! nothing and promises at once.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::amqp::{AmqpError, ReplyCode};
use crate::journal::{self, AppendError, Committer, Damage, Disk, Log, OpenError, Sequence};

use crate::broker::clock::Micros;
use crate::broker::durability::purges::Purges;
use crate::broker::durable::{DefinitionId, Durable, RecordId, Saved, TimeToLive};
use crate::broker::errors::error;
use crate::broker::ids::{CHANGES, Handle, MessageId};
use crate::broker::management::metrics::JournalMetrics;
use crate::broker::parts::Parts;
use crate::broker::publishing::confirms::DiskMark;
use crate::broker::topology::{Definition, DefinitionKey, QueueId, Topology, TopologyChange};

/// The directory of the logs of streams in the data directory.
pub(super) const STREAMS: &str = "streams";
/// Changes that may wait for room in the journal before further ones are refused.
const CHANGES_MAX: usize = 10_000;
/// The maximum time that an answer waits for room on a full disk before it is refused.
const STUCK_US_MAX: Micros = 10_000_000;
/// The bytes that compaction may copy in one call: at least, and at most, which takes a few milliseconds.
const COMPACT_BYTES: std::ops::RangeInclusive<u64> = 64 * 1024..=1024 * 1024;

/// The journal, unless everything is kept in memory only.
#[derive(Default)]
pub(crate) struct Durability {
    journal: Option<Box<Journal>>,
    /// Room for changes on their way to the journal.
    changes: Vec<TopologyChange>,
}

struct Journal {
    /// Declared before the committer, so that it is dropped first: a committer writes all that waits when it is dropped.
    durable: Durable,
    committer: Committer,
    /// Changes of the topology that there was no room for yet, oldest first.
    changes: VecDeque<TopologyChange>,
    /// The number of changes that were recorded, and of those among them that are known to be synced.
    recorded_changes: u64,
    synced_changes: u64,
    /// The same number after each call that recorded some, with the sequence of the last, until that is synced.
    unsynced_changes: VecDeque<(u64, u64)>,
    /// Bytes recorded that compaction has not kept up with yet.
    appended: u64,
    /// Messages that may leave memory once they are synced, with the sequence of their record.
    evictable: VecDeque<(MessageId, u64)>,
    /// Deleted queues with unacknowledged deliveries: the definition whose entries these settle, and their number.
    deleted: HashMap<Handle<QueueId>, (DefinitionId, u32)>,
    /// Deleted queues whose definitions are forgotten later, or not on disk yet.
    retired: Vec<Retired>,
    purges: Purges,
    has_failed: bool,
    /// The time since which nothing becomes durable for lack of room.
    stuck_since: Option<Micros>,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The size of segments, also of streams that do not ask for another one.
    segment_bytes: u32,
    /// Files of deleted streams, each behind the directory that is removed when they are.
    unwanted: Vec<Unwanted>,
    /// Damage in the logs of streams.
    damage: Vec<Damage>,
}

/// The definition of a deleted queue whose dead letters have to be on disk before it is forgotten.
struct Retired {
    id: DefinitionId,
    key: Box<[u8]>,
    /// The sequence of the record that says that it is removed.
    forgotten: Option<Sequence>,
}

impl Retired {
    fn is_on_disk(&self, synced: Sequence) -> bool {
        self.forgotten.is_some_and(|sequence| sequence <= synced)
    }
}

/// A file or directory of a deleted stream.
enum Unwanted {
    File(PathBuf),
    Directory(PathBuf),
}

impl Journal {
    /// Record that a definition is removed. One that `is_needed` is only retired: it is forgotten later.
    fn remove(
        &mut self,
        key: &[u8],
        wall_us: i64,
        is_needed: impl Fn(DefinitionId) -> bool,
    ) -> Result<Option<Sequence>, AppendError> {
        match self.durable.definition(key).filter(|id| is_needed(*id)) {
            Some(id) => {
                self.retired.push(Retired { id, key: key.into(), forgotten: None });
                Ok(None)
            }
            None => self.durable.forget(key, wall_us),
        }
    }

    /// Record that retired definitions are removed which nothing needs any more.
    fn forget_retired(&mut self, wall_us: i64, is_needed: impl Fn(DefinitionId) -> bool) {
        let synced = self.durable.synced();
        self.retired.retain(|retired| !retired.is_on_disk(synced));
        for retired in &mut self.retired {
            if retired.forgotten.is_none() && !is_needed(retired.id) {
                // Without room it is tried again the next time.
                let forgotten = self.durable.forget(&retired.key, wall_us).ok();
                retired.forgotten = forgotten.map(|sequence| sequence.unwrap_or(synced));
            }
        }
    }

    fn streams_dir(&self) -> PathBuf {
        self.dir.join(STREAMS)
    }

    /// Remove the files of a log later, one by one, and then its directory.
    fn remove_later(&mut self, dir: &Path) {
        self.unwanted.push(Unwanted::Directory(dir.to_owned()));
        let names = self.disk.list(dir).unwrap_or_default();
        self.unwanted.extend(names.into_iter().map(|name| Unwanted::File(dir.join(name))));
    }
}

impl Durability {
    /// Keep what must survive a restart in this journal from now on.
    pub(super) fn begin(
        &mut self,
        durable: Durable,
        committer: Committer,
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        segment_bytes: u32,
    ) {
        self.journal = Some(Box::new(Journal {
            durable,
            committer,
            changes: VecDeque::new(),
            recorded_changes: 0,
            synced_changes: 0,
            unsynced_changes: VecDeque::new(),
            appended: 0,
            evictable: VecDeque::new(),
            deleted: HashMap::new(),
            retired: Vec::new(),
            purges: Purges::default(),
            has_failed: false,
            stuck_since: None,
            disk,
            dir,
            segment_bytes,
            unwanted: Vec::new(),
            damage: Vec::new(),
        }));
    }

    /// Whether there is a journal.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.journal.is_some()
    }

    /// The journal's records, if there is one.
    pub fn durable(&self) -> Option<&Durable> {
        self.journal.as_ref().map(|journal| &journal.durable)
    }

    /// The memory that the journal takes: for live records, for what waits to be written, and for messages that are to leave
    /// memory.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        let bytes_of = |journal: &Journal| {
            journal.durable.memory_bytes() + journal.evictable.capacity() * size_of::<(MessageId, u64)>()
        };
        self.journal.as_ref().map_or(0, |journal| bytes_of(journal) as u64)
    }

    /// The memory of the index of the segment that is written, which goes only when that is full.
    pub fn index_memory_bytes(&self) -> u64 {
        self.durable().map_or(0, |durable| durable.index_memory_bytes() as u64)
    }

    /// Whether the disk has room only for what must not be refused.
    pub fn is_full(&self) -> bool {
        self.durable().is_some_and(Durable::is_full)
    }

    /// Whether publishers have to wait for the disk.
    #[inline]
    pub fn is_congested(&self) -> bool {
        self.durable().is_some_and(Durable::is_congested)
    }

    /// Whether the disk has no room at all.
    #[cfg(test)]
    pub fn is_stuck(&self) -> bool {
        self.durable().is_some_and(Durable::is_stuck)
    }

    /// The reason why nothing is written any more, if so.
    pub fn failed(&self) -> Option<&str> {
        self.durable()?.failed()
    }

    /// The reason why nothing is written any more, returned only once.
    pub(super) fn take_failure(&mut self) -> Option<String> {
        let journal = self.journal.as_mut().filter(|journal| !journal.has_failed)?;
        let reason = journal.durable.failed()?.to_owned();
        journal.has_failed = true;
        Some(reason)
    }

    /// Whether the journal is synced up to `sequence`. Without a journal nothing waits.
    #[inline]
    pub fn is_synced(&self, sequence: u64) -> bool {
        self.durable().is_none_or(|durable| durable.synced().0 >= sequence)
    }

    /// Refuse a new durable definition that could not be recorded, since its answer would not come.
    pub fn check_room(&self) -> Result<(), AmqpError> {
        match &self.journal {
            Some(journal) if journal.durable.is_stuck() || journal.changes.len() >= CHANGES_MAX => {
                let reason = "low on disk: there is no room for further durable definitions now; others are taken";
                Err(error(ReplyCode::ResourceError, reason))
            }
            _ => Ok(()),
        }
    }

    /// Whether nothing has become durable for so long that answers are not worth waiting for.
    pub(super) fn is_stuck_too_long(&mut self, now: Micros) -> bool {
        let Some(journal) = &mut self.journal else { return false };
        if !journal.durable.is_stuck() {
            journal.stuck_since = None;
            return false;
        }
        now - *journal.stuck_since.get_or_insert(now) >= STUCK_US_MAX
    }

    /// Take the changes of the topology, to record them.
    pub fn take_changes(&mut self, topology: &mut Topology) {
        topology.take_changes(&mut self.changes);
        match &mut self.journal {
            Some(journal) => journal.changes.extend(self.changes.drain(..)),
            None => self.changes.clear(),
        }
    }

    /// Take a change, to record it.
    pub fn add_change(&mut self, change: TopologyChange) {
        if let Some(journal) = &mut self.journal {
            journal.changes.push_back(change);
        }
    }

    /// Record changes, in their order, as far as there is room, and call `defined` with each new definition. A removed one
    /// that `is_needed` is forgotten later. Returns the sequence of the last record.
    pub fn record_changes(
        &mut self,
        wall_us: i64,
        is_needed: impl Fn(DefinitionId) -> bool,
        mut defined: impl FnMut(&Definition, DefinitionId),
    ) -> Option<u64> {
        let journal = self.journal.as_mut()?;
        let mut last = None;
        while let Some(change) = journal.changes.front() {
            let recorded = match change {
                TopologyChange::Added(definition) => {
                    let mut value = Vec::new();
                    definition.encode(&mut value);
                    let parents = definition.parents();
                    let parents: Vec<&[u8]> = parents.iter().map(|parent| parent.as_bytes()).collect();
                    journal.appended += value.len() as u64;
                    let key = definition.key();
                    journal.durable.define(key.as_bytes(), &value, &parents, wall_us).map(|(id, sequence)| {
                        defined(definition, id);
                        Some(sequence)
                    })
                }
                TopologyChange::Removed(key) => {
                    let key = key.as_bytes().to_vec();
                    journal.remove(&key, wall_us, &is_needed)
                }
            };
            let Ok(sequence) = recorded else { break };
            journal.changes.pop_front();
            journal.recorded_changes += 1;
            last = sequence.or(last);
        }
        let (last, synced) = (last?.0, journal.durable.synced().0);
        while let Some(&(recorded, last)) = journal.unsynced_changes.front()
            && last <= synced
        {
            journal.unsynced_changes.pop_front();
            journal.synced_changes = recorded;
        }
        journal.unsynced_changes.push_back((journal.recorded_changes, last));
        Some(last)
    }

    /// The mark that is reached when the changes that wait for room now are synced; None when none waits.
    pub fn waiting_changes(&self) -> Option<DiskMark> {
        let journal = self.journal.as_ref().filter(|journal| !journal.changes.is_empty())?;
        Some(DiskMark { log: CHANGES, sequence: journal.recorded_changes + journal.changes.len() as u64 })
    }

    /// Whether this number of changes is synced.
    pub fn are_changes_synced(&self, count: u64) -> bool {
        let Some(journal) = &self.journal else { return true };
        // A change is synced with the last one of the call that recorded it.
        let recorded_with = journal.unsynced_changes.iter().find(|(recorded, _)| *recorded >= count);
        let is_recorded = journal.recorded_changes >= count;
        count <= journal.synced_changes
            || is_recorded && recorded_with.is_none_or(|(_, last)| *last <= journal.durable.synced().0)
    }

    /// Record a message for these queues. Its time to live begins at `wall_us`.
    ///
    /// # Errors
    /// There is no room, or nothing is written any more.
    pub fn save(
        &mut self,
        parts: &Parts<'_>,
        queues: &[DefinitionId],
        wall_us: i64,
        time_to_live: TimeToLive,
    ) -> Result<Saved, AppendError> {
        let Some(journal) = &mut self.journal else { return Err(AppendError::Busy) };
        journal.appended += parts.size() as u64 + 64;
        journal.durable.message(parts.content(), queues, wall_us, time_to_live)
    }

    /// The same for a message for which there is room by [`Durability::reserve`].
    ///
    /// # Errors
    /// Nothing is written any more.
    pub fn save_in_reservation(
        &mut self,
        parts: &Parts<'_>,
        queues: &[DefinitionId],
        wall_us: i64,
        time_to_live: TimeToLive,
    ) -> Result<Saved, AppendError> {
        let Some(journal) = &mut self.journal else { return Err(AppendError::Busy) };
        journal.appended += parts.size() as u64 + 64;
        journal.durable.message_in_reservation(parts.content(), queues, wall_us, time_to_live)
    }

    /// The maximum of bytes that a message for `queues` queues takes in the journal. Nothing without a journal.
    ///
    /// # Errors
    /// It can never be recorded.
    pub fn record_bytes(&self, parts: &Parts<'_>, queues: usize) -> Result<usize, AppendError> {
        self.durable().map_or(Ok(0), |durable| durable.record_bytes(&parts.content(), queues))
    }

    /// Keep room for messages of a transaction until [`Durability::end_reservation`]. False when there is not enough.
    pub fn reserve(&mut self, bytes: usize) -> bool {
        self.journal.as_mut().is_none_or(|journal| journal.durable.reserve(bytes))
    }

    /// End what [`Durability::reserve`] began.
    pub fn end_reservation(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.durable.end_reservation();
        }
    }

    /// Write a message to the journal so that it can leave memory. None without room.
    pub fn spill(&mut self, parts: &Parts<'_>, wall_us: i64) -> Option<Saved> {
        self.journal.as_mut()?.durable.spill(parts.content(), wall_us).ok()
    }

    /// Record that a durable queue is done with a message.
    pub fn settle(&mut self, record: RecordId, queue: DefinitionId) {
        if let Some(journal) = &mut self.journal {
            journal.durable.settled(record, queue);
        }
    }

    /// Record that the last durable queue is done with a message, and keep its record for others until it is released.
    pub fn settle_but_keep(&mut self, record: RecordId, queue: DefinitionId) {
        if let Some(journal) = &mut self.journal {
            journal.durable.settled_but_kept(record, queue);
        }
    }

    /// Drop a spilled message.
    pub fn release(&mut self, record: RecordId) {
        if let Some(journal) = &mut self.journal {
            journal.durable.release(record);
        }
    }

    /// Let a message leave memory once its record is synced.
    pub fn push_evictable(&mut self, message: MessageId, sequence: u64) {
        if let Some(journal) = &mut self.journal {
            journal.evictable.push_back((message, sequence));
        }
    }

    /// Whether a message may leave memory now.
    pub fn can_evict(&self) -> bool {
        let first = self.journal.as_ref().and_then(|journal| Some((journal, journal.evictable.front()?)));
        first.is_some_and(|(journal, (_, sequence))| journal.durable.synced().0 >= *sequence)
    }

    /// The next message that may leave memory, with the sequence of its record.
    pub fn next_evictable(&mut self) -> Option<(MessageId, u64)> {
        if !self.can_evict() {
            return None;
        }
        self.journal.as_mut()?.evictable.pop_front()
    }

    /// Note that a durable queue is deleted while deliveries from it are unacknowledged.
    pub fn queue_deleted(&mut self, queue: Handle<QueueId>, definition: DefinitionId, unacknowledged: u32) {
        if let Some(journal) = &mut self.journal {
            journal.deleted.insert(queue, (definition, unacknowledged));
        }
    }

    /// Settle a delivery of a deleted queue. Returns the queue's definition, when it was durable.
    pub fn settle_deleted(&mut self, queue: Handle<QueueId>) -> Option<DefinitionId> {
        let journal = self.journal.as_mut()?;
        let (definition, count) = journal.deleted.get_mut(&queue)?;
        let definition = *definition;
        *count -= 1;
        if *count == 0 {
            journal.deleted.remove(&queue);
        }
        Some(definition)
    }

    /// Record what was settled in this call, then the removal of definitions that are retired and not `is_needed`.
    pub fn flush(&mut self, wall_us: i64, is_needed: impl Fn(DefinitionId) -> bool) {
        if let Some(journal) = &mut self.journal {
            // Settlements that there is no room for are kept for the next time.
            if let Ok(sequence) = journal.durable.flush(wall_us) {
                journal.purges.record(sequence.0);
                if !journal.retired.is_empty() {
                    journal.forget_retired(wall_us, is_needed);
                }
            }
        }
    }

    /// Whether a definition is not retired, or its removal is on disk.
    pub fn is_forgotten(&self, id: DefinitionId) -> bool {
        let Some(journal) = &self.journal else { return true };
        let synced = journal.durable.synced();
        journal.retired.iter().all(|retired| retired.id != id || retired.is_on_disk(synced))
    }

    /// Refuse a new definition under the key of one that is retired: it would be taken for the old one.
    pub fn check_retired(&self, key: &DefinitionKey, name: &str) -> Result<(), AmqpError> {
        let retired = self.journal.iter().flat_map(|journal| &journal.retired);
        if retired.filter(|retired| retired.forgotten.is_none()).any(|retired| *retired.key == *key.as_bytes()) {
            let reason = format!("queue '{name}' is being deleted: its dead letters are not on disk yet");
            return Err(error(ReplyCode::ResourceLocked, &reason));
        }
        Ok(())
    }

    /// Begin the purge of a durable queue: its entries will be settled, and then [`Durability::purge_settled`] called.
    pub fn begin_purge(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.purges.begin();
        }
    }

    /// Note that the entries of the oldest purge are settled.
    pub fn purge_settled(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.purges.settle();
        }
    }

    /// The number of the last purge that has begun: 0 when there was none.
    pub fn last_purge(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.purges.last())
    }

    /// Whether no crash can take back the purge with this number. Without a journal nothing waits.
    pub fn is_purged(&self, purge: u64) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.purges.is_kept(purge))
    }

    /// Whether a purge is on disk now that was not before.
    pub fn sync_purges(&mut self) -> bool {
        let Some(journal) = &mut self.journal else { return false };
        journal.purges.sync(journal.durable.synced().0)
    }

    /// Compact in proportion to what was recorded since the last time, as far as one call goes.
    pub(super) fn compact(&mut self) {
        if let Some(journal) = &mut self.journal {
            let bytes = (2 * journal.appended).clamp(*COMPACT_BYTES.start(), *COMPACT_BYTES.end());
            let has_more = journal.durable.compact(bytes);
            journal.appended = if has_more { journal.appended.saturating_sub(bytes / 2) } else { 0 };
        }
    }

    /// Write and sync what was recorded.
    pub(super) fn commit_once(&self) {
        if let Some(journal) = &self.journal {
            journal.committer.commit_once();
        }
    }

    /// End the journal of a clean stop with what was delivered.
    pub(super) fn stop(&mut self, delivered: &[(RecordId, DefinitionId)], wall_us: i64) {
        if let Some(journal) = &mut self.journal {
            // Without room for it all messages are flagged as redelivered, as after a crash.
            _ = journal.durable.stop(delivered, wall_us);
        }
    }

    /// Numbers of the journal, with what streams take on disk.
    pub fn metrics(&self, stream_bytes: u64) -> Option<JournalMetrics> {
        let durable = self.durable()?;
        let (file_bytes, segments, waiting_bytes) = durable.extent();
        Some(JournalMetrics {
            file_bytes,
            live_bytes: durable.size_bytes().0,
            segments: segments as u64,
            waiting_bytes: waiting_bytes as u64,
            statistics: durable.statistics(),
            stream_bytes,
        })
    }

    /// The id that the next definition gets, if nothing is recorded before it; None when others wait for room.
    pub fn next_definition(&self) -> Option<DefinitionId> {
        let journal = self.journal.as_ref().filter(|journal| journal.changes.is_empty())?;
        Some(journal.durable.next_definition())
    }

    /// Open the log of a stream in the directory `name`; a new one is empty. Returns the log and its directory.
    pub fn open_log(
        &mut self,
        name: &str,
        options: journal::LogOptions,
        segment_bytes: Option<u64>,
    ) -> Result<(Log, PathBuf), OpenError> {
        /// The smallest and largest segments that a stream may ask for.
        const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 64 * 1024..=1 << 30;
        let no_journal = || OpenError::NoLog("there is no data directory".to_owned());
        let journal = self.journal.as_mut().ok_or_else(no_journal)?;
        let dir = journal.streams_dir().join(name);
        let segment_bytes = segment_bytes.unwrap_or(journal.segment_bytes.into());
        let segment_bytes = segment_bytes.clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end()) as u32;
        let options = journal::LogOptions { segment_bytes, ..options };
        let (log, recovery) = Log::open(Arc::clone(&journal.disk), &dir, options, &journal.committer)?;
        journal.damage.extend(recovery.damage);
        Ok((log, dir))
    }

    /// Check that the directory of a recovered stream's log is there. It is made before the stream is recorded.
    pub fn check_log(&self, name: &str) -> Result<(), OpenError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let dir = journal.streams_dir().join(name);
        match journal.disk.list(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(OpenError::Incomplete(format!(
                "{} is missing; put it back, or make an empty directory there to begin the stream anew",
                dir.display()
            ))),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    /// Remove the files of a deleted stream later.
    pub fn remove_later(&mut self, dir: &Path) {
        if let Some(journal) = &mut self.journal {
            journal.remove_later(dir);
        }
    }

    /// Remove one file of a deleted stream, which takes some milliseconds. One that cannot be removed stays until the
    /// next start.
    pub fn remove_unwanted(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        _ = match journal.unwanted.pop() {
            Some(Unwanted::File(path)) => journal.disk.remove(&path),
            Some(Unwanted::Directory(path)) => journal.disk.remove_dir(&path),
            None => Ok(()),
        };
    }

    /// Remove the logs that are not `used` by any stream: their queues were deleted, or never kept, before a crash.
    pub(super) fn remove_orphans_later(&mut self, used: &HashSet<&Path>, is_dir_name: impl Fn(&str) -> bool) {
        let Some(journal) = &mut self.journal else { return };
        let streams = journal.streams_dir();
        // Where there has never been a stream there is no such directory.
        for name in journal.disk.list(&streams).unwrap_or_default() {
            let dir = streams.join(&name);
            if is_dir_name(&name) && !used.contains(&*dir) {
                journal.remove_later(&dir);
            }
        }
    }

    /// Take the damage in the logs of streams since the last call.
    pub(super) fn take_damage(&mut self) -> Vec<Damage> {
        self.journal.as_mut().map(|journal| std::mem::take(&mut journal.damage)).unwrap_or_default()
    }
}
