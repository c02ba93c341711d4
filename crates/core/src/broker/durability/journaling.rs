//! What goes into the journal, and what waits for it.
//!
//! Recording is appending to memory; a thread writes and syncs (`crate::journal`). What was promised only once something
//! is on disk (confirms, answers to declarations and commits) waits for a [`SyncMark`] and goes out in
//! [`Broker::committed`]. A broker without a journal keeps nothing and promises at once.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use crate::amqp::{AmqpError, ReplyCode};
use crate::journal::{AppendError, Committer, Damage, Disk};

use crate::broker::Broker;
use crate::broker::connections::dispatch::error;
use crate::broker::durable::{Content, DefinitionId, Durable, Saved};
use crate::broker::ids::{Handle, JOURNAL};
use crate::broker::management::event::Event;
use crate::broker::publishing::confirms::{SyncMark, SyncMarks};
use crate::broker::queues::message_store::{Kept, MessageId, Parts};
use crate::broker::queues::queue::QueueEntry;
use crate::broker::topology::{Change, Definition, Owner, QueueId};

/// Changes that wait for room in the journal before further ones are refused.
const CHANGES_MAX: usize = 10_000;
/// How long an answer waits for room on a full disk before it is refused.
const STUCK_US_MAX: crate::broker::Micros = 10_000_000;
/// What compaction may copy in one call, at the least.
const COMPACT_BYTES_MIN: u64 = 64 * 1024;

pub(crate) struct Journal {
    /// Before the committer, so that it goes first: a committer writes what is left when it goes.
    pub durable: Durable,
    pub committer: Committer,
    /// Changes of the topology that there was no room for yet, oldest first.
    changes: VecDeque<Change>,
    /// Bytes recorded since the last compaction.
    appended: u64,
    /// Messages that may leave memory once they are synced, by the number of their record.
    pub evictable: VecDeque<(MessageId, u64)>,
    /// Deleted queues of which deliveries are still out: what those settle belongs to this definition.
    pub gone: hashbrown::HashMap<Handle<QueueId>, (DefinitionId, u32)>,
    pub has_failed: bool,
    /// Since when nothing becomes durable for lack of room.
    stuck_since: Option<crate::broker::Micros>,
    /// Where streams are, and how large their segments are when nobody says otherwise.
    pub disk: Arc<dyn Disk>,
    pub dir: PathBuf,
    pub segment_bytes: u32,
    /// Files of streams that were deleted, each behind the directory that is to go when they have.
    pub doomed: Vec<Doomed>,
    /// What was found damaged in streams.
    pub damage: Vec<Damage>,
}

/// What is left of a stream that was deleted.
pub(crate) enum Doomed {
    File(PathBuf),
    Directory(PathBuf),
}

impl Journal {
    pub fn new(durable: Durable, committer: Committer, disk: Arc<dyn Disk>, dir: PathBuf, segment_bytes: u32) -> Self {
        Self {
            durable,
            committer,
            changes: VecDeque::new(),
            appended: 0,
            evictable: VecDeque::new(),
            gone: hashbrown::HashMap::new(),
            has_failed: false,
            stuck_since: None,
            disk,
            dir,
            segment_bytes,
            doomed: Vec::new(),
            damage: Vec::new(),
        }
    }
}

impl Broker {
    /// The journal's thread has woken the caller: confirm what is on disk now, and see whether all is well there.
    pub fn committed(&mut self, now: crate::broker::Micros) {
        self.advance(now);
        self.check_failure();
        self.record_changes();
        self.settle_waiting();
        self.wake_streams();
        self.evict();
        if let Some(journal) = &mut self.journal {
            let bytes = 2 * std::mem::take(&mut journal.appended);
            journal.durable.compact(bytes.max(COMPACT_BYTES_MIN));
        }
        self.finish();
    }

    /// Write and sync what was recorded: for a committer without a thread, in a simulation. Then call
    /// [`Broker::committed`].
    pub fn commit_once(&self) {
        if let Some(journal) = &self.journal {
            journal.committer.commit_once();
        }
    }

