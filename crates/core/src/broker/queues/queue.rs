//! A queue: its entries in order, its consumers, and which entries do not fit.
//!
//! An entry is delivered to the consumer that has waited longest, or waits for one. A requeued entry goes back to where it
//! was: every entry has a position, given once, and `ready` ascends by it.

use std::sync::Arc;

use crate::broker::clock::{Clock, Micros, NEVER};
use crate::broker::consumers::consumer::Ring;
use crate::broker::disk_waits::DiskWait;
use crate::broker::durable::DefinitionId;
use crate::broker::ids::{ConsumerSlot, Handle, MessageId, Serial};
use crate::broker::queues::chunk_store::{ChunkStore, SpillError};
use crate::broker::queues::entries::{Entries, QueueEntry};
use crate::broker::queues::held_letters::HeldLetters;
use crate::broker::queues::policy::{Overflow, Policy};
use crate::broker::streams::stream::Stream;
use crate::broker::topology::QueueId;

#[derive(Debug)]
pub(crate) struct Queue {
    pub serial: Serial,
    /// The user who declared the queue, and whose queues are counted.
    pub creator: Option<Arc<str>>,
    pub policy: Policy,
    /// The definition in the journal, if the queue survives a restart, with its persistent messages.
    pub durable_id: Option<DefinitionId>,
    pub ring: Ring,
    /// All consumers, waiting or not.
    pub consumers: Vec<ConsumerSlot>,
    pub has_exclusive_consumer: bool,
    /// When the queue was last declared, fetched from or lost a consumer: `x-expires` counts from then.
    pub used: Micros,
    /// Whether the queue is in the broker's list of queues that have something to deliver.
    pub is_runnable: bool,
    /// The time at which the queue is visited because something may expire; NEVER when nothing can.
    pub timer: Micros,
    /// The log, if the queue is a stream: then no entry is ever ready.
    pub stream: Option<Box<Stream>>,
    pub unacknowledged: u32,
    /// The number of entries that were ever put here, for metrics only.
    pub published: u64,
    /// Whether the queue is in the broker's list of queues whose entries may be moved to disk.
    pub is_spillable: bool,
    /// Whether senders wait until it has room.
    pub has_waiting_senders: bool,
    /// Whether its first message is large, and waits for memory to be delivered.
    pub awaits_memory: bool,
    /// Whether its first message is on disk, and is tried again soon.
    pub awaits_disk: bool,
    /// Since when that message has been tried.
    pub disk_wait: DiskWait,
    /// Dead letters of this queue that no queue takes.
    pub held: HeldLetters,
    ready: Entries,
    ready_bytes: u64,
    /// The number of ready entries that can expire.
    expiring: usize,
    position: u64,
}

impl Queue {
    pub fn new(policy: Policy, serial: Serial, now: Micros) -> Self {
        Self {
            creator: None,
            serial,
            policy,
            durable_id: None,
            ring: Ring::default(),
            consumers: Vec::new(),
            has_exclusive_consumer: false,
            used: now,
            is_runnable: false,
            timer: NEVER,
            stream: None,
            unacknowledged: 0,
            published: 0,
            is_spillable: false,
            has_waiting_senders: false,
            awaits_memory: false,
            awaits_disk: false,
            disk_wait: DiskWait::default(),
            held: HeldLetters::default(),
            ready: Entries::default(),
            ready_bytes: 0,
            expiring: 0,
            position: 0,
        }
    }

    /// The handle of what is in this slot.
    #[inline]
    pub fn handle(&self, id: QueueId) -> Handle<QueueId> {
        Handle { id, serial: self.serial }
    }

    /// A new entry for a message, to be pushed or delivered at once.
    #[inline]
    pub fn next_entry(&mut self, message: MessageId, expires: Micros) -> QueueEntry {
        self.position += 1;
        self.published += 1;
        QueueEntry::new(self.position, message, expires)
    }

    /// Whether nothing is ready and a consumer waits, so that a new entry may be delivered without being pushed.
    #[inline]
    pub fn may_pass(&self) -> bool {
        self.ready.is_empty() && !self.ring.is_empty()
    }

    /// Add an entry of a message of this size. Returns whether a chunk is full with it and may be spilled.
    #[inline(always)]
    pub fn push(&mut self, entry: QueueEntry, size: usize, store: &mut ChunkStore) -> bool {
        self.ready_bytes += size as u64;
        self.expiring += usize::from(entry.expires != NEVER);
        self.ready.push(entry, store)
    }

