//! The ways in which a client settles deliveries: it acknowledges, rejects or requeues them.

/// A way to settle a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// The message is done with.
    Acknowledge,
    /// The message goes back to where it was.
    Requeue,
    /// The message is dropped.
    Discard,
}

/// An ack, nack or reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settle {
    pub tag: u64,
    pub multiple: bool,
    pub settlement: Settlement,
    /// Whether it is kept for the transaction of its channel.
    pub is_kept: bool,
}
