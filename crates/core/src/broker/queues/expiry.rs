//! Expiry: messages whose time runs out, and queues that nobody uses, are removed.
//!
//! Entries expire at the head of their queue, when its timer runs out and before anything is delivered from it. An entry
//! behind one that lives longer waits until it is at the head: nobody gets it after its time, but it counts until then.
//!
//! Expiring is work of a turn (`connections/fairness.rs`), like any other: when a million entries expire at once, the call
//! ends with its turn, and [`Broker::work`] goes on. Until then the queue delivers nothing.

use crate::broker::Broker;
use crate::broker::clock::Micros;
use crate::broker::disk_waits::RETRY_US;
use crate::broker::queues::letter::Reason;
use crate::broker::topology::QueueId;

/// The cost of dropping an entry, in steps of a turn.
pub(crate) const DROP_STEPS: u32 = 4;
/// The cost of removing a queue, in steps of a turn.
const REMOVE_STEPS: u32 = 40;
/// The time after which a queue is visited again that can make no dead letters now, in microseconds.
pub(crate) const LETTERS_AGAIN_US: Micros = 100_000;

impl Broker {
    /// Drop entries from the head of a queue whose time has run out, as far as the turn goes. Returns whether the head may
    /// be delivered: not while the queue holds too many dead letters.
    pub(crate) fn expire_head(&mut self, queue: QueueId) -> bool {
        if self.queues[queue].held.are_too_many() {
            self.queues.put_off(queue, self.clock.now() + LETTERS_AGAIN_US);
            return false;
        }
        while let Some(front) = self.queues[queue].front()
            && front.expires <= self.clock.now()
        {
            if self.letters.is_congested() && self.queues[queue].policy.dead_letters.is_some() {
                self.queues.put_off(queue, self.clock.now() + LETTERS_AGAIN_US);
                return false;
            }
            if self.turn.is_over() {
                self.queues.set_timer(queue);
                return false;
            }
            if !self.queues.fetch_next(queue, self.clock.now()) {
                self.queues.put_off(queue, self.clock.now() + RETRY_US);
                return false;
            }
            self.expire_entry(queue);
        }
        true
    }

    fn expire_entry(&mut self, queue: QueueId) {
        let Some(entry) = self.queues.pop(queue, &self.messages) else { return };
        self.turn.spend(DROP_STEPS);
        self.metrics.expired += 1;
        self.discard(queue, entry, Reason::Expired);
    }

    /// Expire what is due, as far as the turn goes. A broker that has stopped has recorded its end, and expires no more.
    pub(crate) fn expire(&mut self) {
        while !self.is_stopping
            && !self.turn.is_over()
            && let Some(queue) = self.queues.next_due(self.clock.now())
        {
            self.turn.spend(DROP_STEPS);
            self.expire_in(queue);
        }
    }

    fn expire_in(&mut self, queue: QueueId) {
        let may_deliver = self.expire_head(queue);
        let it = &mut self.queues[queue];
        if it.unused_until() <= self.clock.now() && !it.may_be_unused() {
            it.used = self.clock.now();
        }
        if it.unused_until() <= self.clock.now() {
            self.turn.spend(REMOVE_STEPS);
            return self.remove_queue(queue);
        }
        if may_deliver && self.drop_head(queue) {
            self.queues.set_timer(queue);
        }
        // Consumers may have waited for what stands behind.
        self.queues.schedule(queue);
    }

    /// The time at which [`Broker::work`] has to be called, because something expires then, or is
    /// asked of the disk again. None when it is no earlier than
    /// the last answer; an answer counts until the next call of [`Broker::work`].
    pub fn take_alarm(&mut self) -> Option<Micros> {
        let retry = self.disk_waits.retry();
        self.queues.timers().alarm(self.clock.now(), retry)
    }
}