    #[inline]
    pub fn front(&self) -> Option<&QueueEntry> {
        self.ready.front()
    }

    /// Whether the entry behind the first is on disk.
    #[inline]
    pub fn is_next_on_disk(&self) -> bool {
        self.ready.is_next_on_disk()
    }

    /// Bring the entry behind the first into memory. Returns false where that has to wait for the disk: ask again soon.
    pub fn fetch_next(&mut self, now: Micros, store: &mut ChunkStore) -> bool {
        let is_there = self.ready.fetch_next(self.disk_wait.wait(now), store);
        self.disk_wait.note(is_there, now);
        is_there
    }

    /// Take out the first entry; `size` is its message's, as it was when it was pushed.
    #[inline(always)]
    pub fn pop(&mut self, size: usize, store: &mut ChunkStore) -> Option<QueueEntry> {
        let entry = self.ready.pop(store)?;
        self.ready_bytes -= size as u64;
        self.expiring -= usize::from(entry.expires != NEVER);
        if self.ready.is_empty() {
            // Entries that could not be read back from disk were counted until now.
            self.ready_bytes = 0;
            self.expiring = 0;
        }
        Some(entry)
    }

    /// Put an entry back where it was. It is nearly always older than all that are ready.
    pub fn requeue(&mut self, mut entry: QueueEntry, size: usize, store: &mut ChunkStore) {
        entry.redelivered = true;
        self.ready_bytes += size as u64;
        self.expiring += usize::from(entry.expires != NEVER);
        self.ready.insert(entry, store);
    }

    /// Put many entries back.
    pub fn requeue_many(&mut self, mut entries: Vec<(QueueEntry, usize)>, store: &mut ChunkStore) {
        entries.sort_unstable_by_key(|(entry, _)| entry.position);
        let first_ready = self.front().map_or(u64::MAX, |entry| entry.position);
        let is_older = entries.last().is_none_or(|(entry, _)| entry.position < first_ready);
        if is_older {
            entries.reverse();
        }
        entries.into_iter().for_each(|(entry, size)| self.requeue(entry, size, store));
    }

    /// Take out all ready entries, for purge and deletion.
    pub fn drain(&mut self) -> Entries {
        self.ready_bytes = 0;
        self.expiring = 0;
        std::mem::take(&mut self.ready)
    }

    /// Move a chunk of entries to disk, if one may be. Returns whether there are more.
    ///
    /// # Errors
    /// The disk takes nothing now.
    pub fn spill(&mut self, store: &mut ChunkStore) -> Result<bool, SpillError> {
        self.ready.spill(store)?;
        self.is_spillable = self.ready.can_spill();
        Ok(self.is_spillable)
    }

    pub fn ready(&self) -> &Entries {
        &self.ready
    }