    /// The end of a clean stop: what was delivered, so that only that is flagged as redelivered next time.
    pub(crate) fn stop_journal(&mut self) {
        let wall_us = self.wall_us();
        let mut delivered = Vec::new();
        for (_, queue) in self.queues.iter() {
            let Some(durable_id) = queue.durable_id else { continue };
            for entry in queue.ready().iter().filter(|entry| entry.redelivered) {
                if let Kept::Saved { record, .. } = self.messages.get(entry.message).kept {
                    delivered.push((record, durable_id));
                }
            }
        }
        if let Some(journal) = &mut self.journal {
            // Without room for it all are flagged, as after a crash.
            _ = journal.durable.stop(&delivered, wall_us);
        }
    }

    /// Why nothing more can be made durable, once that is so: nothing is confirmed any more, and the process must end.
    #[must_use]
    pub fn fatal(&self) -> Option<&str> {
        self.journal.as_ref()?.durable.failed()
    }

    fn check_failure(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        if let Some(reason) = journal.durable.failed()
            && !journal.has_failed
        {
            journal.has_failed = true;
            self.events.push(Event::Fatal { reason: reason.to_owned() });
        }
    }

    /// Something of the topology changed: what was remembered of routes is old, and what survives a restart is recorded.
    pub(crate) fn changed(&mut self) {
        self.topology_version += 1;
        let mut changes = std::mem::take(&mut self.changes);
        self.topology.take_changes(&mut changes);
        match &mut self.journal {
            Some(journal) => journal.changes.extend(changes.drain(..)),
            None => changes.clear(),
        }
        self.changes = changes;
        self.record_changes();
    }

    /// Refuse a new durable definition when it could not be kept: its answer would not come.
    pub(crate) fn check_room(&self) -> Result<(), AmqpError> {
        match &self.journal {
            Some(journal) if journal.durable.is_stuck() || journal.changes.len() >= CHANGES_MAX => {
                let reason = "low on disk: there is no room for further durable definitions now; others are taken";
                Err(error(ReplyCode::ResourceError, reason))
            }
            _ => Ok(()),
        }
    }

    /// Refuse what has waited too long for room on the disk. Those who publish were told to wait, and do.
    pub(crate) fn refuse_held(&mut self) {
        let now = self.now;
        let Some(journal) = &mut self.journal else { return };
        let since = match journal.durable.is_stuck() {
            true => *journal.stuck_since.get_or_insert(now),
            false => return journal.stuck_since = None,
        };
        if now - since < STUCK_US_MAX {
            return;
        }
        for Handle { id: number, serial } in self.awaiting.clone() {
            // A connection that was closed for one of its channels has taken the others with it.
            if let Some(it) = self.channels.get(number).filter(|it| it.serial == serial && !it.held.is_empty())
                && !self.connections[it.connection].was_told_blocked
            {
                let (connection, number) = (it.connection, it.number);
                let reason = "low on disk: what was declared is not kept until there is room";
                self.refuse(connection, number, error(ReplyCode::ResourceError, reason));
            }
        }
    }

    /// Record changes, in their order, as far as there is room.
    fn record_changes(&mut self) {
        let wall_us = self.wall_us();
        let Some(journal) = &mut self.journal else { return };
        let mut last = None;
        while let Some(change) = journal.changes.front() {
            let recorded = match change {
                Change::Added(definition) => {
                    let mut value = Vec::new();
                    definition.encode(&mut value);
                    let parents = definition.parents();
                    let parents: Vec<&[u8]> = parents.iter().map(|parent| parent.as_bytes()).collect();
                    let key = definition.key();
                    journal.appended += value.len() as u64;
                    journal.durable.define(key.as_bytes(), &value, &parents, wall_us).map(|(id, sequence)| {
                        if let Definition::Queue { vhost, name, .. } = definition
                            && let Some(vhost) = self.topology.vhost(vhost)
                            && let Ok(queue) = self.topology.queue(vhost, name, Owner::MAX)
                            && let Some(queue) = self.queues.get_mut(queue)
                        {
                            queue.durable_id = Some(id);
                        }
                        Some(sequence)
                    })
                }
                Change::Removed(key) => journal.durable.forget(key.as_bytes(), wall_us),
            };
            let Ok(sequence) = recorded else { break };
            journal.changes.pop_front();
            last = sequence.or(last);
        }
        if let Some(sequence) = last {
            self.promise(SyncMark { log: JOURNAL, sequence: sequence.0 });
        }
    }

