//! What ends by itself: messages whose time runs out, queues that nobody uses.
//!
//! Entries expire at the head of their queue, before anything is delivered from it, and otherwise when the walk over
//! timed queues comes by. An entry behind one that lives longer waits until it is at the head: nobody gets it after its
//! time, but it counts until then.

use crate::broker::Broker;
use crate::broker::ids::Handle;
use crate::broker::queues::dead_letter::Reason;
use crate::broker::topology::QueueId;

/// Timed queues that are looked at in one tick; with more it takes several ticks to come round.
const QUEUES_AT_ONCE: usize = 10_000;
/// Entries that expire from one queue in one tick; the rest waits for the next, or for whoever looks at the queue.
const ENTRIES_AT_ONCE: usize = 10_000;

impl Broker {
    /// Something in this queue, or the queue itself, may expire.
    pub(crate) fn watch(&mut self, queue: QueueId) {
        let it = &mut self.queues[queue];
        if !it.is_timed {
            it.is_timed = true;
            self.timed.push(Handle { id: queue, serial: it.serial });
        }
    }

    /// Drop entries from the head of a queue whose time has run out.
    pub(crate) fn expire_head(&mut self, queue: QueueId) {
        for _ in 0..ENTRIES_AT_ONCE {
            match self.queues[queue].front() {
                Some(front) if front.expires <= self.now => {}
                _ => return,
            }
            let Some(entry) = self.pop(queue) else { return };
            self.metrics.expired += 1;
            self.discard(queue, entry, Reason::Expired);
        }
    }

    /// Walk over timed queues. One in which nothing can expire any more is taken off the list.
    pub(crate) fn expire(&mut self) {
        for _ in 0..self.timed.len().min(QUEUES_AT_ONCE) {
            if self.timed_cursor >= self.timed.len() {
                self.timed_cursor = 0;
            }
            let reference = self.timed[self.timed_cursor];
            if self.expire_in(reference) {
                self.timed_cursor += 1;
            } else {
                self.timed.swap_remove(self.timed_cursor);
            }
        }
    }

    /// Whether the queue stays on the list.
    fn expire_in(&mut self, reference: Handle<QueueId>) -> bool {
        let queue = reference.id;
        if self.queues.get(queue).is_none_or(|it| it.serial != reference.serial) {
            return false;
        }
        self.expire_head(queue);
        let now = self.now;
        let it = &mut self.queues[queue];
        it.trim();
        if let Some(expires_ms) = it.policy.expires_ms {
            if it.consumers.is_empty() && now - it.used >= expires_ms * 1000 {
                self.remove_queue(queue);
                return false;
            }
            return true;
        }
        let stays = !it.ready().is_empty() && (it.policy.message_ttl_ms.is_some() || it.has_expiring());
        it.is_timed = stays;
        stays
    }
}
