//! All queues, with lists of those that have something to deliver, to expire or to clean up.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use smallvec::SmallVec;

use crate::broker::clock::{Micros, NEVER};
use crate::broker::dense_map::DenseMap;
use crate::broker::disk_waits::DiskWait;
use crate::broker::durable::DefinitionId;
use crate::broker::ids::Handle;
use crate::broker::queues::chunk_store::{ChunkStore, SpillError};
use crate::broker::queues::entries::{Entries, QueueEntry};
use crate::broker::queues::message_store::MessageStore;
use crate::broker::queues::queue::Queue;
use crate::broker::queues::timers::Timers;
use crate::broker::topology::QueueId;

/// The contents of queues, by the topology's ids.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    queues: DenseMap<QueueId, Queue>,
    /// The number of queues that refuse what does not fit.
    refusing: usize,
    /// The number of queues whose senders wait when a message does not fit.
    blocking: usize,
    /// Queues for which senders wait, and that may have room now.
    relieved: Vec<Handle<QueueId>>,
    /// Queues that may have something to deliver, in the order of their turns.
    runnable: VecDeque<QueueId>,
    /// Queues whose first message waits for memory.
    awaiting_memory: Vec<Handle<QueueId>>,
    /// When something in a queue, or the queue itself, may expire.
    timers: Timers,
    /// Queues with chunks of entries that may be moved to disk.
    spillable: VecDeque<Handle<QueueId>>,
    /// The chunks of entries of all queues.
    chunks: ChunkStore,
    /// Exclusive queues of connections that are gone, to be removed a few at a time.
    abandoned: Vec<Handle<QueueId>>,
    /// Entries of purged and deleted queues, released a few at a time, because releasing a million would stop everybody.
    unreachable: VecDeque<UnreachableEntries>,
    /// Since when the first of them have asked the disk.
    unreachable_wait: DiskWait,
}

/// Entries that nobody can reach any more.
#[derive(Debug)]
struct UnreachableEntries {
    entries: Entries,
    /// The definition of a durable queue: its entries are settled there.
    durable_id: Option<DefinitionId>,
    /// Whether an answer waits until they are.
    is_purge: bool,
}

/// The next of what nobody can reach any more.
#[derive(Debug)]
pub(crate) enum Unreachable {
    /// An entry, with the definition of the durable queue that it was in.
    Entry(QueueEntry, Option<DefinitionId>),
    /// The end of a deleted queue, or of a purge of a queue that is not durable.
    End,
    /// The end of a purge of a durable queue.
    EndOfPurge,
}

impl Queues {
    /// The queue with this id, if there is one.
    pub fn get(&self, id: QueueId) -> Option<&Queue> {
        self.queues.get(id)
    }