    /// The answer to what is done now must wait for this.
    pub(crate) fn promise(&mut self, mark: SyncMark) {
        match self.promised.iter_mut().find(|promised| promised.log == mark.log) {
            Some(promised) => promised.sequence = promised.sequence.max(mark.sequence),
            None => self.promised.push(mark),
        }
    }

    /// What the answer to what is done now must wait for, if anything.
    pub(crate) fn take_promised(&mut self) -> SyncMarks {
        let mut marks = std::mem::take(&mut self.promised);
        marks.retain(|mark| !self.is_reached(*mark));
        marks
    }

    /// Whether a log is synced that far. One that is gone has nothing left to lose.
    pub(crate) fn is_reached(&self, mark: SyncMark) -> bool {
        let Some(journal) = &self.journal else { return true };
        #[cfg(test)]
        if self.faults.confirms_early {
            return true;
        }
        match mark.log {
            JOURNAL => journal.durable.synced().0 >= mark.sequence,
            log => self.logs.get(&log).is_none_or(|log| log.synced().0 >= mark.sequence),
        }
    }

    /// Record a message for these queues.
    ///
    /// # Errors
    /// There is no room, or nothing is written any more.
    pub(crate) fn save(&mut self, parts: &Parts<'_>, queues: &[DefinitionId]) -> Result<Saved, AppendError> {
        let wall_us = self.wall_us();
        let Some(journal) = &mut self.journal else { return Err(AppendError::Busy) };
        journal.appended += parts.size() as u64 + 64;
        let content = Content { route: parts.route, properties: parts.properties, body: parts.body };
        let saved = journal.durable.message(content, queues, wall_us);
        // Who publishes from here on waits, each after one message more at the most.
        if self.blocked.is_none() && journal.durable.is_congested() {
            self.blocked = Some(crate::broker::publishing::backpressure::Shortage::Journal);
        }
        saved
    }

    /// A durable queue is done with a message: say so in the journal, if it is there.
    pub(crate) fn settle_record(&mut self, queue: DefinitionId, message: MessageId) {
        let Kept::Saved { record, queues } = self.messages.get(message).kept else { return };
        // The last word of the journal on it: whoever else has the message must not look for it there.
        if queues == 1 && self.messages.references(message) > 1 && !self.messages.get(message).is_resident() {
            self.restore(message);
        }
        let Some(journal) = &mut self.journal else { return };
        journal.durable.settled(record, queue);
        self.messages.get_mut(message).kept = match queues {
            1 => Kept::Nowhere,
            _ => Kept::Saved { record, queues: queues - 1 },
        };
    }

    /// The same for a delivery whose queue was deleted.
    pub(crate) fn settle_gone(&mut self, queue: Handle<QueueId>, entry: QueueEntry) {
        let definition = self.journal.as_mut().and_then(|journal| {
            let (definition, count) = journal.gone.get_mut(&queue)?;
            let definition = *definition;
            *count -= 1;
            if *count == 0 {
                journal.gone.remove(&queue);
            }
            Some(definition)
        });
        if let Some(definition) = definition {
            self.settle_record(definition, entry.message);
        }
        self.release(entry.message);
    }

    /// One reference to a message less.
    #[inline]
    pub(crate) fn release(&mut self, message: MessageId) {
        if let Kept::Spilled(record) = self.messages.get(message).kept
            && let Some(journal) = &mut self.journal
        {
            journal.durable.release(record);
        }
        self.messages.release(message);
    }

    /// Record what was settled in this call.
    pub(crate) fn flush(&mut self) {
        let wall_us = self.wall_us();
        if let Some(journal) = &mut self.journal {
            // What there is no room for is kept for the next time.
            _ = journal.durable.flush(wall_us);
        }
    }
}