    pub fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }

    /// Whether a ready entry can expire.
    pub fn has_expiring(&self) -> bool {
        self.expiring > 0
    }

    /// The time at which the first entry expires, or the queue itself because nobody uses it; at once where it is over its
    /// bounds.
    #[inline]
    pub fn deadline(&self) -> Micros {
        if self.policy.is_bounded() && self.is_over() {
            return 0;
        }
        self.front().map_or(NEVER, |front| front.expires).min(self.unused_until())
    }

    /// The time at which the queue is deleted if nobody uses it before.
    pub fn unused_until(&self) -> Micros {
        match self.policy.expires_ms {
            Some(milliseconds) if self.consumers.is_empty() => self.used.saturating_add(milliseconds * 1000),
            _ => NEVER,
        }
    }

    /// Whether it may be deleted when nobody uses it. The queue of an address is never deleted with messages in it.
    pub fn may_be_unused(&self) -> bool {
        self.policy.address.is_none() || (self.ready.is_empty() && self.unacknowledged == 0)
    }

    /// Whether it exceeds its maximum length or size, so that the oldest entries must be dropped. A queue that refuses
    /// messages, or lets senders wait, drops none: what comes back to it stays.
    pub fn is_over(&self) -> bool {
        let drops = self.policy.overflow == Overflow::DropHead;
        drops && self.policy.is_over(self.ready.len() as u64, self.ready_bytes)
    }

    /// Whether one more message of this size would not fit, and is refused.
    pub fn refuses(&self, size: usize) -> bool {
        self.policy.rejects() && self.has_no_room(size)
    }

    /// Whether one more message of this size would not fit, and its sender waits.
    pub fn blocks(&self, size: usize) -> bool {
        self.policy.blocks() && self.has_no_room(size)
    }

    fn has_no_room(&self, size: usize) -> bool {
        self.has_no_room_for(1, size as u64)
    }

    /// Whether `count` more messages of `bytes` would not fit. Dead letters that the queue holds take room.
    pub fn has_no_room_for(&self, count: u64, bytes: u64) -> bool {
        let (held, held_bytes) = (self.held.len() as u64, self.held.size_bytes());
        self.policy.is_over(self.ready.len() as u64 + held + count, self.ready_bytes + held_bytes + bytes)
    }

    /// The time at which a message that is put here `now` expires: after its own time to live or the queue's, whichever
    /// is shorter.
    #[inline]
    pub fn expiry(&self, now: Micros, own_ms: Option<u64>) -> Micros {
        match (self.policy.message_ttl_ms, own_ms) {
            (None, None) => NEVER,
            (Some(ttl), None) | (None, Some(ttl)) => now.saturating_add(ttl.saturating_mul(1000)),
            (Some(ttl), Some(own)) => now.saturating_add(ttl.min(own).saturating_mul(1000)),
        }
    }

    /// The expiry of a message that was published at `time_us` on the wall clock. Its time also runs while the broker is
    /// stopped.
    pub fn recovered_expiry(&self, clock: Clock, time_us: i64, own_ms: Option<u64>) -> Micros {
        let age = clock.wall_us().saturating_sub(time_us).max(0) as u64;
        match self.expiry(0, own_ms) {
            NEVER => NEVER,
            time_to_live => clock.now().saturating_add(time_to_live.saturating_sub(age)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::slab::SlotId;
    use crate::testing::rounds;

    fn filled(count: u64) -> (Queue, ChunkStore) {
        let mut queue = Queue::new(Policy::default(), Serial(0), 0);
        let mut store = ChunkStore::default();
        for _ in 0..count {
            let entry = queue.next_entry(MessageId::NONE, NEVER);
            queue.push(entry, 10, &mut store);
        }
        (queue, store)
    }

    fn positions(queue: &Queue, store: &ChunkStore) -> Vec<u64> {
        queue.ready().to_vec(store).iter().map(|entry| entry.position).collect()
    }

    #[test]
    fn what_comes_back_stands_where_it_stood() {
        let (mut queue, mut store) = filled(5);
        let taken: Vec<QueueEntry> = (0..4).filter_map(|_| queue.pop(10, &mut store)).collect();
        assert_eq!((queue.ready_bytes(), positions(&queue, &store)), (10, vec![5]));
        for index in [1, 3, 0, 2] {
            queue.requeue(taken[index], 10, &mut store);
        }
        assert_eq!((queue.ready_bytes(), positions(&queue, &store)), (50, vec![1, 2, 3, 4, 5]));
        let mut redelivered = 0;
        queue.ready().for_each_redelivered(&store, |_| redelivered += 1);
        assert_eq!(redelivered, 4);
    }

    #[test]
    fn many_come_back_in_order_between_those_that_are_ready() {
        for pattern in rounds(0u32..256) {
            let (mut queue, mut store) = filled(8);
            let mut out = Vec::new();
            let mut back = Vec::new();
            while let Some(entry) = queue.pop(10, &mut store) {
                out.push(entry);
            }
            for entry in out {
                if pattern >> (entry.position - 1) & 1 == 1 {
                    back.push((entry, 10));
                } else {
                    queue.push(entry, 10, &mut store);
                }
            }
            back.reverse();
            queue.requeue_many(back, &mut store);
            assert_eq!(
                (positions(&queue, &store), queue.ready_bytes()),
                ((1..=8).collect(), 80),
                "pattern {pattern:08b}"
            );
        }
    }

    #[test]
    fn a_message_passes_only_an_empty_queue_with_somebody_waiting() {
        let (mut queue, _) = filled(1);
        queue.ring.wait(ConsumerSlot::from_index(0), 0);
        assert!(!queue.may_pass());
        queue.drain();
        assert!(queue.may_pass());
    }
}
