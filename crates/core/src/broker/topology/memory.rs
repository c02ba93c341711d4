//! The memory that a topology takes, by sums that are kept up to date.

use super::binding::Binding;
use super::exchange::{Condition, Exchange};
use super::{DeclaredQueue, Topology};

/// The entries of a binding in the indices by id and by ends, and in the lists of its source and destination.
const BINDING_INDEX_BYTES: usize = 40;
/// The entry of a name in the map of a vhost, with an average name.
const NAME_BYTES: usize = 80;

impl Topology {
    /// The memory of exchanges, queues, bindings and compiled queries, estimated in bytes. Cost: constant.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let bindings = self.bindings.len() * (size_of::<Binding>() + BINDING_INDEX_BYTES);
        let queues = self.queues.len() * (size_of::<DeclaredQueue>() + NAME_BYTES);
        let exchanges = self.exchanges.len() * (size_of::<Exchange>() + NAME_BYTES);
        (bindings + queues + exchanges + self.condition_bytes) as u64 + self.prices.bytes()
    }
}

impl Condition {
    /// Its memory, without that of its compiled query and its destinations.
    pub(super) fn bytes(&self) -> usize {
        let stored = self.stored.as_ref().map_or(0, |stored| stored.text.len() + stored.language.len());
        size_of::<Self>() + self.key.len() + self.arguments.len() + stored
    }
}
