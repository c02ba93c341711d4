//! The result of the check of a transaction: the routes of its messages, and the room that they need.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::broker::ids::Handle;
use crate::broker::topology::QueueId;

/// The queues that a message goes to, and whether some of them are of addresses. Messages that go the same way share one.
#[derive(Debug, Clone)]
pub(crate) struct CheckedRoute {
    pub queues: Arc<[Handle<QueueId>]>,
    pub is_addressed: bool,
}

/// The routes of the checked messages, and the room that they need.
#[derive(Debug, Default)]
pub(crate) struct TransactionCheck {
    routes: Vec<CheckedRoute>,
    /// Every set of queues among the routes.
    known: HashSet<Arc<[Handle<QueueId>]>>,
    route_bytes: usize,
    /// The bytes that the messages take in the journal, at most.
    pub journal_bytes: usize,
    /// The messages for each queue that refuses what does not fit: their number and bytes.
    queues: HashMap<QueueId, (u64, u64)>,
}

impl TransactionCheck {
    /// The memory of the routes.
    pub fn size_bytes(&self) -> usize {
        self.route_bytes
    }

    /// The number of messages that are checked.
    pub fn count(&self) -> usize {
        self.routes.len()
    }

    /// The routes of the messages, oldest first.
    pub fn into_routes(self) -> Vec<CheckedRoute> {
        self.routes
    }

    /// Note a message of this size for a queue that refuses what does not fit. Returns how many there are, and their bytes.
    pub fn add_to_queue(&mut self, queue: QueueId, size: usize) -> (u64, u64) {
        let (count, bytes) = self.queues.entry(queue).or_default();
        *count += 1;
        *bytes += size as u64;
        (*count, *bytes)
    }

    /// Keep the route of the next message.
    pub fn add(&mut self, queues: &[Handle<QueueId>], is_addressed: bool) {
        let queues = match self.known.get(queues) {
            Some(known) => Arc::clone(known),
            None => {
                let new: Arc<[Handle<QueueId>]> = queues.into();
                self.route_bytes += size_of_val(queues) + 4 * size_of::<CheckedRoute>();
                self.known.insert(Arc::clone(&new));
                new
            }
        };
        self.route_bytes += size_of::<CheckedRoute>();
        self.routes.push(CheckedRoute { queues, is_addressed });
    }
}