    /// The queue with this id, if there is one.
    pub fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.queues.get_mut(id)
    }

    /// The queue that a handle was made for, if it is still there.
    #[inline]
    pub fn queue_of(&mut self, handle: Handle<QueueId>) -> Option<&mut Queue> {
        self.queues.get_mut(handle.id).filter(|queue| queue.serial == handle.serial)
    }

    /// Whether the queue that a handle was made for is still there.
    #[inline]
    pub fn is_there(&self, handle: Handle<QueueId>) -> bool {
        self.queues.get(handle.id).is_some_and(|queue| queue.serial == handle.serial)
    }

    /// Add a queue.
    pub fn insert(&mut self, id: QueueId, queue: Queue) {
        self.refusing += usize::from(queue.policy.rejects());
        self.blocking += usize::from(queue.policy.blocks());
        self.queues.insert(id, queue);
    }

    /// Take a queue out.
    pub fn remove(&mut self, id: QueueId) -> Option<Queue> {
        let queue = self.queues.remove(id)?;
        self.refusing -= usize::from(queue.policy.rejects());
        self.blocking -= usize::from(queue.policy.blocks());
        self.relieve(id, &queue);
        self.timers.move_timer(id, queue.timer, NEVER);
        Some(queue)
    }

    /// Every queue with its id.
    pub fn iter(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        self.queues.iter()
    }

    /// Have the entry behind the first of a queue in memory. Returns false where that has to wait for the disk: ask again soon.
    #[inline]
    pub fn fetch_next(&mut self, id: QueueId, now: Micros) -> bool {
        let queue = &mut self.queues[id];
        !queue.is_next_on_disk() || queue.fetch_next(now, &mut self.chunks)
    }

    /// Take the first entry of a queue.
    #[inline(always)]
    pub fn pop(&mut self, id: QueueId, messages: &MessageStore) -> Option<QueueEntry> {
        let queue = &mut self.queues[id];
        let size = messages.get(queue.front()?.message).size();
        let entry = queue.pop(size, &mut self.chunks);
        if queue.has_waiting_senders {
            self.relieved.push(queue.handle(id));
        }
        if queue.has_expiring() {
            self.set_timer(id);
        }
        entry
    }

    /// Note that a queue may have room for senders that wait, because it holds fewer dead letters.
    pub fn note_room(&mut self, id: QueueId) {
        let queue = &self.queues[id];
        if queue.has_waiting_senders {
            self.relieved.push(queue.handle(id));
        }
    }

    /// Note that a queue may have room for senders that wait.
    fn relieve(&mut self, id: QueueId, queue: &Queue) {
        if queue.has_waiting_senders {
            self.relieved.push(queue.handle(id));
        }
    }

    /// A queue that may have room for senders that wait for it, or is gone.
    pub fn next_relieved(&mut self) -> Option<Handle<QueueId>> {
        self.relieved.pop()
    }

    /// Whether senders that wait may go on.
    pub fn has_relieved(&self) -> bool {
        !self.relieved.is_empty()
    }

    /// The first of these queues that has no room for a message of this size, and whose senders wait.
    #[inline]
    pub fn first_blocking(&self, routed: &[QueueId], size: usize) -> Option<QueueId> {
        if self.blocking == 0 {
            return None;
        }
        routed.iter().copied().find(|id| self.queues[*id].blocks(size))
    }

    /// Add an entry of a message of this size to a queue.
    #[inline(always)]
    pub fn push(&mut self, id: QueueId, entry: QueueEntry, size: usize) {
        if self.queues[id].push(entry, size, &mut self.chunks) {
            self.list_spillable(id);
        }
    }

    /// Put an entry back into a queue, where it was.
    pub fn requeue(&mut self, id: QueueId, entry: QueueEntry, size: usize) {
        self.queues[id].requeue(entry, size, &mut self.chunks);
        self.list_spillable(id);
    }

    /// Put many entries back into a queue, where they were.
    pub fn requeue_many(&mut self, id: QueueId, entries: Vec<(QueueEntry, usize)>) {
        self.queues[id].requeue_many(entries, &mut self.chunks);
        self.list_spillable(id);
    }

    fn list_spillable(&mut self, id: QueueId) {
        let queue = &mut self.queues[id];
        if !queue.is_spillable && queue.ready().can_spill() {
            queue.is_spillable = true;
            self.spillable.push_back(queue.handle(id));
        }
    }

    /// Move chunks of entries to disk while `is_wanted` says so of the memory that chunks take, at most `count_max`.
    /// Returns how many were moved.
    ///
    /// # Errors
    /// The disk takes nothing now.
    pub fn spill(&mut self, count_max: usize, is_wanted: impl Fn(u64) -> bool) -> Result<usize, SpillError> {
        let mut count = 0;
        while count < count_max && is_wanted(self.chunks.resident_bytes()) {
            let Some(handle) = self.spillable.front().copied() else { break };
            let queue = self.queues.get_mut(handle.id).filter(|queue| queue.serial == handle.serial);
            let has_more = queue.map_or(Ok(false), |queue| queue.spill(&mut self.chunks))?;
            count += 1;
            if !has_more {
                self.spillable.pop_front();
            }
        }
        Ok(count)
    }

    /// Whether entries may be moved to disk.
    pub fn has_spillable(&self) -> bool {
        !self.spillable.is_empty() && self.chunks.can_spill()
    }

    /// The chunks of entries of all queues.
    pub fn chunks(&self) -> &ChunkStore {
        &self.chunks
    }

    /// The chunks of entries of all queues.
    pub fn chunks_mut(&mut self) -> &mut ChunkStore {
        &mut self.chunks
    }

    /// Take those out of `routed` that refuse a message of this size. None of them is a stream.
    #[inline]
    pub fn take_refusing(&self, routed: &mut Vec<QueueId>, size: usize) -> SmallVec<[QueueId; 1]> {
        let mut refusing = SmallVec::new();
        if self.refusing == 0 {
            return refusing;
        }
        routed.retain(|id| {
            let refuses = self.queues[*id].refuses(size);
            if refuses {
                refusing.push(*id);
            }
            !refuses
        });
        refusing
    }

    /// Settle a delivery of a stream, in any way: the log keeps the message for other readers.
    pub fn read_by_one(&mut self, handle: Handle<QueueId>) {
        if let Some(queue) = self.queue_of(handle) {
            queue.unacknowledged -= 1;
        }
    }

    /// The number of queues.
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Deliver from this queue at the end of the call, if it has something for somebody.
    pub fn schedule(&mut self, id: QueueId) {
        let queue = &mut self.queues[id];
        if !queue.is_runnable && !queue.ring.is_empty() && !queue.ready().is_empty() {
            queue.is_runnable = true;
            self.runnable.push_back(id);
        }
    }

    /// Note that the first message of a queue waits for memory.
    pub fn await_memory(&mut self, id: QueueId) {
        let queue = &mut self.queues[id];
        if !queue.awaits_memory {
            queue.awaits_memory = true;
            self.awaiting_memory.push(queue.handle(id));
        }
    }

    /// Schedule the queues whose first message has waited for memory.
    pub fn try_awaiting_memory(&mut self) {
        for handle in std::mem::take(&mut self.awaiting_memory) {
            if let Some(queue) = self.queue_of(handle) {
                queue.awaits_memory = false;
                self.schedule(handle.id);
            }
        }
    }

    /// The next queue that was scheduled.
    pub fn next_runnable(&mut self) -> Option<QueueId> {
        while let Some(id) = self.runnable.pop_front() {
            if let Some(queue) = self.queues.get_mut(id)
                && queue.is_runnable
            {
                queue.is_runnable = false;
                return Some(id);
            }
        }
        None
    }

    /// Visit this queue when its first entry expires, or the queue itself, unless it is visited earlier.
    #[inline]
    pub fn set_timer(&mut self, id: QueueId) {
        let queue = &mut self.queues[id];
        let deadline = queue.deadline();
        if deadline < queue.timer {
            self.timers.move_timer(id, queue.timer, deadline);
            queue.timer = deadline;
        }
    }

    /// The next queue whose timer has run out: it has none from now on.
    pub fn next_due(&mut self, now: Micros) -> Option<QueueId> {
        let id = self.timers.due(now)?;
        let queue = &mut self.queues[id];
        self.timers.move_timer(id, queue.timer, NEVER);
        queue.timer = NEVER;
        Some(id)
    }

    /// Visit this queue at a later time than its deadline.
    pub fn put_off(&mut self, id: QueueId, until: Micros) {
        let queue = &mut self.queues[id];
        self.timers.move_timer(id, queue.timer, until);
        queue.timer = until;
    }

    /// Whether something has to expire now.
    pub fn is_due(&self, now: Micros) -> bool {
        self.timers.is_due(now)
    }

    /// The timers of queues.
    pub fn timers(&mut self) -> &mut Timers {
        &mut self.timers
    }

    /// Remove this queue later, because its connection or its last consumer is gone.
    pub fn abandon(&mut self, id: QueueId) {
        if let Some(queue) = self.queues.get(id) {
            self.abandoned.push(queue.handle(id));
        }
    }

    /// The next queue to remove.
    pub fn next_abandoned(&mut self) -> Option<QueueId> {
        while let Some(handle) = self.abandoned.pop() {
            if self.queue_of(handle).is_some() {
                return Some(handle.id);
            }
        }
        None
    }

    /// Whether queues wait to be removed.
    pub fn has_abandoned(&self) -> bool {
        !self.abandoned.is_empty()
    }

    /// Take out all that is ready in a queue, to be released later. Returns how many entries that were. The end of a
    /// purge of a durable queue, `is_purge`, is told.
    pub fn drain(&mut self, id: QueueId, is_purge: bool) -> u32 {
        let queue = &mut self.queues[id];
        if queue.has_waiting_senders {
            self.relieved.push(queue.handle(id));
        }
        let entries = queue.drain();
        let count = entries.len() as u32;
        if count > 0 {
            self.unreachable.push_back(UnreachableEntries { entries, durable_id: queue.durable_id, is_purge });
        } else {
            entries.free(&mut self.chunks);
        }
        count
    }

    /// Whether entries wait to be released.
    pub fn has_unreachable(&self) -> bool {
        !self.unreachable.is_empty()
    }

    /// The next entry to release, or the end of a group. None where it has to come from the disk.
    pub fn next_unreachable(&mut self, now: Micros) -> Option<Unreachable> {
        let UnreachableEntries { entries, durable_id, .. } = self.unreachable.front_mut()?;
        if entries.is_next_on_disk() {
            let is_there = entries.fetch_next(self.unreachable_wait.wait(now), &mut self.chunks);
            self.unreachable_wait.note(is_there, now);
            if !is_there {
                return None;
            }
        }
        if let Some(entry) = entries.pop(&mut self.chunks) {
            return Some(Unreachable::Entry(entry, *durable_id));
        }
        let UnreachableEntries { entries, is_purge, .. } = self.unreachable.pop_front()?;
        entries.free(&mut self.chunks);
        Some(if is_purge { Unreachable::EndOfPurge } else { Unreachable::End })
    }

    /// Every entry that waits to be released.
    #[cfg(test)]
    pub fn unreachable(&self) -> impl Iterator<Item = &Entries> {
        self.unreachable.iter().map(|unreachable| &unreachable.entries)
    }

    /// Whether a queue is scheduled.
    pub fn has_runnable(&self) -> bool {
        !self.runnable.is_empty()
    }
}

impl Index<QueueId> for Queues {
    type Output = Queue;

    #[inline]
    fn index(&self, id: QueueId) -> &Queue {
        &self.queues[id]
    }
}

impl IndexMut<QueueId> for Queues {
    #[inline]
    fn index_mut(&mut self, id: QueueId) -> &mut Queue {
        &mut self.queues[id]
    }
}
