//! Spilling: messages that do not fit into memory wait on disk.
//!
//! Above half of the watermark, new messages leave memory as soon as the journal has them: those that are recorded anyway
//! need nothing for it, others are written there first. Above three quarters, older messages leave too. A message that is
//! delivered from disk is read for that delivery and not kept. Entries of queues go to disk in chunks, beginning at half
//! of the watermark too. Above the watermark itself publishers are blocked (`backpressure.rs`).

use crate::broker::Broker;
use crate::broker::clock::Micros;
use crate::broker::connections::turn::SideWork;
use crate::broker::durability::journal_access::Durability;
use crate::broker::durable::DefinitionId;
use crate::broker::ids::MessageId;
use crate::broker::management::event::Event;
use crate::broker::queues::all_queues::Unreachable;
use crate::broker::queues::entries::QueueEntry;
use crate::broker::queues::message_store::{Kept, MessageStore};
use crate::broker::topology::QueueId;

/// The number of older messages that leave memory per new one: more than one, so that they are soon gone.
const OLDER_EACH: usize = 2;

/// The number of slots that are searched per older message, so that the work per message has a bound.
const OLDER_LOOKED_AT: u32 = 16;

/// The number of older messages that leave memory in one tick.
const OLDER_A_TICK: usize = 1000;

/// Maximum number of chunks of entries that are moved to disk in one call.
const CHUNKS_AT_ONCE: usize = 256;
/// The time that moving them may take: a disk may be slow.
const CHUNKS_US: Micros = 500;

/// The number of unreachable entries that are released in one call, which takes about 100 µs.
const UNREACHABLE_AT_ONCE: usize = 1000;
/// The time that releasing them may take: large bodies take longer to free.
const UNREACHABLE_US: Micros = 250;

impl MessageStore {
    /// Let a message leave memory as soon as the journal has it.
    fn make_evictable(&mut self, id: MessageId, durability: &mut Durability, wall_us: i64) {
        let message = self.get_mut(id);
        if message.kept == Kept::Nowhere {
            let Some(content) = message.content() else { return };
            // Without room it stays in memory, and counts there.
            let Some(saved) = durability.spill(content, wall_us) else { return };
            message.kept = Kept::Spilled(saved.record);
            message.sequence = saved.sequence.0;
        }
        if message.is_resident() {
            durability.push_evictable(id, message.sequence);
        }
    }
}

impl Broker {
    /// Whether more is in memory than should stay there.
    #[inline]
    fn is_crowded(&self) -> bool {
        self.memory_bytes() > self.options.memory_bytes_max / 2
    }

    /// When memory is crowded, let a message that was put into queues leave it, together with older ones.
    #[inline]
    pub(crate) fn spill(&mut self, message: MessageId) {
        if !self.durability.is_on() || !self.is_crowded() {
            return;
        }
        let wall_us = self.clock.wall_us();
        if self.messages.find(message).is_some() {
            self.messages.make_evictable(message, &mut self.durability, wall_us);
        }
        if self.is_very_crowded() {
            self.spill_some_older(OLDER_EACH);
        }
    }

    /// Whether older messages leave memory, too.
    pub(crate) fn is_very_crowded(&self) -> bool {
        self.memory_bytes() > self.options.memory_bytes_max / 4 * 3
    }

    fn spill_some_older(&mut self, count: usize) {
        let wall_us = self.clock.wall_us();
        for _ in 0..count {
            if let Some(older) = self.messages.next_resident(OLDER_LOOKED_AT) {
                self.messages.make_evictable(older, &mut self.durability, wall_us);
            }
        }
    }

    /// Let some older messages leave memory, also when nobody publishes: something else may have taken it.
    pub(crate) fn spill_older(&mut self) {
        self.queues.chunks_mut().try_again();
        if self.durability.is_on() && !self.durability.is_congested() && self.is_very_crowded() {
            self.spill_some_older(OLDER_A_TICK);
        }
    }

    /// Whether entries are to be moved to disk now.
    pub(crate) fn can_spill_entries(&self) -> bool {
        self.queues.has_spillable() && self.is_crowded()
    }

    /// While memory is crowded, move some chunks of entries to disk: chunks that are neither the first nor the last of
    /// their queue.
    pub(crate) fn spill_entries(&mut self) {
        if let Some((count, reason)) = self.queues.chunks_mut().take_lost() {
            self.metrics.lost += count;
            let queue = String::new();
            self.events.push(Event::MessageLost { queue, reason: format!("{count} entries of queues: {reason}") });
        }
        if let Some((disk, emptied)) = self.queues.chunks_mut().take_emptied() {
            self.durability.remove_files_later(&disk, emptied);
        }
        if !self.can_spill_entries() {
            return;
        }
        let others = self.memory_bytes() - self.queues.chunks().resident_bytes();
        let enough = self.options.memory_bytes_max / 2;
        let limit = self.turn.begin_side_work(SideWork::Spill, CHUNKS_US);
        let is_wanted = |bytes| others + bytes > enough && !limit.is_reached();
        if let Err(reason) = self.queues.spill(CHUNKS_AT_ONCE, is_wanted) {
            self.events.push(Event::SpillFailed { reason: reason.to_string() });
        }
        self.turn.end_side_work(SideWork::Spill, limit);
    }

    /// Let messages leave memory that are on disk by now, while it is crowded, as far as a turn goes.
    pub(crate) fn evict(&mut self) {
        self.turn.begin();
        while !self.turn.is_over()
            && let Some((message, sequence)) = self.durability.next_evictable()
        {
            self.turn.spend(1);
            if self.is_crowded()
                && let Some(stored) = self.messages.find(message)
                // The slot may be another message's by now, which has another record.
                && stored.sequence == sequence
                && stored.kept != Kept::Nowhere
            {
                self.messages.evict(message);
            }
        }
    }

    /// Tell operators that messages of a queue cannot be read.
    pub(crate) fn report_lost(&mut self, queue: QueueId, reason: String) {
        self.metrics.lost += 1;
        let name = self.topology.queue_info(queue).map_or("", |info| info.name).to_owned();
        self.events.push(Event::MessageLost { queue: name, reason });
    }

    /// Release some of the entries that nobody can reach.
    pub(crate) fn sweep(&mut self) {
        if !self.queues.has_unreachable() {
            return;
        }
        let limit = self.turn.begin_side_work(SideWork::Sweep, UNREACHABLE_US);
        for _ in 0..UNREACHABLE_AT_ONCE {
            if limit.is_reached() {
                break;
            }
            match self.queues.next_unreachable(self.clock.now()) {
                Some(Unreachable::Entry(entry, durable_id)) => self.release_entry(entry, durable_id),
                Some(Unreachable::EndOfPurge) => self.durability.purge_settled(),
                Some(Unreachable::End) => {}
                None => break,
            }
        }
        self.turn.end_side_work(SideWork::Sweep, limit);
    }

    /// Release the message of an entry, and settle it for the durable queue that it was in.
    #[inline]
    pub(crate) fn release_entry(&mut self, entry: QueueEntry, durable_id: Option<DefinitionId>) {
        self.messages.release(entry.message, durable_id, &mut self.durability);
    }
}
