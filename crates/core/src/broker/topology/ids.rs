//! The numbers by which vhosts, exchanges, queues and bindings refer to each other.

use crate::broker::slab::slot_ids;

slot_ids! {
    /// A vhost. The id is never given to another one.
    pub struct VhostId(u32);
    /// A queue of any vhost. Dense, so that the contents of queues can be an array; 32 bits take half the memory of 64
    /// in a list of queues.
    ///
    /// The id is used again some time after the queue is gone: whoever removes a queue drops what refers to it before
    /// declaring the next.
    pub struct QueueId(u32);
    /// An exchange of any vhost. The ids are dense and reused.
    pub(in crate::broker) struct ExchangeId(u32);
    /// A binding. The ids are reused.
    pub(in crate::broker) struct BindingId(u32);
    /// A condition of an exchange, which bindings share. The ids are reused.
    pub(in crate::broker) struct ConditionId(u32);
}

impl QueueId {
    /// The queue's index in an array.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The destination of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::broker) enum Destination {
    Queue(QueueId),
    Exchange(ExchangeId),
}

/// The connection that declares or uses an exclusive queue: any number that the caller gives it.
pub type Owner = u64;

/// No connection: what was recovered, and the queue of an address, are exclusive to none.
pub const NOBODY: Owner = Owner::MAX;
