//! The broker's journal, if it has one: recording into it, and the files of streams beside it.
//!
//! Recording is appending to memory; a thread writes and syncs ([`crate::journal`]). A broker without a journal keeps
//! nothing and promises at once.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashSet;

use crate::amqp::{AmqpError, ReplyCode};
use crate::journal::{AppendError, Committer, Damage, Disk, Log, OpenError, Retention};

use crate::broker::clock::Micros;
use crate::broker::connections::turn::TimeLimit;
use crate::broker::durability::changes::Changes;
use crate::broker::durability::deleted_queues::DeletedQueues;
use crate::broker::durability::settlements::Settlements;
use crate::broker::durability::stream_files::StreamFiles;
use crate::broker::durable::{Content, DefinitionId, Durable, RecordId, Saved, TimeToLive};
use crate::broker::errors::error;
use crate::broker::ids::{CHANGES, ChannelSlot, ConnectionId, Handle, MessageId};
use crate::broker::management::metrics::JournalMetrics;
use crate::broker::parts::Parts;
use crate::broker::publishing::confirms::DiskMark;
use crate::broker::topology::{Definition, DefinitionKey, QueueId, Topology, TopologyChange};

/// The maximum time that an answer waits for room on a full disk before it is refused.
const STUCK_US_MAX: Micros = 10_000_000;
/// The bytes that compaction may copy in one call: at least, and at most, which takes a few milliseconds.
const COMPACT_BYTES: std::ops::RangeInclusive<u64> = 64 * 1024..=1024 * 1024;

/// The room that a message takes in the journal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Room {
    /// What is there for everybody.
    Shared,
    /// What [`Durability::reserve`] has kept for a transaction.
    Reserved,
}

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
    changes: Changes,
    /// Bytes recorded that compaction has not kept up with yet.
    appended: u64,
    /// Messages that may leave memory once they are synced, with the sequence of their record.
    evictable: VecDeque<(MessageId, u64)>,
    deleted: DeletedQueues,
    purges: Settlements,
    /// Commits of transactions that settle something.
    commits: Settlements,
    has_failed: bool,
    /// The time since which nothing becomes durable for lack of room.
    stuck_since: Option<Micros>,
    streams: StreamFiles,
    /// The directories of deleted streams, with the number of changes that have to be on disk before they are removed.
    unwanted: VecDeque<(u64, PathBuf)>,
}

