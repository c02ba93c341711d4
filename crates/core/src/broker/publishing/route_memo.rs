//! The route that the last message of a channel took.

use crate::broker::topology::QueueId;

/// A route that is remembered for the next message with the same exchange and key. It holds while the topology and the
/// permissions stay as they were, and is kept only when the key alone decided.
#[derive(Debug)]
pub(crate) struct Memo {
    /// Exchange and key, as on the wire.
    pub(super) route: Box<[u8]>,
    pub(super) topology_version: u64,
    pub(super) permissions_version: u64,
    pub(super) queues: Box<[QueueId]>,
    /// Whether it leads to addresses.
    pub(super) is_addressed: bool,
}
