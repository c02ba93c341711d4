//! The broker's actions when more is on disk, when the disk is stuck, and when the broker stops.
//!
//! Whatever depends on something being on disk (confirms, answers to declarations and commits) waits for a [`DiskMark`]
//! and goes out in [`Broker::committed`].

use crate::amqp::ReplyCode;

use crate::broker::Broker;
use crate::broker::clock::Micros;
use crate::broker::durable::DefinitionId;
use crate::broker::errors::error;
use crate::broker::ids::{CHANGES, COMMITS, JOURNAL, PURGES, RETIRED};
use crate::broker::management::event::Event;
use crate::broker::publishing::confirms::{DiskMark, DiskMarks};
use crate::broker::queues::all_queues::Queues;
use crate::broker::queues::letter::Reason;
use crate::broker::queues::message_store::Kept;
use crate::broker::queues::queue::Queue;
use crate::broker::topology::{Definition, Owner, Topology};

/// The time that compaction may take in one call: what it copies may have to be read from the disk.
const COMPACT_US: Micros = 500;

impl Broker {
    /// Confirm what is on disk now, and check whether the disk works. Call it when the journal's thread wakes the caller.
    pub fn committed(&mut self, now: Micros) {
        self.clock.advance(now);
        if let Some(reason) = self.durability.take_failure() {
            self.events.push(Event::Fatal { reason });
        }
        self.record_changes();
        self.go_on_with_declarations();
        self.durability.remove_forgotten();
        self.finish_synced_letters();
        self.durability.sync_settlements();
        self.settle_waiting();
        self.wake_streams();
        self.evict();
        self.durability.compact(self.turn.time_limit(COMPACT_US));
        self.finish();
    }

    /// Write and sync what was recorded: for a committer without a thread, in a simulation. Then call
    /// [`Broker::committed`].
    pub fn commit_once(&self) {
        self.durability.commit_once();
        self.streams.summarizer.run_once();
    }

    /// Let declarations of streams go on whose logs the committer has opened.
    fn go_on_with_declarations(&mut self) {
        for id in self.durability.take_ready(self.clock.now()) {
            if let Some(connection) = self.clients.find(id) {
                self.release(connection);
            }
        }
    }

    /// The reason why nothing more can be made durable, if so: nothing is confirmed any more, and the process must end.
    #[must_use]
    pub fn fatal(&self) -> Option<&str> {
        self.durability.failed()
    }

    /// End a clean stop: record the unacknowledged deliveries, so that only these are flagged as redelivered next time.
    pub(crate) fn stop_journal(&mut self) {
        let mut delivered = Vec::new();
        for (_, queue) in self.queues.iter() {
            let Some(durable_id) = queue.durable_id else { continue };
            queue.ready().for_each_redelivered(self.queues.chunks(), |entry| {
                if let Kept::Saved { record, .. } = self.messages.get(entry.message).kept {
                    delivered.push((record, durable_id));
                }
            });
        }
        for letter in self.all_letters().filter(|letter| letter.reason == Reason::Rejected) {
            if let (Some(durable_id), Kept::Saved { record, .. }) =
                (letter.source.durable_id, self.messages.get(letter.entry.message).kept)
            {
                delivered.push((record, durable_id));
            }
        }
        self.durability.stop(&delivered, self.clock.wall_us());
    }

    /// Refuse answers that have waited too long for room on the disk. Publishers were told to wait, and do.
    pub(crate) fn refuse_held(&mut self) {
        if !self.durability.is_stuck_too_long(self.clock.now()) {
            return;
        }
        for handle in self.publishing.awaiting().to_vec() {
            // A connection that was closed for one of its channels has taken the others with it.
            if let Some(channel) = self.clients.channel_of(handle).filter(|channel| !channel.held.is_empty()) {
                let (connection, number) = (channel.connection, channel.number);
                if !self.clients[connection].was_told_blocked {
                    let reason = "low on disk: what was declared is not kept until there is room";
                    self.refuse(connection, number, error(ReplyCode::ResourceError, reason));
                }
            }
        }
    }

    /// Record changes of the topology, as far as there is room; the answer to the current method waits for them.
    pub(crate) fn record_changes(&mut self) {
        let wall_us = self.clock.wall_us();
        let (topology, queues, letters) = (&self.topology, &mut self.queues, &self.letters);
        let defined = |definition: &Definition, id| {
            if let Some(queue) = queue_of(definition, topology, queues) {
                queue.durable_id = Some(id);
            }
        };
        if let Some(sequence) = self.durability.record_changes(wall_us, |id| letters.are_from(id), defined) {
            self.publishing.promise(DiskMark { log: JOURNAL, sequence });
        }
        self.await_changes();
    }

    /// Let the answer to the current method wait for the changes that there is no room for yet.
    pub(crate) fn await_changes(&mut self) {
        if let Some(mark) = self.durability.waiting_changes() {
            self.publishing.promise(mark);
        }
    }

    /// Record what was settled in this call, and deletions of queues whose dead letters are published now.
    pub(crate) fn record_settled(&mut self) {
        let letters = &self.letters;
        self.durability.flush(self.clock.wall_us(), |id| letters.are_from(id));
    }

    /// Take the marks that the answer to the current method must wait for.
    pub(crate) fn take_promised(&mut self) -> DiskMarks {
        let mut marks = self.publishing.take_promised();
        marks.retain(|mark| !self.is_reached(*mark));
        marks
    }

    /// Whether all logs are synced up to their marks.
    pub(crate) fn are_reached(&self, marks: &DiskMarks) -> bool {
        marks.iter().all(|mark| self.is_reached(*mark))
    }

    /// Whether a log is synced up to `mark`.
    pub(crate) fn is_reached(&self, mark: DiskMark) -> bool {
        #[cfg(test)]
        match [PURGES, COMMITS].contains(&mark.log) {
            true if self.faults.settles_early => return true,
            false if self.faults.confirms_early => return true,
            _ => {}
        }
        match mark.log {
            _ if !self.durability.is_on() => true,
            JOURNAL => self.durability.is_synced(mark.sequence),
            CHANGES => self.durability.are_changes_synced(mark.sequence),
            RETIRED => self.durability.is_forgotten(DefinitionId(mark.sequence)),
            PURGES => self.durability.is_purged(mark.sequence),
            COMMITS => self.durability.is_commit_kept(mark.sequence),
            _ => self.streams.is_reached(mark),
        }
    }
}

/// The queue that a definition describes.
fn queue_of<'a>(definition: &Definition, topology: &Topology, queues: &'a mut Queues) -> Option<&'a mut Queue> {
    let Definition::Queue { vhost, name, .. } = definition else { return None };
    let id = topology.queue(topology.vhost(vhost)?, name, Owner::MAX).ok()?;
    queues.get_mut(id)
}