impl Durability {
    /// Keep what must survive a restart in this journal from now on.
    pub(super) fn begin(&mut self, durable: Durable, committer: Committer, streams: StreamFiles) {
        self.journal = Some(Box::new(Journal {
            durable,
            committer,
            changes: Changes::default(),
            appended: 0,
            evictable: VecDeque::new(),
            deleted: DeletedQueues::default(),
            purges: Settlements::default(),
            commits: Settlements::default(),
            has_failed: false,
            stuck_since: None,
            streams,
            unwanted: VecDeque::new(),
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

    /// The memory of what readers of streams have read from the disk.
    #[inline]
    pub fn block_bytes(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.committer.block_bytes())
    }

    /// The number of files that readers of streams have open.
    #[inline]
    pub fn reader_files(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.committer.reader_files())
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

    /// Whether a stop is over, so that nothing more is recorded.
    pub fn has_ended(&self) -> bool {
        self.durable().is_some_and(Durable::has_ended)
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
            Some(journal) if journal.durable.is_stuck() || journal.changes.are_too_many() => {
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

    /// Take a change, to record it. False when there is no room for it now.
    pub fn add_change(&mut self, change: TopologyChange) -> bool {
        let journal = self.journal.as_mut().filter(|journal| !journal.changes.are_too_many());
        journal.is_some_and(|journal| {
            journal.changes.extend(std::iter::once(change));
            true
        })
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
        while let Some(change) = journal.changes.next() {
            let recorded = match change {
                TopologyChange::Added(definition) => {
                    let mut value = Vec::new();
                    definition.encode(&mut value);
                    let parents = definition.parents();
                    let parents: Vec<&[u8]> = parents.iter().map(|parent| parent.as_bytes()).collect();
                    journal.appended += value.len() as u64;
                    let key = definition.key();
                    let taken = journal.streams.taken_id(&key);
                    journal.durable.define(key.as_bytes(), &value, &parents, taken, wall_us).map(|(id, sequence)| {
                        journal.streams.forget_id(&key);
                        defined(definition, id);
                        Some(sequence)
                    })
                }
                TopologyChange::Removed(key) => {
                    journal.deleted.remove(key.as_bytes(), &mut journal.durable, wall_us, &is_needed)
                }
            };
            let Ok(sequence) = recorded else { break };
            journal.changes.advance();
            last = sequence.or(last);
        }
        let last = last?;
        journal.changes.end_recording(last, journal.durable.synced());
        Some(last.0)
    }

    /// The mark that is reached when the changes that wait for room now are synced; None when none waits.
    pub fn waiting_changes(&self) -> Option<DiskMark> {
        let journal = self.journal.as_ref().filter(|journal| journal.changes.are_waiting())?;
        Some(DiskMark { log: CHANGES, sequence: journal.changes.count() })
    }

    /// Whether this number of changes is synced.
    pub fn are_changes_synced(&self, count: u64) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.changes.are_synced(count, journal.durable.synced()))
    }

    /// Record a message for these queues. Its time to live begins at `wall_us`.
    ///
    /// # Errors
    /// There is no room, or nothing is written any more.
    #[inline(always)]
    pub fn save(
        &mut self,
        room: Room,
        content: Content<'_>,
        queues: &[DefinitionId],
        wall_us: i64,
        time_to_live: TimeToLive,
    ) -> Result<Saved, AppendError> {
        let Some(journal) = &mut self.journal else { return Err(AppendError::Busy) };
        journal.appended += content.size_bytes() as u64 + 64;
        match room {
            Room::Shared => journal.durable.message(content, queues, wall_us, time_to_live),
            Room::Reserved => journal.durable.message_in_reservation(content, queues, wall_us, time_to_live),
        }
    }

    /// The maximum of bytes that a message for `queues` queues takes in the journal. Nothing without a journal.
    ///
    /// # Errors
    /// It can never be recorded.
    pub fn record_bytes(&self, parts: &Parts<'_>, queues: usize) -> Result<usize, AppendError> {
        self.durable().map_or(Ok(0), |durable| durable.record_bytes(&parts.content(None), queues))
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
    pub fn spill(&mut self, content: Content<'_>, wall_us: i64) -> Option<Saved> {
        self.journal.as_mut()?.durable.spill(content, wall_us).ok()
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
            journal.deleted.insert(queue, definition, unacknowledged);
        }
    }

    /// Settle a delivery of a deleted queue. Returns the queue's definition, when it was durable.
    pub fn settle_deleted(&mut self, queue: Handle<QueueId>) -> Option<DefinitionId> {
        self.journal.as_mut()?.deleted.settle(queue)
    }

    /// Record what was settled in this call, then the removal of definitions that are retired and not `is_needed`.
    pub fn flush(&mut self, wall_us: i64, is_needed: impl Fn(DefinitionId) -> bool) {
        if let Some(journal) = &mut self.journal {
            // Settlements that there is no room for are kept for the next time.
            if let Ok(sequence) = journal.durable.flush(wall_us) {
                journal.purges.record(sequence.0);
                journal.commits.record(sequence.0);
                journal.deleted.forget(&mut journal.durable, wall_us, is_needed);
            }
        }
    }

    /// Whether a definition is not retired, or its removal is on disk.
    pub fn is_forgotten(&self, id: DefinitionId) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.deleted.is_forgotten(id, journal.durable.synced()))
    }

    /// Refuse a new definition under the key of one that is retired: it would be taken for the old one.
    pub fn check_retired(&self, key: &DefinitionKey, name: &str) -> Result<(), AmqpError> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.deleted.check(key, name))
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

    /// Note that a commit has settled its deliveries. Returns its number: 0 without a journal.
    pub fn commit_settled(&mut self) -> u64 {
        let Some(journal) = &mut self.journal else { return 0 };
        journal.commits.begin();
        journal.commits.settle();
        journal.commits.last()
    }

