//! The numbers by which vhosts, exchanges, queues and bindings refer to each other.

use crate::broker::slab::SlotId;

/// Declares an id of the topology.
macro_rules! topology_id {
    ($(#[$meta:meta])* $vis:vis $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis struct $name(u32);

        impl SlotId for $name {
            #[inline]
            fn from_index(index: u32) -> Self {
                Self(index)
            }

            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

topology_id! {
    /// A vhost. The id is never given to another one.
    pub VhostId
}
topology_id! {
    /// A queue of any vhost. Dense, so that the contents of queues can be an array; 32 bits take half the memory of 64
    /// in a list of queues.
    ///
    /// The id is used again some time after the queue is gone: whoever removes a queue drops what refers to it before
    /// declaring the next.
    pub QueueId
}
topology_id! {
    /// An exchange of any vhost. The ids are dense and reused.
    pub(in crate::broker) ExchangeId
}
topology_id! {
    /// A binding. The ids are reused.
    pub(in crate::broker) BindingId
}
topology_id! {
    /// A condition of an exchange, which bindings share. The ids are reused.
    pub(in crate::broker) ConditionId
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
