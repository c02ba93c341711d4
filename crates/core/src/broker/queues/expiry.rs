//! Expiry: messages whose time runs out, and queues that nobody uses, are removed.
//!
//! Entries expire at the head of their queue, before anything is delivered from it, and otherwise when the walk over
//! timed queues comes by. An entry behind one that lives longer waits until it is at the head: nobody gets it after its
//! time, but it counts until then.

use crate::broker::Broker;
use crate::broker::ids::Handle;
use crate::broker::queues::letter::Reason;
use crate::broker::topology::QueueId;

/// Maximum number of timed queues that are visited in one tick; with more it takes several ticks to visit all.
const QUEUES_AT_ONCE: usize = 10_000;
/// Maximum number of entries that expire from one queue in one visit; others wait for the next visit or delivery.
const ENTRIES_AT_ONCE: usize = 10_000;

impl Broker {
    /// Drop entries from the head of a queue whose time has run out.
    pub(crate) fn expire_head(&mut self, queue: QueueId) {
        for _ in 0..ENTRIES_AT_ONCE {
            match self.queues[queue].front() {
                Some(front) if front.expires <= self.clock.now() => {}
                _ => return,
            }
            let Some(entry) = self.queues.pop(queue, &self.messages) else { return };
            self.metrics.expired += 1;
            self.discard(queue, entry, Reason::Expired);
        }
    }

    /// Visit timed queues, and take those off the list in which nothing can expire any more.
    pub(crate) fn expire(&mut self) {
        for _ in 0..self.queues.timed_count().min(QUEUES_AT_ONCE) {
            let handle = self.queues.next_timed();
            let stays = self.expire_in(handle);
            self.queues.visited(stays);
        }
    }

    /// Whether the queue stays on the list.
    fn expire_in(&mut self, handle: Handle<QueueId>) -> bool {
        let queue = handle.id;
        if self.queues.queue_of(handle).is_none() {
            return false;
        }
        self.expire_head(queue);
        let now = self.clock.now();
        let it = &mut self.queues[queue];
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