    /// Whether no crash can bring back what the commit with this number settled. Without a journal nothing waits.
    pub fn is_commit_kept(&self, commit: u64) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.commits.is_kept(commit))
    }

    /// Whether a purge or a commit is on disk now that was not before.
    pub fn sync_settlements(&mut self) -> bool {
        let Some(journal) = &mut self.journal else { return false };
        let synced = journal.durable.synced().0;
        journal.purges.sync(synced) | journal.commits.sync(synced)
    }

    /// Compact in proportion to what was recorded since the last time, as far as one call goes.
    pub(super) fn compact(&mut self, limit: TimeLimit) {
        if let Some(journal) = &mut self.journal {
            let bytes = (2 * journal.appended).clamp(*COMPACT_BYTES.start(), *COMPACT_BYTES.end());
            let copied = journal.durable.compact(bytes, || limit.is_reached());
            journal.appended = copied.map_or(0, |bytes| journal.appended.saturating_sub(bytes / 2));
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

    /// Take the log of a new stream, with its directory and the id that its definition will have, once the committer has
    /// opened it. None while it has not; the first call lets it begin.
    ///
    /// # Errors
    /// The reason why there is no log.
    pub fn take_opened(
        &mut self,
        key: &DefinitionKey,
        options: (Retention, Option<u64>),
        wall_us: i64,
        name_of: impl FnOnce(DefinitionId) -> String,
    ) -> Result<Option<(Log, PathBuf, DefinitionId)>, String> {
        let Some(journal) = &mut self.journal else { return Err("there is no data directory".to_owned()) };
        if journal.changes.are_waiting() {
            return Err("the journal has no room for its definition now".to_owned());
        }
        let take_id = || journal.durable.take_id(wall_us);
        journal.streams.take_opened(key, options, &journal.committer, take_id, name_of)
    }

    /// The number of logs of new streams that are being opened, unless that of this stream is among them.
    pub fn opening_count_beside(&self, key: &DefinitionKey) -> Option<usize> {
        let openings = &self.journal.as_ref()?.streams.openings;
        openings.get(key).is_none().then(|| openings.len())
    }

    /// Let a declaration wait until the committer has opened a log.
    pub fn await_opening(
        &mut self,
        key: &DefinitionKey,
        connection: ConnectionId,
        generated: Option<(Handle<ChannelSlot>, Box<str>)>,
    ) {
        if let Some(journal) = &mut self.journal {
            journal.streams.openings.wait(key, connection, generated);
        }
    }

    /// The name that a channel's stream was given when its declaration began to wait.
    pub fn generated_name(&self, channel: Handle<ChannelSlot>) -> Option<Box<str>> {
        self.journal.as_ref()?.streams.openings.generated_name(channel)
    }

    /// Take the connections whose declarations of streams can go on.
    pub(super) fn take_ready(&mut self, now: Micros) -> Vec<ConnectionId> {
        self.journal.as_mut().map(|journal| journal.streams.openings.take_ready(now)).unwrap_or_default()
    }

    /// Remove the logs of new streams that nobody has come for.
    pub fn remove_untaken(&mut self, now: Micros) {
        if let Some(journal) = &mut self.journal {
            journal.streams.remove_untaken(now, &journal.committer);
        }
    }

    /// Open the log of a recovered stream in the directory `name`. Returns the log and its directory.
    pub fn open_log(
        &mut self,
        name: &str,
        retention: Retention,
        segment_bytes: Option<u64>,
    ) -> Result<(Log, PathBuf), OpenError> {
        let no_journal = || OpenError::NoLog("there is no data directory".to_owned());
        let journal = self.journal.as_mut().ok_or_else(no_journal)?;
        journal.streams.open_log(name, retention, segment_bytes, &journal.committer)
    }

    /// Check that the directory of a recovered stream's log is there.
    pub fn check_log(&self, name: &str) -> Result<(), OpenError> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.streams.check_log(name))
    }

    /// Remove the files of a deleted stream when all changes so far are on disk: no recorded stream ever lacks its files.
    pub fn remove_when_forgotten(&mut self, dir: &Path) {
        if let Some(journal) = &mut self.journal {
            journal.unwanted.push_back((journal.changes.count(), dir.to_owned()));
        }
    }

    /// Let the committer remove files that nobody needs any more, each under a name of its own.
    pub fn remove_files_later(&self, disk: &Arc<dyn Disk>, paths: impl IntoIterator<Item = PathBuf>) {
        let Some(journal) = &self.journal else { return };
        for path in paths {
            journal.committer.remove_file_later(Arc::clone(disk), path);
        }
    }

    /// Let the committer remove the files of streams whose deletion is on disk.
    pub(super) fn remove_forgotten(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        let synced = journal.durable.synced();
        let is_next = |(count, _): &&(u64, PathBuf)| journal.changes.are_synced(*count, synced);
        while let Some((_, dir)) = journal.unwanted.front().filter(is_next) {
            journal.streams.remove_later(dir, &journal.committer);
            journal.unwanted.pop_front();
        }
    }

    /// Remove the logs that are not `used` by any stream.
    pub(super) fn remove_orphans_later(&mut self, used: &HashSet<&Path>, is_dir_name: impl Fn(&str) -> bool) {
        if let Some(journal) = &mut self.journal {
            journal.streams.remove_orphans_later(used, is_dir_name, &journal.committer);
        }
    }

    /// Take the damage in the logs of streams since the last call.
    pub(super) fn take_damage(&mut self) -> Vec<Damage> {
        self.journal.as_mut().map(|journal| journal.streams.take_damage()).unwrap_or_default()
    }
}
