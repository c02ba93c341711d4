//! Queues and exchanges that are removed, and whose bindings are still to be swept.

use super::ids::{ExchangeId, QueueId};

/// Removed queues and exchanges that still have bindings.
#[derive(Debug, Default)]
pub(super) struct RemovedParts {
    pub queues: Vec<QueueId>,
    /// Exchanges with the index of the condition at which to go on, downwards.
    pub exchanges: Vec<(ExchangeId, u32)>,
    /// Exchanges whose engines still have queries of removed conditions.
    pub queries: Vec<ExchangeId>,
}

impl RemovedParts {
    /// Whether no bindings are left.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.exchanges.is_empty()
    }

    /// The numbers of exchanges and queues.
    pub fn counts(&self) -> (usize, usize) {
        (self.exchanges.len(), self.queues.len())
    }
}
